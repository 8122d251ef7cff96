//! The health of the process that runs, from samples.
//!
//! # Invariants
//! - A sample names the instance that it sampled; one of an old instance never counts for the new.
//! - An exit is critical at once, without waiting for a sample.

use std::sync::Arc;
use std::time::Duration;

use rollcall_steps::Instance;
use tokio::sync::watch;
use tokio::time::Instant;

use super::ServiceContext;
use super::orders::HealthRules;
use super::sample::{Sample, UP_IS_HEALTHY_AFTER, take_sample};
use crate::driver::{Backoff, ProcessView};

/// While a step soaks every sample counts, so they come steadily: often enough that a short outage is seen, seldom
/// enough that a check which forks a few processes costs nothing.
const SOAK_INTERVAL: Duration = Duration::from_secs(1);

const FIRST_DELAY: Duration = Duration::from_millis(250);

/// How a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Health {
    Healthy,
    Warning,
    Critical,
    Unknown,
}

/// How fast samples come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// At the configured interval.
    #[default]
    Idle,
    /// A step verifies: by back-off until healthy, then steadily.
    Verifying,
}

/// What the sampler goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HealthSettings {
    /// How samples become health.
    pub rules: HealthRules,
    /// How fast they come.
    pub pace: Pace,
}

impl HealthSettings {
    /// Whether nothing is new but that no step waits any more: nothing asks for a look just then.
    fn is_calmer_than(self, before: Self) -> bool {
        self.rules == before.rules && self.pace == Pace::Idle && before.pace == Pace::Verifying
    }
}

/// The health as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthView {
    /// The instance that it is about; none: no process runs.
    pub instance: Option<Instance>,
    /// How it is.
    pub health: Health,
    /// Why it isn't healthy.
    pub detail: String,
    /// The service says that it is the primary.
    pub primary: bool,
    /// What `suitability` says.
    pub priority: Option<u64>,
    /// A process that was re-adopted hasn't been looked at yet: nothing is known, so nothing is reported. An agent that is
    /// restarted must not make a healthy member look bad.
    pub is_pending: bool,
}

impl Default for HealthView {
    fn default() -> Self {
        let detail = "not running".to_owned();
        Self { instance: None, health: Health::Critical, detail, primary: false, priority: None, is_pending: false }
    }
}

impl HealthView {
    /// Before anything is known.
    pub(super) fn pending() -> Self {
        Self { is_pending: true, ..Self::default() }
    }

    fn unsampled(instance: &Instance) -> Self {
        let detail = "not sampled yet".to_owned();
        Self { instance: Some(instance.clone()), health: Health::Unknown, detail, ..Self::default() }
    }
}

impl Health {
    /// Whether it counts as healthy by these rules.
    #[must_use]
    pub fn is_good(self, rules: HealthRules) -> bool {
        match self {
            Self::Healthy => true,
            Self::Warning => rules.warning_is_good,
            Self::Critical | Self::Unknown => false,
        }
    }
}

/// Thresholds: so many in a row.
#[derive(Debug, Default)]
struct Streaks {
    good: u32,
    bad: u32,
}

impl Streaks {
    /// What the health becomes after a sample, where it was `before`.
    fn judge(&mut self, sample: Health, before: Health, rules: HealthRules) -> Health {
        if sample.is_good(rules) {
            (self.good, self.bad) = (self.good.saturating_add(1), 0);
            if before.is_good(rules) || self.good >= rules.success_threshold { sample } else { before }
        } else {
            (self.good, self.bad) = (0, self.bad.saturating_add(1));
            if !before.is_good(rules) || self.bad >= rules.failure_threshold { sample } else { before }
        }
    }
}

/// Samples for ever.
pub(super) async fn watch_health(
    context: Arc<ServiceContext>,
    mut process: watch::Receiver<ProcessView>,
    mut settings: watch::Receiver<HealthSettings>,
    view: watch::Sender<HealthView>,
) {
    loop {
        let seen = process.borrow_and_update().clone();
        match seen.instance {
            None => {
                view.send_replace(gone(&seen));
                if process.changed().await.is_err() {
                    return;
                }
            }
            Some(instance) => {
                let since = seen.up_since.unwrap_or_else(Instant::now);
                if !seen.is_adopted {
                    view.send_replace(HealthView::unsampled(&instance));
                }
                let watching = watch_instance(&context, &instance, since, &mut settings, &view);
                tokio::select! {
                    () = watching => return,
                    // Whatever sample is being taken is of an instance that is gone: nobody hears of it.
                    changed = until_other_instance(&mut process, &instance) => if changed.is_err() { return },
                }
            }
        }
    }
}

fn gone(seen: &ProcessView) -> HealthView {
    let detail = seen.last_exit.clone().unwrap_or_else(|| "not running".to_owned());
    HealthView { detail, ..HealthView::default() }
}

async fn until_other_instance(
    process: &mut watch::Receiver<ProcessView>,
    instance: &Instance,
) -> Result<(), watch::error::RecvError> {
    process.wait_for(|view| view.instance.as_ref() != Some(instance)).await.map(|_| ())
}

/// Samples one instance for as long as it is watched.
async fn watch_instance(
    context: &Arc<ServiceContext>,
    instance: &Instance,
    since: Instant,
    settings: &mut watch::Receiver<HealthSettings>,
    view: &watch::Sender<HealthView>,
) {
    let interval = Duration::from_millis(context.health_check_interval.0);
    let mut backoff = Backoff::new(FIRST_DELAY, interval);
    let mut streaks = Streaks::default();
    loop {
        let Some(sample) = sample_detached(context, instance, since.elapsed()).await else { return };
        let sampled_at = Instant::now();
        let HealthSettings { rules, mut pace } = *settings.borrow_and_update();
        let before = if view.borrow().is_pending { Health::Unknown } else { view.borrow().health };
        let health = streaks.judge(sample.health, before, rules);
        publish(view, instance, health, sample);
        loop {
            let delay = match (health.is_good(rules), pace) {
                (true, Pace::Idle) => interval,
                (true, Pace::Verifying) => SOAK_INTERVAL.min(interval),
                (false, _) => next_look(&mut backoff, since, interval),
            };
            tokio::select! {
                () = tokio::time::sleep_until(sampled_at + delay) => break,
                changed = settings.changed() => if changed.is_err() { return },
            }
            let now = *settings.borrow_and_update();
            if !now.is_calmer_than(HealthSettings { rules, pace }) {
                // It is to be looked at more often, or by other rules: now.
                backoff.reset();
                break;
            }
            pace = now.pace;
        }
    }
}

/// On a task of its own: where nobody waits for it any more, its hooks still run to their ends and are reaped.
async fn sample_detached(context: &Arc<ServiceContext>, instance: &Instance, up: Duration) -> Option<Sample> {
    let (context, instance) = (Arc::clone(context), instance.clone());
    tokio::spawn(async move { take_sample(&context, &instance, up).await }).await.ok()
}

/// By back-off, but not later than the moment at which merely being up is enough.
fn next_look(backoff: &mut Backoff, since: Instant, interval: Duration) -> Duration {
    let delay = backoff.next_delay();
    match UP_IS_HEALTHY_AFTER.checked_sub(since.elapsed()) {
        Some(left) if left < delay && left > Duration::ZERO => left + Duration::from_millis(1),
        _ => delay.min(interval),
    }
}

fn publish(view: &watch::Sender<HealthView>, instance: &Instance, health: Health, sample: Sample) {
    let Sample { detail, primary, priority, .. } = sample;
    let next = HealthView { instance: Some(instance.clone()), health, detail, primary, priority, is_pending: false };
    view.send_if_modified(|view| {
        let is_new = *view != next;
        *view = next;
        is_new
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_count_samples_in_a_row() {
        let rules = HealthRules { warning_is_good: false, success_threshold: 2, failure_threshold: 3 };
        let mut streaks = Streaks::default();
        use Health::{Critical, Healthy, Unknown, Warning};
        let mut health = Unknown;
        let mut seen = Vec::new();
        for sample in [Healthy, Warning, Healthy, Healthy, Critical, Critical, Healthy, Critical, Critical, Critical] {
            health = streaks.judge(sample, health, rules);
            seen.push(health);
        }
        let expected = [Unknown, Warning, Warning, Healthy, Healthy, Healthy, Healthy, Healthy, Healthy, Critical];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_warning_counts_as_the_group_says() {
        let pass = HealthRules { warning_is_good: true, ..HealthRules::default() };
        assert!(Health::Warning.is_good(pass));
        assert!(!Health::Warning.is_good(HealthRules::default()));
    }
}
