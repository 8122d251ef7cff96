//! What waits to be reported: numbered, kept until it is answered, sent again after a re-connect.
//!
//! Only the latest status of a service is kept, and the last bad one before it: a bad sample must not be lost, since the
//! soak of a step begins again with it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rollcall_ident::{Digest, Fence, GroupName, ReleaseIdent, RolloutId};
use rollcall_steps::Milestone;
use tokio::sync::{Notify, watch};

use crate::service::{Health, ServiceStatus};

/// The log has the session closed, or another one in its place; the peer that hosts it hears of that later.
const STALE_SESSION: &str = "stale_session";

/// What the coordinator said to a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Empty: accepted, or nothing new.
    pub refusal: String,
    /// For people.
    pub message: String,
}

/// How fetching a release went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefetchOutcome {
    /// For which service.
    pub group: GroupName,
    /// Which release.
    pub release: ReleaseIdent,
    /// Empty: it lies on the disk, verified.
    pub failure: String,
    /// For people.
    pub detail: String,
    /// Of what was fetched.
    pub digest: Option<Digest>,
    /// Whether nodes that run it may go back to an earlier release.
    pub rollback: bool,
}

/// Something that happened to a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepMilestone {
    /// Of which service.
    pub group: GroupName,
    /// In which rollout.
    pub rollout: RolloutId,
    /// Of which grant.
    pub fence: Fence,
    /// In which try.
    pub attempt: u32,
    /// What.
    pub milestone: Milestone,
}

/// One report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// How a service stands.
    Status(Box<ServiceStatus>),
    /// What happened to a step.
    Step(Box<StepMilestone>),
    /// How fetching a release went.
    Prefetch(Box<PrefetchOutcome>),
}

type OnAnswer = Box<dyn FnOnce(&Answer) + Send>;

struct Entry {
    number: u64,
    report: Report,
    is_sent: bool,
    on_answer: Option<OnAnswer>,
}

/// The queue. BOUND: two statuses and one prefetch per service, and the milestones of one step each.
#[derive(Default)]
pub struct Outbox {
    queue: Mutex<Queue>,
    arrived: Notify,
    sessions: watch::Sender<u64>,
}

#[derive(Default)]
struct Queue {
    last_number: u64,
    entries: VecDeque<Entry>,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("waiting", &self.lock().entries.len()).finish()
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a status; earlier ones of the service that it makes obsolete are dropped.
    pub fn push_status(&self, status: ServiceStatus) {
        let mut queue = self.lock();
        let mut bad_is_kept = is_bad(&status);
        let mut obsolete = Vec::new();
        for entry in queue.entries.iter().rev() {
            if let Report::Status(old) = &entry.report
                && old.group == status.group
            {
                if !bad_is_kept && is_bad(old) {
                    bad_is_kept = true;
                } else {
                    obsolete.push(entry.number);
                }
            }
        }
        queue.entries.retain(|entry| !obsolete.contains(&entry.number));
        queue.push(Report::Status(Box::new(status)), None);
        self.arrived.notify_one();
    }

    /// Queues a prefetch's outcome; an earlier one of the service is obsolete.
    pub fn push_prefetch(&self, outcome: PrefetchOutcome) {
        let mut queue = self.lock();
        queue.entries.retain(|entry| match &entry.report {
            Report::Prefetch(old) => old.group != outcome.group,
            Report::Status(_) | Report::Step(_) => true,
        });
        queue.push(Report::Prefetch(Box::new(outcome)), None);
        self.arrived.notify_one();
    }

    /// Queues a milestone; `on_answer` is called with what the coordinator says to it.
    pub fn push_step(&self, milestone: StepMilestone, on_answer: impl FnOnce(&Answer) + Send + 'static) {
        self.lock().push(Report::Step(Box::new(milestone)), Some(Box::new(on_answer)));
        self.arrived.notify_one();
    }

    /// What wasn't sent in this session yet; it counts as sent now.
    pub fn take_unsent(&self) -> Vec<(u64, Report)> {
        let mut queue = self.lock();
        let unsent = queue.entries.iter_mut().filter(|entry| !entry.is_sent);
        unsent
            .map(|entry| {
                entry.is_sent = true;
                (entry.number, entry.report.clone())
            })
            .collect()
    }

    /// A new session: whatever wasn't answered is to be sent again.
    pub fn begin_session(&self) {
        self.lock().entries.iter_mut().for_each(|entry| entry.is_sent = false);
        self.sessions.send_modify(|count| *count += 1);
        self.arrived.notify_one();
    }

    /// How many sessions there were; changes with each new one. Whoever hosts it, or the cluster behind it, may not know
    /// what an earlier one was told.
    pub fn sessions(&self) -> watch::Receiver<u64> {
        self.sessions.subscribe()
    }

    /// A report was answered. Answers to what is obsolete by now are ignored. What came in a session that is over was judged
    /// by nobody: it waits for the next one.
    pub fn answer(&self, number: u64, answer: &Answer) {
        if answer.refusal == STALE_SESSION {
            return;
        }
        let entry = {
            let mut queue = self.lock();
            let index = queue.entries.iter().position(|entry| entry.number == number);
            index.and_then(|index| queue.entries.remove(index))
        };
        if let Some(on_answer) = entry.and_then(|entry| entry.on_answer) {
            on_answer(answer);
        }
    }

    /// Completes when something may have to be sent.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

impl Queue {
    fn push(&mut self, report: Report, on_answer: Option<OnAnswer>) {
        self.last_number += 1;
        self.entries.push_back(Entry { number: self.last_number, report, is_sent: false, on_answer });
    }
}

fn is_bad(status: &ServiceStatus) -> bool {
    status.health != Some(Health::Healthy)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn status(health: Health, detail: &str) -> ServiceStatus {
        let unknown = ServiceStatus::unknown("app.default".parse().unwrap());
        ServiceStatus { health: Some(health), detail: detail.to_owned(), ..unknown }
    }

    fn details(reports: Vec<(u64, Report)>) -> Vec<String> {
        let detail = |report| match report {
            Report::Status(status) => status.detail,
            Report::Step(_) => "step".to_owned(),
            Report::Prefetch(_) => "prefetch".to_owned(),
        };
        reports.into_iter().map(|(_, report)| detail(report)).collect()
    }

    fn milestone() -> StepMilestone {
        StepMilestone {
            group: "app.default".parse().unwrap(),
            rollout: RolloutId(1),
            fence: Fence(1),
            attempt: 1,
            milestone: Milestone::Accepted,
        }
    }

    #[test]
    fn only_the_latest_status_waits_and_the_last_bad_one_before_it() {
        let outbox = Outbox::default();
        for (health, detail) in [
            (Health::Healthy, "1"),
            (Health::Critical, "2"),
            (Health::Healthy, "3"),
            (Health::Critical, "4"),
            (Health::Healthy, "5"),
            (Health::Healthy, "6"),
        ] {
            outbox.push_status(status(health, detail));
        }
        assert_eq!(details(outbox.take_unsent()), ["4", "6"]);
        outbox.push_status(status(Health::Unknown, "7"));
        outbox.begin_session();
        assert_eq!(details(outbox.take_unsent()), ["7"]);
    }

    #[test]
    fn what_is_unanswered_is_sent_again_in_order() {
        let outbox = Outbox::default();
        outbox.push_step(milestone(), |_| {});
        outbox.push_status(status(Health::Healthy, "s"));
        let first = outbox.take_unsent();
        assert!(outbox.take_unsent().is_empty());
        outbox.begin_session();
        assert_eq!(outbox.take_unsent(), first);
    }

    #[test]
    fn an_answer_ends_a_report_and_is_heard() {
        let outbox = Outbox::default();
        let heard = Arc::new(AtomicBool::new(false));
        let heard_too = Arc::clone(&heard);
        outbox.push_step(milestone(), move |answer| heard_too.store(answer.refusal == "stale_fence", Ordering::SeqCst));
        let number = outbox.take_unsent()[0].0;
        outbox.answer(number + 1, &Answer { refusal: String::new(), message: String::new() });
        outbox.answer(number, &Answer { refusal: "stale_fence".to_owned(), message: String::new() });
        assert!(heard.load(Ordering::SeqCst));
        outbox.begin_session();
        assert!(outbox.take_unsent().is_empty());
    }

    #[test]
    fn what_a_session_said_after_its_end_is_said_again_in_the_next_one() {
        let outbox = Outbox::default();
        let heard = Arc::new(AtomicBool::new(false));
        let heard_too = Arc::clone(&heard);
        outbox.push_step(milestone(), move |_| heard_too.store(true, Ordering::SeqCst));
        let first = outbox.take_unsent();
        outbox.answer(first[0].0, &Answer { refusal: STALE_SESSION.to_owned(), message: String::new() });
        assert!(!heard.load(Ordering::SeqCst), "the log hasn't judged it");
        assert!(outbox.take_unsent().is_empty(), "not in the session that is over");
        outbox.begin_session();
        assert_eq!(outbox.take_unsent(), first);
    }
}
