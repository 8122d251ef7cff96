//! Following the events: those from a revision on, then each as it happens.
//!
//! # Invariants
//! - No gap, no duplicate, no reordering: the history is read page by page behind the last revision that was sent, and
//!   all events of one revision are one message.

use futures::Stream;
use rollcall_ident::{GroupName, Revision};
use rollcall_proto::v1;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::event::read;
use crate::convert;
use crate::storage::History;

/// A watch whose group is quiet moves its cursor on after so many revisions, so that it isn't compacted away.
const PROGRESS_EVERY: u64 = 1_000;

/// Events from `from` on, until `stopping`.
pub fn watch(
    history: History,
    stopping: CancellationToken,
    from: Revision,
    group: Option<GroupName>,
) -> impl Stream<Item = Result<v1::WatchEventsResponse, Status>> + Send {
    async_stream::try_stream! {
        let mut bounds = history.subscribe();
        let mut next = from;
        let mut told = None;
        loop {
            bounds.mark_unchanged();
            let page = read(&history, next).await?;
            for record in page.records.iter().map(|chained| &chained.record) {
                let events = convert::events(record, group.as_ref());
                if !events.is_empty() {
                    told = Some(record.revision.0);
                    yield v1::WatchEventsResponse { revision: record.revision.0, events };
                }
            }
            next = page.next;
            if page.next <= page.applied {
                continue;
            }
            let seen = next.0.saturating_sub(1);
            if told.is_none_or(|told| seen >= told + PROGRESS_EVERY) {
                told = Some(seen);
                yield v1::WatchEventsResponse { revision: seen, events: Vec::new() };
            }
            let more = tokio::select! {
                more = bounds.wait_for(|bounds| bounds.applied >= next) => more.is_ok(),
                () = stopping.cancelled() => false,
            };
            if !more {
                Err(convert::retry_later("stopping", "the peer is stopping; resume at another"))?;
            }
        }
    }
}
