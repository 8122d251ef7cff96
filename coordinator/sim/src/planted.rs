//! Faults that are planted on purpose, so that the simulator can be seen to find what it is there for. They are in the code only
//! with the feature `planted-faults`, which nothing but a test run turns on. Those of the state machine are
//! [`rollcall_rollout`]'s own.

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::Display)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum Planted {
    /// A peer's disk answers before anything is synced.
    AckBeforeSync = 1,
    /// The mark of a hook that must not run twice isn't synced.
    UnsyncedMark,
}

#[cfg(feature = "planted-faults")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants one fault in this process: one of ours, or one of the state machine's, by its name.
///
/// # Errors
/// There is none of that name.
#[cfg(feature = "planted-faults")]
pub fn plant(name: &str) -> anyhow::Result<()> {
    if let Ok(fault) = name.parse::<Planted>() {
        PLANTED.store(fault as u8, std::sync::atomic::Ordering::SeqCst);
        return Ok(());
    }
    use rollcall_rollout::Planted as InState;
    let known =
        [InState::NoBudget, InState::NoCommitPoint, InState::NoFence, InState::SoakGoesOn, InState::PauseForgotten];
    let fault = known.into_iter().find(|fault| fault.to_string() == name);
    rollcall_rollout::plant(Some(fault.ok_or_else(|| anyhow::anyhow!("no fault is called {name:?}"))?));
    Ok(())
}

/// Whether it is planted.
#[cfg(feature = "planted-faults")]
pub(crate) fn is_planted(fault: Planted) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == fault as u8
}

/// It isn't.
#[cfg(not(feature = "planted-faults"))]
pub(crate) const fn is_planted(_: Planted) -> bool {
    false
}
