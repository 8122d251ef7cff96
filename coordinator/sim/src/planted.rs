//! Faults that are planted on purpose, so that the simulator can be seen to find what it is there for. They are in the code only
//! with the feature `planted-faults`, which nothing but a test run turns on. Those of peers are [`rollcall_rollout`]'s own; here
//! are those of the parts that only the simulator has.

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumIter, strum::EnumString, strum::Display)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum Planted {
    /// A node forgets the journal's intent: the mark of a hook that must not run twice isn't synced.
    UnsyncedMark = 1,
}

#[cfg(feature = "planted-faults")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants one fault in this process, by its name: one of ours, or one of the peers'.
///
/// # Errors
/// There is none of that name.
#[cfg(feature = "planted-faults")]
pub fn plant(name: &str) -> anyhow::Result<()> {
    if let Ok(fault) = name.parse::<Planted>() {
        PLANTED.store(fault as u8, std::sync::atomic::Ordering::SeqCst);
        return Ok(());
    }
    let fault = name.parse::<rollcall_rollout::Planted>().map_err(|_| unknown(name))?;
    rollcall_rollout::plant(Some(fault));
    Ok(())
}

/// Every fault that can be planted, by its name.
#[cfg(feature = "planted-faults")]
#[must_use]
pub fn names() -> Vec<String> {
    use strum::IntoEnumIterator as _;
    let of_peers = rollcall_rollout::Planted::iter().map(|fault| fault.to_string());
    of_peers.chain(Planted::iter().map(|fault| fault.to_string())).collect()
}

#[cfg(feature = "planted-faults")]
fn unknown(name: &str) -> anyhow::Error {
    anyhow::anyhow!("no fault is called {name:?}; there are {}", names().join(", "))
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
