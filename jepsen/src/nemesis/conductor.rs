//! Carries a schedule out, and tells what came of each fault.

use std::time::Duration;

use anyhow::Result;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::hosts::Hosts;
use crate::nemesis::schedule::Planned;
use crate::nemesis::{Active, Begun, Fault, begin, end, member};
use crate::ops::Kind;
use crate::ops::book::{Book, Entry};
use crate::screen::{Screen, Tone};

/// BOUND: how often what came to nothing is tried again, and for how long it lasts then, in milliseconds.
const TRIES: u64 = 3;
/// See above.
const MADE_UP_MS: u64 = 3_000;

/// BOUND: how often a peer that has to be taken in anew is tried, while the others are on their way back.
const REBUILDS: usize = 8;
/// See above.
const BETWEEN_REBUILDS: Duration = Duration::from_secs(2);
/// See above: within one of them.
const TRIES_OF_A_REBUILD: usize = 6;

/// What became of a planned fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It was made, and seen to bite.
    Installed,
    /// It could not be made.
    Skipped,
    /// Nobody can tell whether it did anything.
    Indeterminate,
}

/// A fault as it was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inflicted {
    /// As planned.
    pub number: usize,
    /// What kind.
    pub fault: Fault,
    /// What was done.
    pub what: String,
    /// To whom.
    pub targets: Vec<String>,
    /// What became of it.
    pub fate: Fate,
    /// Counters, ids, states; or why it is no more than that.
    pub evidence: String,
    /// Nanoseconds since the run began.
    pub began: u64,
    /// The same.
    pub ended: u64,
}

/// Carries out what was planned.
pub struct Conductor<'a> {
    hosts: &'a mut Hosts,
    book: Book,
    clock: Clock,
    screen: &'a Screen,
    lasting: Vec<(Instant, Inflicted, Active)>,
    /// What was done, in the order of its ends.
    pub done: Vec<Inflicted>,
}

impl<'a> Conductor<'a> {
    /// For one run.
    pub fn new(hosts: &'a mut Hosts, book: Book, clock: Clock, screen: &'a Screen) -> Self {
        Self { hosts, book, clock, screen, lasting: Vec::new(), done: Vec::new() }
    }

    /// From the first fault to the last one's end; every fault is over when this returns.
    pub async fn play(&mut self, schedule: &[Planned]) -> Result<()> {
        let begun = Instant::now();
        for planned in schedule {
            let at = begun + Duration::from_millis(planned.at_ms);
            self.end_those_due(at).await?;
            self.rebuild(1).await?;
            tokio::time::sleep_until(at).await;
            self.begin(planned).await?;
        }
        while let Some(last) = self.lasting.iter().map(|(at, ..)| *at).max() {
            self.end_those_due(last).await?;
        }
        Ok(())
    }

    /// What came to nothing so far comes once more, alone: a run that was asked for it needs it.
    pub async fn make_up_for(&mut self, faults: &[Fault], seed: u64) -> Result<()> {
        for try_number in 0..TRIES {
            let is_done = |fault: &Fault| self.done.iter().any(|it| it.fault == *fault && it.fate == Fate::Installed);
            let missing: Vec<Fault> = faults.iter().filter(|fault| !is_done(fault)).copied().collect();
            for fault in missing {
                self.heal().await?;
                // Whoever is needed for it may still be on its way back.
                let _ = self.hosts.await_recovery().await;
                let number = 1_000 + self.done.len();
                let seed = seed.wrapping_add(try_number * 1_000 + number as u64);
                let planned = Planned { number, fault, at_ms: 0, lasts_ms: MADE_UP_MS, seed };
                self.play(&[planned]).await?;
            }
        }
        Ok(())
    }

    /// Ends what still lasts at once, and puts right what the faults have left.
    pub async fn heal(&mut self) -> Result<()> {
        while let Some((_, inflicted, active)) = self.lasting.pop() {
            self.end(inflicted, active).await?;
        }
        let names: Vec<String> = self.hosts.all().map(|host| host.name().to_owned()).collect();
        for name in names {
            let host = self.hosts.named_mut(&name)?;
            host.machine.ailment().set(None);
            if !host.machine.is_running() {
                host.machine.switch_on().await?;
            }
            host.release()?;
            if let Some(process) = host.process() {
                host.thaw(process);
            }
        }
        for _ in 0..REBUILDS {
            if self.hosts.to_rebuild.is_empty() {
                break;
            }
            self.rebuild(TRIES_OF_A_REBUILD).await?;
            tokio::time::sleep(BETWEEN_REBUILDS).await;
        }
        Ok(())
    }

    /// Takes in again who isn't one of the peers since an earlier fault, where that can be done now. Until then it was hurt.
    async fn rebuild(&mut self, tries: usize) -> Result<()> {
        if self.hosts.to_rebuild.is_empty() {
            return Ok(());
        }
        let waiting: Vec<String> = self.hosts.to_rebuild.iter().map(|(name, _)| name.clone()).collect();
        let said = member::rebuild_within(self.hosts, tries).await?;
        self.screen.say(&self.screen.tint(Tone::Dim, &said));
        let now = self.now();
        for name in waiting.iter().filter(|name| self.hosts.to_rebuild.iter().all(|(left, _)| left != *name)) {
            let is_it = |it: &&mut Inflicted| {
                matches!(it.fault, Fault::Member | Fault::Rot) && it.targets.first() == Some(name)
            };
            if let Some(inflicted) = self.done.iter_mut().rev().find(is_it) {
                (inflicted.fate, inflicted.ended) = (Fate::Installed, now);
                inflicted.evidence = format!("{}; {said}", inflicted.evidence);
            }
        }
        Ok(())
    }

    async fn end_those_due(&mut self, until: Instant) -> Result<()> {
        loop {
            self.lasting.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
            match self.lasting.last() {
                Some((at, ..)) if *at <= until => tokio::time::sleep_until(*at).await,
                _ => return Ok(()),
            }
            if let Some((_, inflicted, active)) = self.lasting.pop() {
                self.end(inflicted, active).await?;
            }
        }
    }

    async fn begin(&mut self, planned: &Planned) -> Result<()> {
        let mut random = StdRng::seed_from_u64(planned.seed);
        let began = self.now();
        let begun = begin(planned.fault, planned.number, self.hosts, &mut random).await?;
        let mut inflicted = Inflicted {
            number: planned.number,
            fault: planned.fault,
            what: planned.fault.name().to_owned(),
            targets: Vec::new(),
            fate: Fate::Installed,
            evidence: String::new(),
            began,
            ended: self.now(),
        };
        match begun {
            Begun::Installed(wound) => {
                (inflicted.what, inflicted.targets) = (wound.what, wound.targets);
                self.note(&inflicted, "begins");
                self.screen.say(&self.screen.tint(Tone::Yellow, &inflicted.what));
                let until = Instant::now() + Duration::from_millis(planned.lasts_ms);
                self.lasting.push((until, inflicted, wound.active));
                return Ok(());
            }
            Begun::Skipped(why) => (inflicted.fate, inflicted.evidence) = (Fate::Skipped, why),
            Begun::Indeterminate(why) => (inflicted.fate, inflicted.evidence) = (Fate::Indeterminate, why),
        }
        self.note(&inflicted, "comes to nothing");
        self.tell(&inflicted);
        self.done.push(inflicted);
        Ok(())
    }

    async fn end(&mut self, mut inflicted: Inflicted, active: Active) -> Result<()> {
        let bite = end(active, self.hosts).await?;
        inflicted.ended = self.now();
        inflicted.evidence = bite.evidence;
        if !bite.bit {
            inflicted.fate = Fate::Indeterminate;
        }
        self.note(&inflicted, "ends");
        self.tell(&inflicted);
        self.done.push(inflicted);
        Ok(())
    }

    fn tell(&self, inflicted: &Inflicted) {
        let Inflicted { what, evidence, .. } = inflicted;
        let line = match inflicted.fate {
            Fate::Installed => format!("over: {what} ({evidence})"),
            Fate::Skipped => format!("skipped: {what}: {evidence}"),
            Fate::Indeterminate => format!("indeterminate: {what}: {evidence}"),
        };
        self.screen.say(&self.screen.tint(Tone::Dim, &line));
    }

    fn note(&self, inflicted: &Inflicted, how: &str) {
        let value = json!({ "number": inflicted.number, "how": how, "what": inflicted.what,
            "targets": inflicted.targets, "evidence": inflicted.evidence });
        let f = inflicted.fault.name().to_owned();
        self.book.add(Entry { process: None, kind: Kind::Info, f, value, peer: None, error: None });
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_nanos()).unwrap_or(u64::MAX)
    }
}
