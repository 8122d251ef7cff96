//! What to do about a hook that was started and whose end nobody saw.

use crate::Hook;

/// The policy of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rerun {
    /// Run it again: it is idempotent.
    Rerun,
    /// Ask the `probe` hook whether it happened.
    Probe,
    /// Nobody knows: fail.
    Fail,
    /// Its outcome is only logged: never start it twice.
    AssumeDone,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It happened; its phase goes on as if it had ended well.
    Done,
    /// It did not happen, or may happen again: run it.
    RunAgain,
    /// It can't be told: the phase fails.
    Fail,
    /// Run `probe` and ask again with its exit code.
    AskProbe,
}

/// The policy that holds for `hook`: what the release says, else the default. A release that asks for a probe and has
/// none gets the default, which can't be worse than not knowing.
#[must_use]
pub fn rerun_policy(hook: Hook, configured: Option<Rerun>, has_probe: bool) -> Rerun {
    match configured {
        Some(Rerun::Probe) if !has_probe => default_policy(hook, false),
        Some(policy) => policy,
        None => default_policy(hook, has_probe),
    }
}

fn default_policy(hook: Hook, has_probe: bool) -> Rerun {
    match hook {
        Hook::Install | Hook::Drain if has_probe => Rerun::Probe,
        Hook::PreStop | Hook::PostStop => Rerun::AssumeDone,
        Hook::Install
        | Hook::Drain
        | Hook::Undrain
        | Hook::ReadyToUpdate
        | Hook::Init
        | Hook::Run
        | Hook::PostRun
        | Hook::HealthCheck
        | Hook::Suitability
        | Hook::Probe
        | Hook::Uninstall => Rerun::Rerun,
    }
}

/// Applies a policy. `probe_exit` is the probe's exit code once it has run; a probe that was killed has none.
#[must_use]
pub fn settle(policy: Rerun, probe_exit: Option<Option<i32>>) -> Settled {
    match (policy, probe_exit) {
        (Rerun::Rerun, _) => Settled::RunAgain,
        (Rerun::AssumeDone, _) => Settled::Done,
        (Rerun::Fail, _) => Settled::Fail,
        (Rerun::Probe, None) => Settled::AskProbe,
        (Rerun::Probe, Some(Some(0))) => Settled::Done,
        (Rerun::Probe, Some(Some(1))) => Settled::RunAgain,
        (Rerun::Probe, Some(_)) => Settled::Fail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_asked_where_there_is_one() {
        assert_eq!(rerun_policy(Hook::Install, None, true), Rerun::Probe);
        assert_eq!(rerun_policy(Hook::Install, None, false), Rerun::Rerun);
        assert_eq!(rerun_policy(Hook::Drain, Some(Rerun::Fail), true), Rerun::Fail);
        assert_eq!(rerun_policy(Hook::Drain, Some(Rerun::Probe), false), Rerun::Rerun);
        assert_eq!(rerun_policy(Hook::PostStop, None, true), Rerun::AssumeDone);
    }

    #[test]
    fn a_probe_that_cannot_tell_fails_the_phase() {
        assert_eq!(settle(Rerun::Probe, None), Settled::AskProbe);
        assert_eq!(settle(Rerun::Probe, Some(Some(0))), Settled::Done);
        assert_eq!(settle(Rerun::Probe, Some(Some(1))), Settled::RunAgain);
        assert_eq!(settle(Rerun::Probe, Some(Some(2))), Settled::Fail);
        assert_eq!(settle(Rerun::Probe, Some(None)), Settled::Fail);
    }
}
