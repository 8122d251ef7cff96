//! The way to one peer, and to no other: who asks through it knows who answered.

use std::time::Duration;

use anyhow::{Context, Result};
use tonic::transport::{Channel, Endpoint};

/// BOUND: how long a connection may take to be made.
const CONNECTS_WITHIN: Duration = Duration::from_millis(500);

/// A peer as clients see it.
#[derive(Debug, Clone)]
pub struct Door {
    /// The peer's name.
    pub name: String,
    /// host:port.
    pub address: String,
    /// The connection, made when it is needed.
    pub channel: Channel,
}

impl Door {
    /// To the peer at `address`.
    pub fn to(name: &str, address: &str) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .with_context(|| format!("{address} is no address"))?
            .connect_timeout(CONNECTS_WITHIN)
            // A machine that lost its power says nothing of it.
            .http2_keep_alive_interval(Duration::from_secs(1))
            .keep_alive_timeout(Duration::from_secs(1));
        Ok(Self { name: name.to_owned(), address: address.to_owned(), channel: endpoint.connect_lazy() })
    }
}

/// A message that is answered within `time`, or not at all.
pub fn within<T>(time: Duration, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(time);
    request
}
