//! The journal of one service: a file of sealed events, appended to and synced.
//!
//! What was cut off at its end never happened: the agent goes on only after a sync. Damage before its end is salvaged. When
//! an append fails, whatever reached the disk is replaced by a whole new file, so that a failed sync is never trusted
//! afterwards.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bincode::{CodecError, Decode, Encode, Kind};
use rollcall_ident::Fence;
use rollcall_steps::{Event, Impossible, ServiceState};

use super::salvage::{Salvaged, highest_fence_in, read_journal};
use super::{DiskError, Layout, read_optional, read_sealed_text, write_atomic};

/// BOUND: a journal is compacted before a step that would open with more events than this. A step has about 20; polls of
/// `drain` add two each.
const MAX_EVENTS_BEFORE_STEP: usize = 256;

/// The journal, and the state that its events fold to.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    events: Vec<Event>,
    state: ServiceState,
    /// An append has failed: the file may end in half a record, and what it holds may never reach the disk. Only a whole
    /// new file can follow.
    is_suspect: bool,
}

/// Why the journal can't be opened or appended to.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The disk refused; nothing was appended.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The events can't have happened in this order: a bug.
    #[error("{}: {source}", path.display())]
    Impossible {
        /// The journal.
        path: PathBuf,
        /// The first event that can't be.
        source: Impossible,
    },
    /// A newer agent has written it.
    #[error("{}: {source}. Start an agent that is at least as new as the one that wrote it", path.display())]
    Newer {
        /// The journal.
        path: PathBuf,
        /// The versions.
        source: CodecError,
    },
}

/// What is written: the event alone would do, the length and checksum around it come from the envelope.
#[derive(Encode, Decode)]
pub(super) struct Record(pub Event);

impl Journal {
    /// Opens a journal, or starts an empty one. A torn end is cut off; what was damaged before its end is salvaged.
    ///
    /// # Errors
    /// [`JournalError`]
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let bytes = read_optional(path)?.unwrap_or_default();
        let current = read_sealed_text(&path.with_file_name("current"))?.and_then(|text| text.trim().parse().ok());
        let Salvaged { events, state, valid, is_rewritten } =
            read_journal(&bytes, current).map_err(|source| JournalError::Newer { path: path.to_owned(), source })?;
        if is_rewritten {
            let copy = path.with_extension("damaged");
            write_atomic(&copy, &bytes)?;
            write_atomic(path, &events.iter().flat_map(seal).collect::<Vec<_>>())?;
            let step = state.open_step().map_or_else(String::new, |step| {
                format!("; {} was open and fails: `rollcall rollout retry {0}` tries it again", step.opened.rollout)
            });
            tracing::error!(
                path = %path.display(), copy = %copy.display(), fence = %state.fence,
                "the journal was damaged in its middle; what can be known is kept{step}"
            );
        }
        let file = File::options()
            .create(true)
            .truncate(false)
            .append(true)
            .open(path)
            .map_err(DiskError::new("open", path))?;
        if valid < bytes.len() && !is_rewritten {
            let copy = path.with_extension("torn");
            super::write_volatile(&copy, &bytes)?;
            tracing::warn!(
                path = %path.display(), kept = valid, cut = bytes.len() - valid, copy = %copy.display(),
                "the journal ends in a torn write, which is cut off"
            );
            file.set_len(valid as u64).and_then(|()| file.sync_all()).map_err(DiskError::new("truncate", path))?;
        }
        if bytes.is_empty() {
            super::sync_dir(path.parent().unwrap_or(Path::new("/")))?;
        }
        Ok(Self { path: path.to_owned(), file, events, state, is_suspect: false })
    }

    /// What the events fold to.
    #[must_use]
    pub fn state(&self) -> &ServiceState {
        &self.state
    }

    /// The events of the file.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Appends events that belong together, and syncs them where one of them has to be durable before the agent goes on.
    ///
    /// # Errors
    /// [`JournalError`]: none of them was appended.
    pub fn append(&mut self, events: &[Event]) -> Result<(), JournalError> {
        let mut state = self.state.clone();
        events
            .iter()
            .try_for_each(|event| state.apply(event))
            .map_err(|source| JournalError::Impossible { path: self.path.clone(), source })?;
        let opens_step = events.iter().any(|event| matches!(event, Event::StepOpened(_)));
        if opens_step && self.events.len() > MAX_EVENTS_BEFORE_STEP {
            let mut kept = self.state.compacted();
            kept.extend_from_slice(events);
            self.rewrite(kept)?;
        } else {
            self.append_or_rewrite(events)?;
        }
        self.state = state;
        Ok(())
    }

    fn append_or_rewrite(&mut self, events: &[Event]) -> Result<(), JournalError> {
        if !self.is_suspect {
            match self.write(events) {
                Ok(()) => {
                    self.events.extend_from_slice(events);
                    return Ok(());
                }
                Err(error) => {
                    tracing::warn!(%error, "an append to the journal failed; writing it anew");
                    self.is_suspect = true;
                }
            }
        }
        self.rewrite(self.events.iter().chain(events).cloned().collect())
    }

    fn write(&mut self, events: &[Event]) -> Result<(), DiskError> {
        let bytes: Vec<u8> = events.iter().flat_map(seal).collect();
        self.file.write_all(&bytes).map_err(DiskError::new("append to", &self.path))?;
        if events.iter().any(Event::is_synced) {
            self.file.sync_data().map_err(DiskError::new("sync", &self.path))?;
        }
        Ok(())
    }

    fn rewrite(&mut self, events: Vec<Event>) -> Result<(), JournalError> {
        let bytes: Vec<u8> = events.iter().flat_map(seal).collect();
        write_atomic(&self.path, &bytes)?;
        self.file = File::options().append(true).open(&self.path).map_err(DiskError::new("open", &self.path))?;
        self.events = events;
        self.is_suspect = false;
        Ok(())
    }
}

fn seal(event: &Event) -> Vec<u8> {
    bincode::seal(Kind::JOURNAL, &Record(event.clone()))
}

/// The events at the front of `bytes`, and how many bytes they take; what follows is torn.
pub(super) fn read_events(bytes: &[u8]) -> Result<(Vec<Event>, usize), CodecError> {
    let mut events = Vec::new();
    let mut offset = 0;
    while offset < bytes.len() {
        let envelope = match bincode::decode_envelope(Kind::JOURNAL, &bytes[offset..]) {
            Ok(envelope) => envelope,
            Err(error @ CodecError::Version { .. }) => return Err(error),
            Err(_) => break,
        };
        let end = offset + envelope.consumed;
        let Ok(Record(event)) = bincode::open(Kind::JOURNAL, &bytes[offset..end]) else { break };
        events.push(event);
        offset = end;
    }
    Ok((events, offset))
}

/// The highest fence in any journal of the data folder, of services too that the config doesn't list any more.
///
/// # Errors
/// [`DiskError`]
pub fn highest_fence(layout: &Layout) -> Result<Fence, DiskError> {
    let services = layout.services();
    let mut highest = Fence::default();
    for entry in fs::read_dir(&services).map_err(DiskError::new("read", &services))? {
        let path = entry.map_err(DiskError::new("read", &services))?.path().join("journal");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(DiskError::new("read", &path)(error)),
        };
        highest = highest.max(highest_fence_in(&bytes));
    }
    Ok(highest)
}

#[cfg(test)]
mod tests {
    use rollcall_ident::{BootId, RolloutId};
    use rollcall_steps::{Ending, Hook, Outcome, Phase, Reason, RunToken, Status, StepOpened, Timings};

    use super::*;

    fn opened(fence: u64) -> Event {
        Event::StepOpened(StepOpened {
            fence: Fence(fence),
            attempt: 1,
            rollout: RolloutId(1),
            from: None,
            to: "acme/app/1.0/20260101000000".parse().unwrap(),
            digest: None,
            reason: Reason::Update,
            max_reboots: 3,
            reboots: 0,
        })
    }

    fn events() -> Vec<Event> {
        let boot_id = BootId([7; 16]);
        vec![
            opened(7),
            Event::PhaseBegun { phase: Phase::Preparing, boot_id },
            Event::PhaseEnded { phase: Phase::Preparing, outcome: Outcome::Done { hook_ran: false } },
            Event::PhaseBegun { phase: Phase::Draining, boot_id },
            Event::HookStarted { hook: Hook::Drain, token: RunToken([1; 16]) },
            Event::Reported { count: 2 },
        ]
    }

    /// The bytes of format version 1, for ever: they are on disks.
    #[test]
    fn golden_bytes_of_version_1() {
        let bytes: Vec<u8> = events().iter().flat_map(seal).collect();
        let hash = blake3::hash(&bytes).to_hex();
        assert_eq!((bytes.len(), &hash[..16]), (GOLDEN_BYTES, GOLDEN_HASH));
    }

    /// Records that came later, beside the old ones.
    #[test]
    fn golden_bytes_of_ordered_ends() {
        let forced = Event::PhaseEnded { phase: Phase::Draining, outcome: Outcome::Forced };
        let ordered = [Ending::TurnedBack, Ending::Withdrawn].map(|ending| Event::EndOrdered { ending });
        let events: Vec<Event> = [forced, Event::LeftDown].into_iter().chain(ordered).collect();
        let bytes: Vec<u8> = events.iter().flat_map(seal).collect();
        assert_eq!((bytes.len(), &blake3::hash(&bytes).to_hex()[..16]), (56, "c9af5afafc72bcf4"));
    }

    const GOLDEN_BYTES: usize = 169;
    const GOLDEN_HASH: &str = "aa284b04cefc788b";

    #[test]
    fn a_journal_cut_off_at_any_byte_keeps_what_came_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        Journal::open(&path).unwrap().append(&events()).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            let kept = journal.events().len();
            assert_eq!(journal.events(), &events()[..kept]);
            journal.append(&events()[kept..]).unwrap();
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
    }

    /// A whole step, as the journal has it.
    fn whole_step() -> Vec<Event> {
        let boot_id = BootId([7; 16]);
        let done = |phase| Event::PhaseEnded { phase, outcome: Outcome::Done { hook_ran: true } };
        let begun = |phase| Event::PhaseBegun { phase, boot_id };
        let token = RunToken([1; 16]);
        let release = "acme/app/1.0/20260101000000".parse().unwrap();
        vec![
            opened(7),
            begun(Phase::Preparing),
            done(Phase::Preparing),
            begun(Phase::Draining),
            Event::HookStarted { hook: Hook::Drain, token },
            done(Phase::Draining),
            begun(Phase::Stopping),
            Event::OldInstanceGone { killed: false },
            done(Phase::Stopping),
            begun(Phase::Installing),
            Event::HookStarted { hook: Hook::Install, token },
            done(Phase::Installing),
            Event::Reported { count: 4 },
            begun(Phase::Starting),
            Event::NewInstance(rollcall_steps::Instance { pid: 42, start_time: 9, boot_id, release }),
            Event::EndBegun { ending: Ending::Finished, boot_id },
            Event::StepClosed { ending: Ending::Finished, timings: Timings::default() },
        ]
    }

    /// Whatever bit flips: either the last record is taken for torn, or nothing of the step is done again.
    #[test]
    fn a_flipped_bit_anywhere_never_repeats_a_step() {
        for length in 1..=whole_step().len() {
            let events = &whole_step()[..length];
            let records: Vec<Vec<u8>> = events.iter().map(seal).collect();
            let whole = records.concat();
            let truth = ServiceState::from_events(events).unwrap();
            let last_at = whole.len() - records[length - 1].len();
            let known: Vec<ServiceState> =
                (0..=length).map(|count| ServiceState::from_events(&events[..count]).unwrap()).collect();
            for bit in 0..whole.len() * 8 {
                let mut flipped = whole.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let found = read_journal(&flipped, None).unwrap();
                assert_eq!(found.is_rewritten, bit / 8 < last_at, "bit {bit} of {length} records");
                if !found.is_rewritten {
                    assert_eq!(found.state, known[length - 1]);
                    continue;
                }
                let is_opening_lost = bit / 8 < records[0].len();
                assert_eq!(found.state.fence, if is_opening_lost { Fence(0) } else { truth.fence });
                assert!(found.state.installed.is_subset(&truth.installed), "bit {bit} of {length} records");
                if let Some(step) = found.state.open_step() {
                    assert!(matches!(step.status, Status::Failed { .. }), "{:?}", step.status);
                    // What may have been drained is undrained.
                    let is_drained = known.iter().any(|state| state.open_step().is_some_and(|it| it.drain_begun));
                    assert!(!is_drained || step.drain_begun, "bit {bit} of {length} records");
                }
                // Nor is it opened again.
                let checked = rollcall_steps::check_open(&found.state, found.state.fence, Fence(7), 1);
                assert!(is_opening_lost || checked.is_err(), "bit {bit} of {length} records");
                // And it stays what it is.
                let again = found.events.iter().flat_map(seal).collect::<Vec<_>>();
                let again = read_journal(&again, None).unwrap();
                assert_eq!((again.state, again.is_rewritten), (found.state, false));
            }
        }
    }

    #[test]
    fn a_damaged_journal_is_put_aside_and_its_fence_kept() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::prepare(dir.path()).unwrap();
        let path = layout.prepare_service(&"app.default".parse().unwrap()).unwrap().journal();
        Journal::open(&path).unwrap().append(&whole_step()[..12]).unwrap();
        let mut damaged = fs::read(&path).unwrap();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 4;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(highest_fence(&layout).unwrap(), Fence(7));
        let journal = Journal::open(&path).unwrap();
        assert!(matches!(journal.state().open_step().unwrap().status, Status::Failed { .. }));
        assert_eq!(fs::read(path.with_extension("damaged")).unwrap(), damaged);
        assert_eq!(Journal::open(&path).unwrap().events(), journal.events());
    }

    #[test]
    fn half_a_record_is_never_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = Journal::open(&path).unwrap();
        journal.append(&events()[..2]).unwrap();
        // A disk that takes neither the append nor a new file, …
        journal.file = File::open(&path).unwrap();
        fs::create_dir(dir.path().join("journal.tmp")).unwrap();
        assert!(matches!(journal.append(&events()[2..3]), Err(JournalError::Disk(_))));
        // … and has taken half a record.
        journal.file = File::options().append(true).open(&path).unwrap();
        journal.file.write_all(&seal(&events()[2])[..5]).unwrap();
        fs::remove_dir(dir.path().join("journal.tmp")).unwrap();
        journal.append(&events()[2..]).unwrap();
        assert_eq!(Journal::open(&path).unwrap().events(), events());
    }

    #[test]
    fn what_cannot_have_happened_is_not_appended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = Journal::open(&path).unwrap();
        journal.append(&events()).unwrap();
        let before = fs::read(&path).unwrap();
        let wrong = Event::PhaseBegun { phase: Phase::Starting, boot_id: BootId([7; 16]) };
        assert!(matches!(journal.append(&[wrong]), Err(JournalError::Impossible { .. })));
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_long_journal_is_compacted_and_keeps_its_fence() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::prepare(dir.path()).unwrap();
        let service = layout.prepare_service(&"app.default".parse().unwrap()).unwrap();
        let mut journal = Journal::open(&service.journal()).unwrap();
        let boot_id = BootId([7; 16]);
        for fence in 1..500 {
            let end = Event::EndBegun { ending: Ending::Withdrawn, boot_id };
            let closed = Event::StepClosed { ending: Ending::Withdrawn, timings: Timings::default() };
            journal.append(&[opened(fence), end, closed]).unwrap();
        }
        assert!(journal.events().len() <= MAX_EVENTS_BEFORE_STEP + 3);
        let again = Journal::open(&service.journal()).unwrap();
        assert_eq!(again.state(), journal.state());
        assert_eq!(highest_fence(&layout).unwrap(), Fence(499));
    }
}
