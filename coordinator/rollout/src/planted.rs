//! Faults that are planted on purpose, so that each check can be seen to find what it is there for. They are in the code
//! only with the feature `planted-faults`, which nothing but a test run turns on.

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumIter, strum::EnumString, strum::Display)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum Planted {
    /// Nobody counts who is down.
    NoBudget = 1,
    /// What was true at the grant is taken to be true at the commit points.
    NoCommitPoint,
    /// Anybody may report under any fence.
    NoFence,
    /// A node that departs gives its token back.
    DepartedLosesToken,
    /// A bad sample doesn't begin the soak again.
    SoakGoesOn,
    /// A pause is forgotten with the next report of a node.
    PauseForgotten,
    /// A held node is updated all the same.
    HoldIgnored,
    /// A member of which nothing is known counts as healthy.
    UnknownIsHealthy,
    /// What the planner chooses isn't checked.
    GrantUnchecked,
    /// A snapshot forgets which requests were answered.
    RequestsForgotten,
    /// A new session gets the number of the one before it.
    EpochReused,
    /// A peer's log answers before it has synced.
    AckBeforeSync,
    /// What a peer finds in its log at its start counts, synced or not.
    TailNotSynced,
    /// A peer reads what it has, and asks nobody whether there is more.
    StaleRead,
}

#[cfg(feature = "planted-faults")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants one fault in this process, or none.
#[cfg(feature = "planted-faults")]
pub fn plant(fault: Option<Planted>) {
    PLANTED.store(fault.map_or(0, |fault| fault as u8), std::sync::atomic::Ordering::SeqCst);
}

/// Whether it is planted.
#[cfg(feature = "planted-faults")]
#[must_use]
pub fn is_planted(fault: Planted) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == fault as u8
}

/// It isn't.
#[cfg(not(feature = "planted-faults"))]
#[must_use]
pub const fn is_planted(_: Planted) -> bool {
    false
}
