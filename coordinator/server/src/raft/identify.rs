//! Asking a peer who it is: also one that is only just being started, as peers are when a cluster is made of them.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::{Lane, PeerClient};
use super::wire::{BodyV1, IdentityV1, ReplyV1};

/// BOUND: for a peer to say who it is.
const ASK: Duration = Duration::from_secs(2);

/// BOUND: for a peer that was started together with the one that asks to listen. The CLI gives a call ten seconds.
const ARRIVES: Duration = Duration::from_secs(5);

/// Between two tries to connect to a peer that doesn't listen yet.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// The identity of the peer behind `client`. An error says in words why there is no answer.
pub(super) async fn identify(client: &PeerClient) -> Result<IdentityV1, String> {
    let deadline = Instant::now() + ARRIVES;
    loop {
        match client.call(Lane::Control, BodyV1::Identify, ASK).await {
            Ok(ReplyV1::Identity(identity)) => return Ok(identity),
            Ok(other) => return Err(client.unexpected(&other).to_string()),
            Err(error) if error.is_unsent() && Instant::now() + TRY_AGAIN < deadline => sleep(TRY_AGAIN).await,
            Err(error) => return Err(error.to_string()),
        }
    }
}
