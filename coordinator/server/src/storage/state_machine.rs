//! The replicated state of a peer: held in memory, rebuilt from the newest snapshot and the log behind it.
//!
//! # Invariants
//! - A new state is published before anybody is told that their command was applied: who got an answer and reads on the
//!   same peer sees what it did.
//! - A batch becomes visible as a whole, with the log id it ends at.
//! - Nothing here decides anything: [`State::apply`] does, and it is pure.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt as _};
use openraft::storage::{ApplyResponder, EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use rollcall_ident::Revision;
use rollcall_rollout::{Applied, ChainedRecord, State};
use tokio::sync::watch;

use super::error::StorageError;
use super::history::History;
use super::recover::fill_history;
use super::snapshot_build::SnapshotBuilder;
use super::snapshot_file::SnapshotFile;
use super::snapshot_store::{SnapshotStore, off_the_runtime};
use super::types::{Entry, LogId, Snapshot, SnapshotMeta, StoredMembership, TypeConfig};

/// BOUND: entries that become visible together, and whose answers wait for each other.
const APPLY_BATCH: usize = 256;

/// What has been applied on this peer. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct AppliedState {
    /// The state after that entry.
    pub state: Arc<State>,
    /// The last entry that was applied.
    pub last_applied: Option<LogId>,
    /// The membership at that entry.
    pub membership: StoredMembership,
}

impl AppliedState {
    /// The index of the last entry: the revision of this state.
    pub fn revision(&self) -> Revision {
        revision_of(self.last_applied.as_ref())
    }

    pub(super) fn from_snapshot(meta: &SnapshotMeta, state: State) -> Self {
        Self { state: Arc::new(state), last_applied: meta.last_log_id, membership: meta.last_membership.clone() }
    }

    pub(super) fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: self.last_applied, last_membership: self.membership.clone() }
    }
}

fn revision_of(last: Option<&LogId>) -> Revision {
    Revision(last.map_or(0, |last| last.index))
}

/// Is told how long each entry took to be applied.
pub type ApplyObserver = Arc<dyn Fn(Duration) + Send + Sync>;

/// Applies the log, behind openraft's traits.
pub struct StateMachine {
    state: State,
    publish: watch::Sender<AppliedState>,
    history: History,
    snapshots: SnapshotStore,
    observer: Option<ApplyObserver>,
}

impl StateMachine {
    pub(super) fn new(start: AppliedState, history: History, snapshots: SnapshotStore) -> Self {
        let state = State::clone(&start.state);
        Self { state, publish: watch::Sender::new(start), history, snapshots, observer: None }
    }

    /// The same, with somebody who is told how long entries take.
    pub fn observed_by(self, observer: Option<ApplyObserver>) -> Self {
        Self { observer, ..self }
    }

    /// What has been applied, now and from now on.
    pub fn subscribe(&self) -> watch::Receiver<AppliedState> {
        self.publish.subscribe()
    }

    /// Applies the entries of a batch, publishes the state behind them, and answers who waits.
    async fn apply_batch(&mut self, batch: Vec<EntryResponder<TypeConfig>>) {
        let Some((last, _)) = batch.last() else { return };
        let last_applied = last.log_id;
        let (mut membership, mut records, mut answers) = (None, Vec::new(), Vec::new());
        for (entry, responder) in batch {
            let previous = self.state.audit_head();
            let applied = self.apply_entry(entry, &mut membership);
            if let Some(applied) = &applied
                && self.state.audit_head() != previous
            {
                let hash = self.state.audit_head().hash;
                records.push(ChainedRecord { previous, record: applied.record.clone(), hash });
            }
            if let Some(responder) = responder {
                answers.push((responder, applied));
            }
        }
        let state = Arc::new(self.state.clone());
        self.publish.send_modify(|published| {
            published.state = state;
            published.last_applied = Some(last_applied);
            if let Some(membership) = membership {
                published.membership = membership;
            }
        });
        self.history.append(records, Revision(last_applied.index), self.state.audit_head()).await;
        // ORDER: answered last, so that an answer never runs ahead of what can be read here.
        for (responder, applied) in answers {
            answer(responder, applied);
        }
    }

    fn apply_entry(&mut self, entry: Entry, membership: &mut Option<StoredMembership>) -> Option<Applied> {
        match entry.payload {
            EntryPayload::Blank => None,
            EntryPayload::Normal(proposal) => {
                let begun = Instant::now();
                let applied = self.state.apply(Revision(entry.log_id.index), &proposal.0);
                if let Some(observer) = &self.observer {
                    observer(begun.elapsed());
                }
                Some(applied)
            }
            EntryPayload::Membership(new) => {
                *membership = Some(StoredMembership::new(Some(entry.log_id), new));
                None
            }
        }
    }
}

/// INVARIANT: an entry that this build doesn't know how to apply ends it, and isn't skipped.
fn check_level(item: EntryResponder<TypeConfig>) -> io::Result<EntryResponder<TypeConfig>> {
    if let EntryPayload::Normal(proposal) = &item.0.payload {
        proposal.0.check_level().map_err(StorageError::from)?;
    }
    Ok(item)
}

fn answer(responder: ApplyResponder<TypeConfig>, applied: Option<Applied>) {
    responder.send(applied);
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let applied = self.publish.borrow();
        Ok((applied.last_applied, applied.membership.clone()))
    }

    async fn apply<Strm>(&mut self, entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        let mut batches = entries.ready_chunks(APPLY_BATCH);
        while let Some(items) = batches.next().await {
            let (mut batch, mut failure) = (Vec::with_capacity(items.len()), None);
            for item in items {
                match item.and_then(check_level) {
                    Ok(entry) if failure.is_none() => batch.push(entry),
                    Ok(_) => {}
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            self.apply_batch(batch).await;
            if let Some(error) = failure {
                return Err(error);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        SnapshotBuilder::new(self.publish.borrow().clone(), self.history.clone(), self.snapshots.clone())
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotFile) -> Result<(), io::Error> {
        let (store, history, announced) = (self.snapshots.clone(), self.history.clone(), meta.clone());
        let state = off_the_runtime(move || {
            let (contents, file) = store.install(&announced, &snapshot)?;
            // CRASH: the snapshot is installed and the history is half filled: the next start sees that it doesn't reach
            // the snapshot, and fills it again.
            fill_history(&history, &file, &contents)?;
            Ok(contents.state)
        })
        .await?;
        self.state = state.clone();
        self.publish.send_replace(AppliedState::from_snapshot(meta, state));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        Ok(self.snapshots.current())
    }
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let builder = self.clone();
        off_the_runtime(move || builder.build()).await
    }
}
