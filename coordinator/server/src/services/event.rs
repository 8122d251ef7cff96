//! `EventService`.

use rollcall_ident::{GroupName, Revision};
use rollcall_proto::v1;
use rollcall_proto::v1::event_service_server::EventService;
use rollcall_rollout::Event;
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Response, Status};

use super::Answers;
use super::api::{Api, Call};
use super::event_watch::watch;
use crate::convert;
use crate::raft::Consensus;
use crate::storage::{History, HistoryError, HistoryPage};

/// BOUND: events of an answer, by default and at most.
const EVENTS: (usize, usize) = (1_000, 5_000);

/// BOUND: records read at once.
pub(super) const RECORDS: usize = 512;

/// BOUND: records looked at for one answer, wanted or not; whoever wants more goes on from there.
const MAX_LOOKED_AT: usize = 20_000;

/// The log for people and programs.
pub struct Events(pub Api);

#[tonic::async_trait]
impl EventService for Events {
    async fn list(&self, request: Request<v1::ListEventsRequest>) -> Result<Response<v1::ListEventsResponse>, Status> {
        let call = Call::of(&request);
        let v1::ListEventsRequest { since_revision, group, limit } = request.into_inner();
        let group = convert::optional::<GroupName>("group", &group)?;
        let limit = convert::page_size(limit, EVENTS.0, EVENTS.1);
        let consensus = self.0.consensus()?;
        catch_up(&consensus, call.deadline).await;
        let mut from = first(consensus.history(), since_revision);
        let mut found = v1::ListEventsResponse { revision: since_revision, events: Vec::new() };
        let mut looked_at = 0;
        while looked_at < MAX_LOOKED_AT {
            let page = read(consensus.history(), from).await?;
            looked_at += page.records.len();
            for record in &page.records {
                if found.events.len() >= limit {
                    return Ok(Response::new(found));
                }
                found.events.extend(convert::events(record, group.as_ref()));
                found.revision = record.revision.0;
            }
            // Behind the last record there was nothing, up to here.
            found.revision = page.next.0.saturating_sub(1).max(found.revision);
            from = page.next;
            if page.next > page.applied {
                break;
            }
        }
        Ok(Response::new(found))
    }

    type WatchStream = Answers<v1::WatchEventsResponse>;

    async fn watch(&self, request: Request<v1::WatchEventsRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let v1::WatchEventsRequest { since_revision, group } = request.into_inner();
        let group = convert::optional::<GroupName>("group", &group)?;
        let history = self.0.consensus()?.history().clone();
        // What is asked for must be there, and whoever asks is told at once.
        let from = first(&history, since_revision);
        read(&history, from).await?;
        Ok(Response::new(Box::pin(watch(history, self.0.stopping().clone(), from, group))))
    }
}

/// Where reading begins: behind what was seen, or with the oldest that is kept.
fn first(history: &History, since_revision: u64) -> Revision {
    let since = if since_revision == 0 { history.bounds().floor.0 } else { since_revision };
    Revision(since.saturating_add(1))
}

/// A page of records from a revision on.
pub(super) async fn read(history: &History, from: Revision) -> Result<HistoryPage, Status> {
    history.read(from, RECORDS).await.map_err(|error: HistoryError| convert::compacted(&error))
}

/// The events of a revision that this peer has applied; none where its history doesn't keep them.
pub(super) async fn events_at(consensus: &Consensus, revision: Revision, deadline: Instant) -> Vec<Event> {
    let history = consensus.history();
    let mut bounds = history.subscribe();
    // What is applied is in the history a moment later.
    let _ = timeout_at(deadline, bounds.wait_for(|bounds| bounds.applied >= revision)).await;
    match history.read(revision, 1).await {
        Ok(page) => {
            page.records.into_iter().filter(|record| record.revision == revision).flat_map(|it| it.events).collect()
        }
        Err(error) => {
            tracing::debug!(%error, %revision, "the events of a revision can't be shown");
            Vec::new()
        }
    }
}

/// Waits for what was acknowledged before the call, as far as a leader is there to say what that is.
async fn catch_up(consensus: &Consensus, deadline: Instant) {
    if consensus.leadership().borrow().is_none() {
        return;
    }
    if let Ok(view) = consensus.read(deadline).await {
        let mut bounds = consensus.history().subscribe();
        // A history that is behind for so long is shown as far as it is.
        let _ = timeout_at(deadline, bounds.wait_for(|bounds| bounds.applied >= view.revision)).await;
    }
}
