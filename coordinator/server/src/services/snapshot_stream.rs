//! A snapshot on its way to whoever asked for it.

use std::time::Duration;

use futures::Stream;
use rollcall_proto::v1;
use rollcall_proto::v1::save_snapshot_response::Part;
use tokio::time::Instant;
use tonic::Status;

use super::api::Api;
use crate::convert;
use crate::raft::{Export, ExportTurn};

/// BOUND: bytes of one message.
const CHUNK_BYTES: usize = 1 << 20;

/// BOUND: for the history to get to where the state is.
const CATCH_UP: Duration = Duration::from_secs(10);

/// The head, the file, its end. Whoever hears no end has no snapshot.
pub fn stream(
    api: Api,
    cluster_id: String,
    answering_peer_id: u64,
    turn: ExportTurn,
) -> impl Stream<Item = Result<v1::SaveSnapshotResponse, Status>> + Send {
    async_stream::try_stream! {
        let export: Export =
            turn.write(Instant::now() + CATCH_UP).await.map_err(|error| convert::not_exported(&error))?;
        let (revision, bytes) = (export.revision.0, export.bytes());
        yield part(Part::Head(v1::SnapshotHead { cluster_id, revision, bytes, answering_peer_id }));
        let (mut hasher, mut offset) = (blake3::Hasher::new(), 0);
        while offset < bytes {
            if api.stopping().is_cancelled() {
                Err(convert::retry_later("stopping", "the peer is stopping; ask another"))?;
            }
            let chunk = export.read_chunk(offset, CHUNK_BYTES).await;
            let chunk = chunk.map_err(|error| Status::internal(format!("the snapshot can't be read: {error}")))?;
            hasher.update(&chunk);
            offset += chunk.len() as u64;
            yield part(Part::Chunk(chunk.into()));
        }
        yield part(Part::End(v1::SnapshotEnd { digest: hasher.finalize().as_bytes().to_vec() }));
    }
}

fn part(part: Part) -> v1::SaveSnapshotResponse {
    v1::SaveSnapshotResponse { part: Some(part) }
}
