//! The policy of a group.

use std::str::FromStr;

use rollcall_ident::Millis;
use rollcall_proto::v1;
use rollcall_rollout::{Amount, Policy, PolicyPatch, Ratio};

use super::FieldError;

/// The fields that a request names.
///
/// # Errors
/// The first field, in the order of the group file, that can't be.
pub fn policy_patch(policy: v1::Policy) -> Result<PolicyPatch, FieldError> {
    let v1::Policy {
        mode,
        approval_required,
        max_parallel,
        max_unavailable,
        batches,
        order,
        inventory,
        primary_last,
        canary,
        auto_promote,
        delay_ms,
        on_warning,
        success_threshold,
        failure_threshold,
        min_healthy_time_ms,
        healthy_deadline_ms,
        progress_deadline_ms,
        ready_timeout_ms,
        ready_timeout_action,
        drain_timeout_ms,
        drain_timeout_action,
        reboot_timeout_ms,
        max_reboots,
        stale_after_ms,
        lost_after_ms,
        offline_policy,
        failure_action,
        max_failure_permille,
        on_demote,
        auto_start,
        catch_up,
        max_attempts,
        revision_history_limit,
    } = policy;
    Ok(PolicyPatch {
        mode: one_of("mode", mode, "auto, manual")?,
        approval_required,
        max_parallel: parsed("max_parallel", max_parallel)?,
        max_unavailable: parsed("max_unavailable", max_unavailable)?,
        batches: batches.map(amounts).transpose()?,
        order: parsed("order", order)?,
        inventory: inventory.map(|list| list.values),
        primary_last,
        canary,
        auto_promote,
        delay: delay_ms.map(Millis),
        on_warning: one_of("on_warning", on_warning, "fail, pass")?,
        success_threshold,
        failure_threshold,
        min_healthy_time: min_healthy_time_ms.map(Millis),
        healthy_deadline: healthy_deadline_ms.map(Millis),
        progress_deadline: progress_deadline_ms.map(Millis),
        ready_timeout: ready_timeout_ms.map(Millis),
        ready_timeout_action: one_of("ready_timeout_action", ready_timeout_action, "fail, force")?,
        drain_timeout: drain_timeout_ms.map(Millis),
        drain_timeout_action: one_of("drain_timeout_action", drain_timeout_action, "fail, force")?,
        reboot_timeout: reboot_timeout_ms.map(Millis),
        max_reboots,
        stale_after: stale_after_ms.map(Millis),
        lost_after: lost_after_ms.map(Millis),
        offline_policy: one_of("offline_policy", offline_policy, "pause, wait, skip")?,
        failure_action: one_of("failure_action", failure_action, "pause, rollback, continue")?,
        max_failure_ratio: max_failure_permille.map(ratio).transpose()?,
        on_demote: one_of("on_demote", on_demote, "stop, rollback")?,
        auto_start,
        catch_up: match catch_up.as_deref() {
            None => None,
            Some("auto") => Some(true),
            Some("manual") => Some(false),
            Some(other) => return Err(FieldError::new("catch_up", format!("{other:?} is none of auto, manual"))),
        },
        max_attempts,
        revision_history_limit,
    })
}

/// A policy with every field set.
pub fn policy(policy: &Policy) -> v1::Policy {
    let Policy {
        mode,
        approval_required,
        max_parallel,
        max_unavailable,
        batches,
        order,
        inventory,
        primary_last,
        canary,
        auto_promote,
        delay,
        on_warning,
        success_threshold,
        failure_threshold,
        min_healthy_time,
        healthy_deadline,
        progress_deadline,
        ready_timeout,
        ready_timeout_action,
        drain_timeout,
        drain_timeout_action,
        reboot_timeout,
        max_reboots,
        stale_after,
        lost_after,
        offline_policy,
        failure_action,
        max_failure_ratio,
        on_demote,
        auto_start,
        catch_up,
        max_attempts,
        revision_history_limit,
    } = policy;
    v1::Policy {
        mode: Some(mode.to_string()),
        approval_required: Some(*approval_required),
        max_parallel: Some(max_parallel.to_string()),
        max_unavailable: Some(max_unavailable.to_string()),
        batches: Some(v1::StringList { values: batches.iter().map(ToString::to_string).collect() }),
        order: Some(order.to_string()),
        inventory: Some(v1::StringList { values: inventory.clone() }),
        primary_last: Some(*primary_last),
        canary: Some(*canary),
        auto_promote: Some(*auto_promote),
        delay_ms: Some(delay.0),
        on_warning: Some(on_warning.to_string()),
        success_threshold: Some(*success_threshold),
        failure_threshold: Some(*failure_threshold),
        min_healthy_time_ms: Some(min_healthy_time.0),
        healthy_deadline_ms: Some(healthy_deadline.0),
        progress_deadline_ms: Some(progress_deadline.0),
        ready_timeout_ms: Some(ready_timeout.0),
        ready_timeout_action: Some(ready_timeout_action.to_string()),
        drain_timeout_ms: Some(drain_timeout.0),
        drain_timeout_action: Some(drain_timeout_action.to_string()),
        reboot_timeout_ms: Some(reboot_timeout.0),
        max_reboots: Some(*max_reboots),
        stale_after_ms: Some(stale_after.0),
        lost_after_ms: Some(lost_after.0),
        offline_policy: Some(offline_policy.to_string()),
        failure_action: Some(failure_action.to_string()),
        max_failure_permille: Some(max_failure_ratio.permille()),
        on_demote: Some(on_demote.to_string()),
        auto_start: Some(*auto_start),
        catch_up: Some(if *catch_up { "auto" } else { "manual" }.to_owned()),
        max_attempts: Some(*max_attempts),
        revision_history_limit: Some(*revision_history_limit),
    }
}

fn amounts(list: v1::StringList) -> Result<Vec<Amount>, FieldError> {
    let amount = |text: String| text.parse().map_err(|problem: String| FieldError::new("batches", problem));
    list.values.into_iter().map(amount).collect()
}

fn ratio(permille: u32) -> Result<Ratio, FieldError> {
    Ratio::from_permille(permille).ok_or_else(|| {
        FieldError::new("max_failure_ratio", format!("{permille} thousandths are more than the whole, which is 1000"))
    })
}

fn parsed<T: FromStr<Err = String>>(field: &str, text: Option<String>) -> Result<Option<T>, FieldError> {
    text.map(|text| text.parse()).transpose().map_err(|problem| FieldError::new(field, problem))
}

/// A field that is an enum by name.
pub(super) fn one_of<T: FromStr>(field: &str, text: Option<String>, names: &str) -> Result<Option<T>, FieldError> {
    let Some(text) = text else { return Ok(None) };
    let wrong = |_| FieldError::new(field, format!("{text:?} is none of {names}"));
    text.parse().map(Some).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use rollcall_rollout::{FailureAction, Mode, OfflinePolicy, OnDemote, Order, TimeoutAction, WarningPolicy};

    use super::*;

    /// A policy that differs from the default in every field that has another value.
    fn unusual() -> Policy {
        Policy {
            mode: Mode::Manual,
            approval_required: true,
            max_parallel: Amount::Percent(20),
            max_unavailable: Amount::Count(3),
            batches: vec![Amount::Count(1), Amount::Percent(50)],
            order: Order::Label("zone".to_owned()),
            inventory: vec!["b".to_owned(), "a".to_owned()],
            primary_last: false,
            canary: 2,
            auto_promote: true,
            delay: Millis(1),
            on_warning: WarningPolicy::Pass,
            success_threshold: 2,
            failure_threshold: 3,
            min_healthy_time: Millis(2),
            healthy_deadline: Millis(3),
            progress_deadline: Millis(4),
            ready_timeout: Millis(5),
            ready_timeout_action: TimeoutAction::Force,
            drain_timeout: Millis(6),
            drain_timeout_action: TimeoutAction::Force,
            reboot_timeout: Millis(7),
            max_reboots: 4,
            stale_after: Millis(8),
            lost_after: Millis(9),
            offline_policy: OfflinePolicy::Skip,
            failure_action: FailureAction::Continue,
            max_failure_ratio: Ratio::from_permille(250).unwrap(),
            on_demote: OnDemote::Rollback,
            auto_start: false,
            catch_up: false,
            max_attempts: 5,
            revision_history_limit: 6,
        }
    }

    #[test]
    fn what_goes_out_comes_back_as_it_was() {
        for whole in [Policy::default(), unusual()] {
            let back = policy_patch(policy(&whole)).unwrap();
            assert_eq!(unusual().patched(&back), whole);
            assert_eq!(Policy::default().patched(&back), whole);
        }
    }

    #[test]
    fn bad_values_are_refused_by_their_key() {
        let none = v1::Policy::default();
        let text = || Some("?".to_owned());
        let list = |value: &str| Some(v1::StringList { values: vec![value.to_owned()] });
        let cases = [
            ("mode", v1::Policy { mode: text(), ..none.clone() }),
            ("max_parallel", v1::Policy { max_parallel: Some("0%".into()), ..none.clone() }),
            ("max_unavailable", v1::Policy { max_unavailable: Some("0".into()), ..none.clone() }),
            ("batches", v1::Policy { batches: list("101%"), ..none.clone() }),
            ("order", v1::Policy { order: text(), ..none.clone() }),
            ("on_warning", v1::Policy { on_warning: text(), ..none.clone() }),
            ("ready_timeout_action", v1::Policy { ready_timeout_action: text(), ..none.clone() }),
            ("drain_timeout_action", v1::Policy { drain_timeout_action: text(), ..none.clone() }),
            ("offline_policy", v1::Policy { offline_policy: text(), ..none.clone() }),
            ("failure_action", v1::Policy { failure_action: text(), ..none.clone() }),
            ("max_failure_ratio", v1::Policy { max_failure_permille: Some(1_001), ..none.clone() }),
            ("on_demote", v1::Policy { on_demote: text(), ..none.clone() }),
            ("catch_up", v1::Policy { catch_up: text(), ..none }),
        ];
        for (key, policy) in cases {
            assert_eq!(policy_patch(policy).unwrap_err().field, key);
        }
    }
}
