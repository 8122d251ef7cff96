//! What is left of a journal that was damaged in its middle: a bit flipped, a page was lost.
//!
//! A torn end never happened, for the agent goes on only after a sync. Damage with whole records behind it is another thing:
//! something that did happen isn't known any more. What is left tells the fence, the releases, and whether a step was open;
//! where one was, nothing of it is repeated: it fails, and whoever looks at it orders another attempt.

use bincode::{CodecError, Kind};
use rollcall_ident::{BootId, Fence, ReleaseIdent};
use rollcall_steps::{
    Baseline, Event, Failure, FailureReason, Hook, Outcome, Phase, ServiceState, StepOpened, StepState,
};

use super::journal::{Record, read_events};

/// A journal's bytes, read.
#[derive(Debug)]
pub(super) struct Salvaged {
    /// What the journal says, or is to say from now on.
    pub events: Vec<Event>,
    /// What they fold to.
    pub state: ServiceState,
    /// How many bytes at its front are whole, and stay.
    pub valid: usize,
    /// It was damaged before its end: the file is to be replaced by `events`.
    pub is_rewritten: bool,
}

/// Reads a journal, damaged or not. `current` is the second copy of the current release.
///
/// # Errors
/// A newer agent has written it.
pub(super) fn read_journal(bytes: &[u8], current: Option<ReleaseIdent>) -> Result<Salvaged, CodecError> {
    let (mut events, valid) = read_events(bytes)?;
    let mut state = ServiceState::default();
    let possible = events.iter().take_while(|event| state.apply(event).is_ok()).count();
    let mut later = events.split_off(possible);
    later.extend(whole_records(&bytes[valid..]));
    if later.is_empty() {
        return Ok(Salvaged { events, state, valid, is_rewritten: false });
    }
    let events = rebuild(&state, &later, current);
    let state = ServiceState::from_events(&events).expect("it was built from what may follow each other");
    Ok(Salvaged { events, state, valid, is_rewritten: true })
}

/// Every fence in a journal, damaged or not.
pub(super) fn highest_fence_in(bytes: &[u8]) -> Fence {
    let Ok((events, valid)) = read_events(bytes) else { return Fence::default() };
    let fences = events.iter().chain(&whole_records(&bytes[valid..])).map(fence_of).max();
    fences.unwrap_or_default()
}

fn fence_of(event: &Event) -> Fence {
    match event {
        Event::Baseline(baseline) => baseline.fence,
        Event::StepOpened(opened) => opened.fence,
        _ => Fence::default(),
    }
}

/// The records that can be read, wherever they begin.
fn whole_records(bytes: &[u8]) -> Vec<Event> {
    let mut records = Vec::new();
    let mut offset = 0;
    while offset < bytes.len() {
        let read = bincode::decode_envelope(Kind::JOURNAL, &bytes[offset..]).ok().and_then(|envelope| {
            let record: Record = bincode::open(Kind::JOURNAL, &bytes[offset..offset + envelope.consumed]).ok()?;
            Some((record.0, envelope.consumed))
        });
        match read {
            Some((event, consumed)) => {
                records.push(event);
                offset += consumed;
            }
            None => offset += 1,
        }
    }
    records
}

/// What is known of the step that was open last.
struct LastStep {
    opened: Option<StepOpened>,
    is_closed: bool,
    is_drained: bool,
    is_to_stay_down: bool,
}

impl LastStep {
    fn of(before: &ServiceState, later: &[Event]) -> Self {
        let step = before.open_step();
        let mut last = Self {
            opened: step.map(|step| step.opened.clone()),
            is_closed: step.is_none(),
            is_drained: step.is_some_and(|step| step.drain_begun),
            is_to_stay_down: before.is_left_down || step.is_some_and(StepState::leaves_service_as_is),
        };
        for event in later {
            match event {
                Event::StepOpened(opened) => {
                    let opened = Some(opened.clone());
                    last = Self { opened, is_closed: false, is_drained: false, ..last };
                }
                Event::StepClosed { .. } => last.is_closed = true,
                // Any of them tells that draining had begun.
                Event::PhaseBegun { phase, .. } | Event::PhaseEnded { phase, .. } if *phase >= Phase::Draining => {
                    last.is_drained = true;
                }
                Event::HookStarted { hook: Hook::Drain | Hook::PreStop, .. } => last.is_drained = true,
                Event::EndOrdered { .. } | Event::LeftDown => last.is_to_stay_down = true,
                Event::NewInstance(_) => last.is_to_stay_down = false,
                _ => {}
            }
        }
        last
    }
}

fn rebuild(before: &ServiceState, later: &[Event], current: Option<ReleaseIdent>) -> Vec<Event> {
    let last = LastStep::of(before, later);
    let started = later.iter().rev().find_map(|event| match event {
        Event::NewInstance(instance) => Some(instance.release.clone()),
        Event::Baseline(baseline) => baseline.current.clone(),
        _ => None,
    });
    let current = started.or(current).or_else(|| before.current.clone());
    let mut installed = before.installed.clone();
    // What runs, or ran, was installed.
    installed.extend(current.clone());
    // Whose install it was is known only where its opening is.
    let mut opened: Option<StepOpened> = None;
    for event in later {
        match event {
            Event::Baseline(baseline) => installed.extend(baseline.installed.clone()),
            Event::StepOpened(step) => opened = Some(step.clone()),
            Event::PhaseEnded { phase: Phase::Installing, outcome: Outcome::Done { .. } } => {
                installed.extend(opened.as_ref().map(|opened| opened.to.clone()));
            }
            Event::ReleaseRemoved { release } => {
                installed.remove(release);
            }
            _ => {}
        }
    }
    let fence = later.iter().map(fence_of).max().unwrap_or_default().max(before.fence);
    let previous =
        before.current.clone().filter(|release| Some(release) != current.as_ref()).or(before.previous.clone());
    let was_open = last.opened.filter(|opened| !last.is_closed && opened.fence == fence && !last.is_to_stay_down);
    // A fence that stands in the baseline is over: it isn't begun again. That of the open step follows it.
    let over = if was_open.is_some() { Fence(fence.0.saturating_sub(1)) } else { fence };
    let mut events = vec![Event::Baseline(Baseline { fence: over, current, previous, installed })];
    if last.is_to_stay_down {
        events.push(Event::LeftDown);
    }
    if let Some(opened) = was_open {
        events.extend(failed(opened, last.is_drained));
    }
    events
}

/// A step that fails where it stands, as nobody knows where that is.
fn failed(opened: StepOpened, is_drained: bool) -> Vec<Event> {
    // Of no boot: nothing of it is believed to run.
    let boot_id = BootId([0; 16]);
    let mut events = vec![Event::StepOpened(opened.clone())];
    if is_drained {
        events.push(Event::PhaseBegun { phase: Phase::Preparing, boot_id });
        events.push(Event::PhaseEnded { phase: Phase::Preparing, outcome: Outcome::Forced });
        events.push(Event::PhaseBegun { phase: Phase::Draining, boot_id });
    }
    let mut step = StepState::open(opened);
    for event in &events[1..] {
        step.apply(event).expect("phases follow each other");
    }
    let detail = "this node's journal was damaged in the middle of the step; nothing of it is repeated, and \
                  `rollout retry` begins another attempt"
        .to_owned();
    let failure = Failure { reason: FailureReason::JournalBehind, detail, output: String::new() };
    events.extend(step.failed_where_it_stands(failure, boot_id));
    events
}
