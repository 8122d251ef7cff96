//! How many steps stand in each phase.

use bincode::{Decode, Encode};
use strum::{EnumCount as _, IntoEnumIterator as _};

use crate::state::Phase;

/// How many steps of a rollout stand in each phase, kept so that nobody has to count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Tally([u32; Phase::COUNT]);

impl Tally {
    /// How many stand in `phase`.
    #[must_use]
    pub fn of(&self, phase: Phase) -> usize {
        self.0[phase as usize] as usize
    }

    /// How many stand in any of `phases`.
    #[must_use]
    pub fn of_any(&self, phases: &[Phase]) -> usize {
        phases.iter().map(|phase| self.of(*phase)).sum()
    }

    /// Each phase with its number.
    pub fn iter(&self) -> impl Iterator<Item = (Phase, usize)> {
        Phase::iter().map(|phase| (phase, self.of(phase)))
    }

    pub(crate) fn add(&mut self, phase: Phase) {
        self.0[phase as usize] += 1;
    }

    pub(crate) fn remove(&mut self, phase: Phase) {
        self.0[phase as usize] -= 1;
    }
}
