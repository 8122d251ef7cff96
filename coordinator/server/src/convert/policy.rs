//! The policy of a group.

use std::fmt::Display;
use std::str::FromStr;

use rollcall_ident::Millis;
use rollcall_proto::v1;
use rollcall_rollout::{Policy, PolicyPatch};

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
    only("mode", mode, "auto")?;
    only("approval_required", approval_required, false)?;
    only("batches", batches.filter(|list| !list.values.is_empty()).map(|list| list.values.join(", ")), "[]")?;
    only("canary", canary, 0)?;
    only("auto_promote", auto_promote, false)?;
    only("delay", delay_ms.map(Millis), Millis(0))?;
    only("ready_timeout_action", ready_timeout_action, "fail")?;
    only("drain_timeout_action", drain_timeout_action, "fail")?;
    only("offline_policy", offline_policy, "pause")?;
    only("failure_action", failure_action, "pause")?;
    only("max_failure_ratio", max_failure_permille, 0)?;
    only("on_demote", on_demote, "stop")?;
    Ok(PolicyPatch {
        max_parallel: parsed("max_parallel", max_parallel)?,
        max_unavailable: parsed("max_unavailable", max_unavailable)?,
        order: parsed("order", order)?,
        inventory: inventory.map(|list| list.values),
        primary_last,
        on_warning: one_of("on_warning", on_warning, "fail | pass")?,
        success_threshold,
        failure_threshold,
        min_healthy_time: min_healthy_time_ms.map(Millis),
        healthy_deadline: healthy_deadline_ms.map(Millis),
        progress_deadline: progress_deadline_ms.map(Millis),
        ready_timeout: ready_timeout_ms.map(Millis),
        drain_timeout: drain_timeout_ms.map(Millis),
        reboot_timeout: reboot_timeout_ms.map(Millis),
        max_reboots,
        stale_after: stale_after_ms.map(Millis),
        lost_after: lost_after_ms.map(Millis),
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
        max_parallel,
        max_unavailable,
        order,
        inventory,
        primary_last,
        on_warning,
        success_threshold,
        failure_threshold,
        min_healthy_time,
        healthy_deadline,
        progress_deadline,
        ready_timeout,
        drain_timeout,
        reboot_timeout,
        max_reboots,
        stale_after,
        lost_after,
        auto_start,
        catch_up,
        max_attempts,
        revision_history_limit,
    } = policy;
    v1::Policy {
        mode: Some("auto".to_owned()),
        approval_required: Some(false),
        max_parallel: Some(max_parallel.to_string()),
        max_unavailable: Some(max_unavailable.to_string()),
        batches: Some(v1::StringList::default()),
        order: Some(order.to_string()),
        inventory: Some(v1::StringList { values: inventory.clone() }),
        primary_last: Some(*primary_last),
        canary: Some(0),
        auto_promote: Some(false),
        delay_ms: Some(0),
        on_warning: Some(on_warning.to_string()),
        success_threshold: Some(*success_threshold),
        failure_threshold: Some(*failure_threshold),
        min_healthy_time_ms: Some(min_healthy_time.0),
        healthy_deadline_ms: Some(healthy_deadline.0),
        progress_deadline_ms: Some(progress_deadline.0),
        ready_timeout_ms: Some(ready_timeout.0),
        ready_timeout_action: Some("fail".to_owned()),
        drain_timeout_ms: Some(drain_timeout.0),
        drain_timeout_action: Some("fail".to_owned()),
        reboot_timeout_ms: Some(reboot_timeout.0),
        max_reboots: Some(*max_reboots),
        stale_after_ms: Some(stale_after.0),
        lost_after_ms: Some(lost_after.0),
        offline_policy: Some("pause".to_owned()),
        failure_action: Some("pause".to_owned()),
        max_failure_permille: Some(0),
        on_demote: Some("stop".to_owned()),
        auto_start: Some(*auto_start),
        catch_up: Some(if *catch_up { "auto" } else { "manual" }.to_owned()),
        max_attempts: Some(*max_attempts),
        revision_history_limit: Some(*revision_history_limit),
    }
}

/// A field that this version takes with one value only: refused, never ignored.
fn only<T: Display + PartialEq<U>, U: Display>(field: &str, given: Option<T>, supported: U) -> Result<(), FieldError> {
    match given {
        Some(given) if given != supported => {
            Err(FieldError::new(field, format!("this version supports only {supported}, not {given}")))
        }
        _ => Ok(()),
    }
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
    use super::*;

    #[test]
    fn what_goes_out_comes_back_as_it_was() {
        let back = policy_patch(policy(&Policy::default())).unwrap();
        assert_eq!(Policy::default().patched(&back), Policy::default());
    }

    #[test]
    fn what_this_version_does_not_do_is_refused_by_name() {
        let error = policy_patch(v1::Policy { canary: Some(2), ..v1::Policy::default() }).unwrap_err();
        assert_eq!(error.to_string(), "canary: this version supports only 0, not 2");
        let error = policy_patch(v1::Policy { max_parallel: Some("0%".into()), ..v1::Policy::default() }).unwrap_err();
        assert_eq!(error.field, "max_parallel");
    }
}
