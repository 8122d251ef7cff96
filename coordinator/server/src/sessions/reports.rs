//! Reports of all sessions of this peer, on their way into the log: while one proposal is under way the next batch
//! gathers, so a lone report waits for nobody and many share one entry.

use std::time::Duration;

use rollcall_proto::v1;
use rollcall_rollout::{Applied, Command, NodeReport, Proposal, Rejection, Reply, Report, ServiceStatus, StepEvent};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::ToAgent;
use super::session::message;
use crate::raft::{Consensus, NotProposed, ProposeError};

/// BOUND: reports that wait for the batch under way; who has more waits too, and reads nothing more from its agent.
pub(super) const QUEUE: usize = 4_096;

/// BOUND: reports of one entry: applying it must not keep others waiting.
const BATCH: usize = 1_000;

/// BOUND: bytes of one entry, well below what consensus takes: a failure carries 4 KiB of output.
const BATCH_BYTES: usize = 256 << 10;

/// Between two tries, unless leadership changes.
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_LAST: Duration = Duration::from_millis(250);

/// A report that waits.
pub(super) struct Queued {
    pub number: u64,
    pub report: NodeReport,
    /// Where its answer goes; there is room for it.
    pub answer: mpsc::OwnedPermit<ToAgent>,
    /// Its session is over: nobody waits for the answer.
    pub over: CancellationToken,
}

/// Proposes reports, one batch after the other.
pub(super) struct Batcher {
    consensus: Consensus,
    stopping: CancellationToken,
}

impl Batcher {
    pub fn new(consensus: Consensus, stopping: CancellationToken) -> Self {
        Self { consensus, stopping }
    }

    /// Proposes what comes, for as long as the peer runs.
    pub async fn run(self, mut queue: mpsc::Receiver<Queued>) {
        let mut waiting = Vec::new();
        loop {
            let work = async {
                if waiting.is_empty() {
                    queue.recv_many(&mut waiting, BATCH).await;
                }
                let batch = cut(&mut waiting);
                self.propose(batch).await;
            };
            tokio::select! {
                () = work => {}
                () = self.stopping.cancelled() => return,
            }
            if waiting.is_empty() && queue.is_closed() && queue.is_empty() {
                return;
            }
        }
    }

    /// Proposes a batch until it has an outcome. In doubt it is proposed again: what the log has heard already is
    /// accepted without effect.
    ///
    /// ORDER: the next batch waits, so reports of one session never overtake each other.
    async fn propose(&self, mut batch: Vec<Queued>) {
        let mut leadership = self.consensus.leadership();
        let mut pause = RETRY_FIRST;
        loop {
            batch.retain(|queued| !queued.over.is_cancelled());
            if batch.is_empty() {
                return;
            }
            leadership.mark_unchanged();
            let reports = batch.iter().map(|queued| queued.report.clone()).collect();
            match self.consensus.propose(Proposal::internal(Command::Reports { reports })).await {
                Ok(applied) => return answer(batch, &applied),
                Err(ProposeError::NotProposed { reason: NotProposed::Stopping }) => return,
                Err(error) => tracing::debug!(%error, reports = batch.len(), "reports aren't in the log yet"),
            }
            tokio::select! {
                () = sleep(pause) => {}
                // This peer has stopped for good.
                changed = leadership.changed() => if changed.is_err() { return },
            }
            pause = (pause * 2).min(RETRY_LAST);
        }
    }
}

/// As many as one entry may carry, the first of them at least.
fn cut(waiting: &mut Vec<Queued>) -> Vec<Queued> {
    let mut bytes = 0;
    let fits = waiting.iter().take_while(|queued| {
        bytes += size(&queued.report.report);
        bytes <= BATCH_BYTES
    });
    let count = fits.count().max(1).min(waiting.len());
    waiting.drain(..count).collect()
}

/// About how many bytes a report takes; what it is made of was bounded when it was read.
fn size(report: &Report) -> usize {
    const NAMES: usize = 512;
    NAMES
        + match report {
            Report::Status(ServiceStatus { health_detail, .. }) => health_detail.len(),
            Report::Step(step) => match &step.event {
                StepEvent::Failed { reason, detail, output, .. } => reason.len() + detail.len() + output.len(),
                _ => 0,
            },
            Report::Prefetch(prefetch) => match &prefetch.outcome {
                Ok(_) => 0,
                Err((reason, detail)) => reason.len() + detail.len(),
            },
        }
}

/// Each report has its own answer in the reply.
fn answer(batch: Vec<Queued>, applied: &Applied) {
    let outcomes: Vec<Result<(), Rejection>> = match &applied.outcome {
        Ok(Reply::Reported(outcomes)) => outcomes.clone(),
        Ok(other) => {
            tracing::error!(?other, "the log answers reports with something else");
            return;
        }
        Err(rejection) => vec![Err(rejection.clone()); batch.len()],
    };
    for (queued, outcome) in batch.into_iter().zip(outcomes) {
        let (refusal, text) = match outcome {
            Ok(()) => (String::new(), String::new()),
            Err(rejection) => (rejection.name().to_owned(), rejection.to_string()),
        };
        let answer = v1::ReportAnswer { number: queued.number, refusal, message: text, revision: applied.revision.0 };
        queued.answer.send(Ok(message(v1::peer_message::Kind::Answer(answer))));
    }
}
