//! `rollcall-coordinator cluster recover` and `snapshot restore`: a new cluster of one peer's data, or of a saved snapshot,
//! and what came of it as JSON. No peer may run on the folder.

use std::path::Path;

use rollcall_ident::ClusterId;
use rollcall_rollout::Actor;
use serde_json::{Value, json};

use crate::config::{Origin, RefoundArgs};
use crate::storage::{RefoundError, Refounded, Refounding, Remains, look_at_peer, refound_peer, refound_snapshot};
use crate::world::wall_clock;

/// Why no new cluster was made. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RefoundCommandError {
    /// The files don't allow it.
    #[error(transparent)]
    Refound(#[from] RefoundError),
    /// Nobody has said that the majority is lost.
    #[error(
        "nothing was changed. {} holds peer {peer} of cluster {cluster}, whose voters are {voters}, with everything up to \
         revision {revision} (term {term}). `--force` makes a new cluster of it, of which the other peers are no members: \
         only where a majority of them is lost for good, since every change that none but they have is lost with them. \
         Compare what each peer that is left has, and take the one with the highest term, and among those the highest \
         revision",
        path.display()
    )]
    NotForced {
        /// The data directory.
        path: std::path::PathBuf,
        /// The peer in it.
        peer: u64,
        /// Its cluster.
        cluster: ClusterId,
        /// Who votes there.
        voters: String,
        /// The last entry.
        revision: u64,
        /// The term of its leader.
        term: u64,
    },
    /// The address isn't one.
    #[error("{address:?} is not an address to advertise: {expected}")]
    Address {
        /// What was given.
        address: String,
        /// What would be one.
        expected: String,
    },
}

/// Makes a new cluster of a stopped peer's data directory.
///
/// # Errors
/// [`RefoundCommandError`] names what stands in the way, and the way out.
pub fn peer(path: &Path, args: RefoundArgs, force: bool) -> Result<Value, RefoundCommandError> {
    if !force {
        let (identity, Remains { revision, term, voters, .. }) = look_at_peer(path)?;
        let voters = voters.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(RefoundCommandError::NotForced {
            path: path.to_owned(),
            peer: identity.peer.0,
            cluster: identity.cluster,
            voters,
            revision: revision.0,
            term,
        });
    }
    Ok(described(path, refound_peer(path, &refounding(args)?)?))
}

/// Makes a new cluster of a saved snapshot, in an empty data directory.
///
/// # Errors
/// [`RefoundCommandError`] names what stands in the way, and the way out.
pub fn snapshot(file: &Path, path: &Path, args: RefoundArgs) -> Result<Value, RefoundCommandError> {
    Ok(described(path, refound_snapshot(file, path, &refounding(args)?)?))
}

fn refounding(args: RefoundArgs) -> Result<Refounding, RefoundCommandError> {
    let RefoundArgs { advertise: address, origin: Origin { actor, reason } } = args;
    if let Some(address) = &address {
        crate::raft::check_address(address)
            .map_err(|expected| RefoundCommandError::Address { address: address.clone(), expected })?;
    }
    let cluster = ClusterId(uuid::Uuid::new_v4().into_bytes());
    Ok(Refounding { cluster, address, actor: Actor(actor), reason, wall_time: wall_clock() })
}

/// In the words that `coordinator/cli/README.md` promises.
fn described(path: &Path, refounded: Refounded) -> Value {
    let Refounded { identity, address, revision, remains, given_up, freeze, former_files } = refounded;
    json!({
        "data_dir": path,
        "cluster_id": identity.cluster.to_string(),
        "former_cluster_id": remains.cluster.map(|id| id.to_string()),
        "peer_id": identity.peer.to_string(),
        "address": Some(address).filter(|address| !address.is_empty()),
        "revision": revision.0,
        "former_revision": remains.revision.0,
        "former_term": remains.term,
        "given_up_peer_ids": given_up.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "freeze_id": freeze.to_string(),
        "former_files": former_files,
    })
}
