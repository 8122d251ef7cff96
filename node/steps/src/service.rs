//! The state of one service on this node, folded from its whole journal: its releases, the highest fence, the step.

use std::collections::BTreeSet;

use rollcall_ident::{Fence, ReleaseIdent};

use crate::{Baseline, Ending, Event, Impossible, StepOpened, StepState};

/// One service, folded from its journal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceState {
    /// The highest fence in the journal.
    pub fence: Fence,
    /// The release that runs, or would be started. It changes exactly when starting begins.
    pub current: Option<ReleaseIdent>,
    /// The one before it: kept on the disk.
    pub previous: Option<ReleaseIdent>,
    /// Releases whose `install` has succeeded here.
    pub installed: BTreeSet<ReleaseIdent>,
    /// A step was ended by order after the old instance's stop, and nothing was started since: the service stays down
    /// until a step starts it, or fails.
    pub is_left_down: bool,
    /// The last step, open or closed.
    pub step: Option<StepState>,
}

/// Why a step order isn't opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenRefusal {
    /// A higher fence was seen on this node.
    #[error("fence {ordered} is below {highest}, the highest that this node has seen")]
    StaleFence {
        /// The order's.
        ordered: Fence,
        /// The node's.
        highest: Fence,
    },
    /// The step with this fence is over.
    #[error("the step with fence {fence} is over on this node")]
    AlreadyClosed {
        /// Its fence.
        fence: Fence,
    },
}

impl ServiceState {
    /// Folds a journal.
    ///
    /// # Errors
    /// [`Impossible`] for a sequence that can't have happened.
    pub fn from_events<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Self, Impossible> {
        let mut state = Self::default();
        events.into_iter().try_for_each(|event| state.apply(event))?;
        Ok(state)
    }

    /// The step, if one is open.
    #[must_use]
    pub fn open_step(&self) -> Option<&StepState> {
        self.step.as_ref().filter(|step| !step.is_closed())
    }

    /// Folds one event.
    ///
    /// # Errors
    /// [`Impossible`]: nothing is changed then.
    pub fn apply(&mut self, event: &Event) -> Result<(), Impossible> {
        match event {
            Event::Baseline(baseline) => self.apply_baseline(baseline, event),
            Event::StepOpened(opened) => self.apply_opened(opened, event),
            Event::LeftDown => self.apply_left_down(event),
            Event::ReleaseRemoved { release } => {
                if let Some(step) = &mut self.step {
                    step.apply(event)?;
                }
                self.installed.remove(release);
                Ok(())
            }
            event => {
                let step =
                    self.step.as_mut().ok_or_else(|| Impossible { status: None, event: format!("{event:?}") })?;
                let was_switched = step.switched;
                step.apply(event)?;
                let to = step.opened.to.clone();
                let (is_installed, is_switched) = (step.installed, step.switched && !was_switched);
                if let Event::StepClosed { ending, .. } = event
                    && (step.stop_begun || *ending == Ending::Failed)
                {
                    self.is_left_down = step.leaves_service_as_is();
                }
                if is_installed {
                    // Another configuration is no other installation.
                    self.installed.insert(to.bare());
                }
                if is_switched {
                    self.switch_to(to);
                }
                Ok(())
            }
        }
    }

    fn apply_baseline(&mut self, baseline: &Baseline, event: &Event) -> Result<(), Impossible> {
        if *self != Self::default() {
            return Err(Impossible {
                status: self.step.as_ref().map(|step| step.status.clone()),
                event: format!("{event:?}"),
            });
        }
        let Baseline { fence, current, previous, installed } = baseline.clone();
        *self = Self { fence, current, previous, installed, is_left_down: false, step: None };
        Ok(())
    }

    fn apply_left_down(&mut self, event: &Event) -> Result<(), Impossible> {
        if let Some(step) = &self.step {
            return Err(Impossible { status: Some(step.status.clone()), event: format!("{event:?}") });
        }
        self.is_left_down = true;
        Ok(())
    }

    /// INVARIANT: the fences of a journal rise strictly, except that a retry may be a new attempt under the same grant.
    fn apply_opened(&mut self, opened: &StepOpened, event: &Event) -> Result<(), Impossible> {
        if self.open_step().is_some() || check_open(self, self.fence, opened.fence, opened.attempt).is_err() {
            return Err(Impossible {
                status: self.step.as_ref().map(|step| step.status.clone()),
                event: format!("{event:?}"),
            });
        }
        self.fence = opened.fence;
        self.step = Some(StepState::open(opened.clone()));
        Ok(())
    }

    fn switch_to(&mut self, release: ReleaseIdent) {
        if self.current.as_ref() != Some(&release) {
            self.previous = self.current.replace(release);
        }
    }

    /// What a compacted journal begins with.
    #[must_use]
    pub fn compacted(&self) -> Vec<Event> {
        let baseline = Baseline {
            fence: self.fence,
            current: self.current.clone(),
            previous: self.previous.clone(),
            installed: self.installed.clone(),
        };
        let left_down = self.is_left_down.then_some(Event::LeftDown);
        std::iter::once(Event::Baseline(baseline)).chain(left_down).collect()
    }
}

/// Whether a step with this fence may be opened, where `highest` is the highest fence of the whole node: a node holds at
/// most one token, so a lower one is always of the past.
///
/// # Errors
/// [`OpenRefusal`] says why not.
pub fn check_open(state: &ServiceState, highest: Fence, fence: Fence, attempt: u32) -> Result<(), OpenRefusal> {
    if fence < highest {
        return Err(OpenRefusal::StaleFence { ordered: fence, highest });
    }
    match &state.step {
        Some(step) if step.opened.fence == fence && step.opened.attempt >= attempt => {
            Err(OpenRefusal::AlreadyClosed { fence })
        }
        // The baseline of a compacted or salvaged file has had it; only another attempt can be news.
        None if state.fence == fence && fence != Fence::default() && attempt <= 1 => {
            Err(OpenRefusal::AlreadyClosed { fence })
        }
        _ => Ok(()),
    }
}
