//! Making a new cluster: this peer becomes its first voter, then takes the others in, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::errors::{InitializeError, RaftError};
use rollcall_ident::{ClusterId, PeerId};
use rollcall_rollout::{Command, Rejection, Reply};
use tokio::time::Instant;

use super::api::{MembershipError, Origin};
use super::client::{Clients, check_address};
use super::consensus::Consensus;
use super::identify::identify;
use super::peer::Peer;
use super::wire;
use crate::storage::Identity;
use crate::storage::types::PeerNode;
use crate::world;

/// The peer that makes the cluster. No later peer gets this id: entry 1 of the log is the first leader's blank one.
const FIRST: PeerId = PeerId(1);

/// BOUND: for the first peer to elect itself and write.
const FIRST_WRITES: Duration = Duration::from_secs(15);

impl Peer {
    /// Makes a new cluster of this blank peer and the blank peers at `others`. Returns once all of them vote.
    ///
    /// All are asked first, and nothing is made unless all are there and blank. If it is interrupted later, the cluster
    /// exists, and `add_peer` takes in who is missing.
    ///
    /// # Errors
    /// [`MembershipError`] names the peer that stands in the way.
    pub async fn init_cluster(&self, others: &[String], origin: Origin) -> Result<ClusterId, MembershipError> {
        let consensus = {
            let _one_at_a_time = self.inner.becoming.lock().await;
            let identity = match self.consensus() {
                Some(consensus) => unfinished_identity(&consensus)?,
                None => Identity { cluster: ClusterId(world::random_id().into_bytes()), peer: FIRST },
            };
            self.ask_all_blank(identity, others).await?;
            let consensus = match self.consensus() {
                Some(consensus) => consensus,
                None => self.become_durably(identity).await.map_err(|error| unfinished(error.to_string()))?,
            };
            self.write_first(&consensus, &origin).await?;
            consensus
        };
        for address in others {
            consensus.add_peer(address, origin.clone()).await?;
        }
        Ok(consensus.cluster_id())
    }

    async fn ask_all_blank(&self, me: Identity, others: &[String]) -> Result<(), MembershipError> {
        let mut seen = BTreeSet::from([self.address()]);
        for address in others {
            let bad = |expected: &str| MembershipError::BadAddress {
                address: address.clone(),
                expected: expected.to_owned(),
            };
            check_address(address).map_err(|expected| bad(&expected))?;
            if !seen.insert(address) {
                return Err(bad("an address of another peer, named once"));
            }
        }
        let clients = Clients::new(me);
        for address in others {
            let unreachable = |what| MembershipError::Unreachable { address: address.clone(), what };
            let client = clients.to(wire::ANYBODY, address).map_err(unreachable)?;
            match identify(&client).await.map_err(unreachable)?.known_as {
                None => {}
                // It was taken in before the making was interrupted.
                Some((theirs, _)) if theirs == me.cluster => {}
                Some((theirs, peer)) => {
                    return Err(MembershipError::OtherCluster {
                        address: address.clone(),
                        theirs,
                        peer,
                        ours: me.cluster,
                    });
                }
            }
        }
        Ok(())
    }

    /// The first membership, and the registration of the first peer.
    async fn write_first(&self, consensus: &Consensus, origin: &Origin) -> Result<(), MembershipError> {
        let node = PeerNode { grpc_addr: self.address().to_owned() };
        match consensus.inner.raft.initialize(BTreeMap::from([(FIRST.0, node)])).await {
            // An earlier try got so far.
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
            Err(error) => return Err(unfinished(error.to_string())),
        }
        let deadline = Instant::now() + FIRST_WRITES;
        let cluster_id = consensus.cluster_id();
        let first = propose_first(consensus, origin, Command::InitCluster { cluster_id }, deadline).await?;
        match first {
            Ok(_) => {}
            Err(Rejection::AlreadyInitialized(known)) if known == cluster_id => {}
            Err(rejection) => return Err(refused(rejection.to_string())),
        }
        let own = Command::AddPeer { address: self.address().to_owned() };
        match propose_first(consensus, origin, own, deadline).await? {
            Ok(Reply::PeerAdded(FIRST)) | Err(Rejection::PeerAddressTaken { peer: FIRST, .. }) => Ok(()),
            Ok(other) => Err(refused(format!("the registry answers {other:?}"))),
            Err(rejection) => Err(refused(rejection.to_string())),
        }
    }
}

async fn propose_first(
    consensus: &Consensus,
    origin: &Origin,
    command: Command,
    deadline: Instant,
) -> Result<Result<Reply, Rejection>, MembershipError> {
    let applied = consensus.propose_until(origin.proposal(command), deadline).await;
    applied.map(|applied| applied.outcome).map_err(|error| unfinished(error.to_string()))
}

/// A first peer whose making was interrupted before it wrote anything goes on; every other has its cluster.
fn unfinished_identity(consensus: &Consensus) -> Result<Identity, MembershipError> {
    let identity = consensus.inner.identity;
    let written = consensus.state().state.peers().contains_key(&FIRST);
    if identity.peer == FIRST && !written {
        return Ok(identity);
    }
    Err(MembershipError::AlreadyInitialised { cluster: identity.cluster, peer: identity.peer })
}

fn unfinished(what: String) -> MembershipError {
    MembershipError::Unfinished { what }
}

fn refused(what: String) -> MembershipError {
    MembershipError::Refused { what }
}
