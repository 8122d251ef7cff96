//! The `[policy]` table.

use std::num::NonZeroU32;
use std::ops::Range;

use rollcall_ident::Millis;
use rollcall_proto::v1;
use serde::Deserialize;
use toml::Spanned;

use super::values::{Order, Ratio, Share, Span};
use crate::config::FromText;
use crate::failure::Failure;
use crate::toml_error::TomlSource;

type Duration = FromText<Millis>;
type PositiveDuration = FromText<Span>;

/// Where something is wrong, and what.
type Problem = (Range<usize>, String);

/// Every field is optional: what isn't named keeps its value.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyTable {
    mode: Option<Mode>,
    approval_required: Option<bool>,
    max_parallel: Option<Share>,
    max_unavailable: Option<Share>,
    batches: Option<Vec<Share>>,
    order: Option<FromText<Order>>,
    inventory: Option<Spanned<Vec<String>>>,
    primary_last: Option<bool>,
    canary: Option<u32>,
    auto_promote: Option<bool>,
    delay: Option<Duration>,
    on_warning: Option<OnWarning>,
    success_threshold: Option<NonZeroU32>,
    failure_threshold: Option<NonZeroU32>,
    min_healthy_time: Option<Spanned<Duration>>,
    healthy_deadline: Option<Spanned<Duration>>,
    progress_deadline: Option<Spanned<Duration>>,
    ready_timeout: Option<PositiveDuration>,
    ready_timeout_action: Option<TimeoutAction>,
    drain_timeout: Option<PositiveDuration>,
    drain_timeout_action: Option<TimeoutAction>,
    reboot_timeout: Option<PositiveDuration>,
    max_reboots: Option<u32>,
    stale_after: Option<PositiveDuration>,
    lost_after: Option<Spanned<Duration>>,
    offline_policy: Option<OfflinePolicy>,
    failure_action: Option<FailureAction>,
    max_failure_ratio: Option<Spanned<Ratio>>,
    on_demote: Option<OnDemote>,
    auto_start: Option<bool>,
    catch_up: Option<CatchUp>,
    max_attempts: Option<NonZeroU32>,
    revision_history_limit: Option<NonZeroU32>,
}

macro_rules! choices {
    ($($name:ident { $($variant:ident = $text:literal),+ $(,)? })+) => {
        $(#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        enum $name {
            $(#[serde(rename = $text)] $variant),+
        }

        impl $name {
            fn into_wire(self) -> String {
                match self { $(Self::$variant => $text),+ }.to_owned()
            }
        })+
    };
}

choices! {
    Mode { Auto = "auto", Manual = "manual" }
    OnWarning { Fail = "fail", Pass = "pass" }
    TimeoutAction { Fail = "fail", Force = "force" }
    OfflinePolicy { Pause = "pause", Wait = "wait", Skip = "skip" }
    FailureAction { Pause = "pause", Rollback = "rollback", Continue = "continue" }
    OnDemote { Stop = "stop", Rollback = "rollback" }
    CatchUp { Auto = "auto", Manual = "manual" }
}

impl PolicyTable {
    /// What is wrong whatever the rest of the group's policy is: keys of this file that contradict each other.
    pub fn check(&self, source: &TomlSource<'_>) -> Result<(), Failure> {
        let problem = self.deadline_problem().or_else(|| self.inventory_problem()).or_else(|| self.ratio_problem());
        problem.map_or(Ok(()), |(at, problem)| Err(source.error_at(&at, &problem)))
    }

    /// min_healthy_time < healthy_deadline < progress_deadline, and stale_after < lost_after.
    fn deadline_problem(&self) -> Option<Problem> {
        let ascending = [
            ("min_healthy_time", &self.min_healthy_time),
            ("healthy_deadline", &self.healthy_deadline),
            ("progress_deadline", &self.progress_deadline),
        ];
        let named: Vec<_> = ascending.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))).collect();
        for pair in named.windows(2) {
            let [(shorter_key, shorter), (_, longer)] = pair else { continue };
            let (short, long) = (shorter.get_ref().0, longer.get_ref().0);
            if short >= long {
                let rule = "expected min_healthy_time < healthy_deadline < progress_deadline";
                return Some((longer.span(), format!("{long} is not longer than {shorter_key}, {short}; {rule}")));
            }
        }
        let (stale, lost) = (self.stale_after.as_ref()?.0.0, self.lost_after.as_ref()?);
        let long = lost.get_ref().0;
        (stale >= long).then(|| (lost.span(), format!("{long} is not longer than stale_after, {stale}")))
    }

    fn inventory_problem(&self) -> Option<Problem> {
        let inventory = self.inventory.as_ref()?;
        let names = inventory.get_ref();
        if names.is_empty() && self.order.as_ref().is_some_and(|order| order.0.is_inventory()) {
            let problem = "order = \"inventory\" needs the names of the members here";
            return Some((inventory.span(), problem.to_owned()));
        }
        let twice = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name));
        twice.map(|(_, name)| (inventory.span(), format!("{name:?} stands there twice")))
    }

    fn ratio_problem(&self) -> Option<Problem> {
        let (ratio, action) = (self.max_failure_ratio.as_ref()?, self.failure_action?);
        let is_idle = ratio.get_ref().into_permille() > 0 && action != FailureAction::Continue;
        is_idle.then(|| {
            let action = action.into_wire();
            (ratio.span(), format!("has a meaning with failure_action = \"continue\" only, not {action:?}"))
        })
    }

    /// As requests carry it.
    pub fn into_wire(self) -> v1::Policy {
        let list = |values| v1::StringList { values };
        let ms = |duration: Duration| duration.0.0;
        let positive_ms = |duration: PositiveDuration| duration.0.0.0;
        let spanned_ms = |duration: Spanned<Duration>| duration.into_inner().0.0;
        v1::Policy {
            mode: self.mode.map(Mode::into_wire),
            approval_required: self.approval_required,
            max_parallel: self.max_parallel.map(Share::into_wire),
            max_unavailable: self.max_unavailable.map(Share::into_wire),
            batches: self.batches.map(|batches| list(batches.into_iter().map(Share::into_wire).collect())),
            order: self.order.map(|order| order.0.into_wire()),
            inventory: self.inventory.map(|inventory| list(inventory.into_inner())),
            primary_last: self.primary_last,
            canary: self.canary,
            auto_promote: self.auto_promote,
            delay_ms: self.delay.map(ms),
            on_warning: self.on_warning.map(OnWarning::into_wire),
            success_threshold: self.success_threshold.map(NonZeroU32::get),
            failure_threshold: self.failure_threshold.map(NonZeroU32::get),
            min_healthy_time_ms: self.min_healthy_time.map(spanned_ms),
            healthy_deadline_ms: self.healthy_deadline.map(spanned_ms),
            progress_deadline_ms: self.progress_deadline.map(spanned_ms),
            ready_timeout_ms: self.ready_timeout.map(positive_ms),
            ready_timeout_action: self.ready_timeout_action.map(TimeoutAction::into_wire),
            drain_timeout_ms: self.drain_timeout.map(positive_ms),
            drain_timeout_action: self.drain_timeout_action.map(TimeoutAction::into_wire),
            reboot_timeout_ms: self.reboot_timeout.map(positive_ms),
            max_reboots: self.max_reboots,
            stale_after_ms: self.stale_after.map(positive_ms),
            lost_after_ms: self.lost_after.map(spanned_ms),
            offline_policy: self.offline_policy.map(OfflinePolicy::into_wire),
            failure_action: self.failure_action.map(FailureAction::into_wire),
            max_failure_permille: self.max_failure_ratio.map(|ratio| ratio.into_inner().into_permille()),
            on_demote: self.on_demote.map(OnDemote::into_wire),
            auto_start: self.auto_start,
            catch_up: self.catch_up.map(CatchUp::into_wire),
            max_attempts: self.max_attempts.map(NonZeroU32::get),
            revision_history_limit: self.revision_history_limit.map(NonZeroU32::get),
        }
    }
}
