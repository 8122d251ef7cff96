//! Which fault begins when and how long it lasts: drawn from a seed before anything runs. Each has a seed of its own for
//! what it draws itself, so that leaving one out changes nothing about the others.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::nemesis::Fault;

/// Between the beginnings of two faults, in milliseconds. Shorter than most last: they overlap.
const APART_MS: std::ops::Range<u64> = 1_500..5_000;

/// How long one lasts, in milliseconds: shorter and longer than an election takes.
const LASTS_MS: [std::ops::Range<u64>; 2] = [200..900, 1_500..7_000];

/// One fault as it is planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Its own number.
    pub number: usize,
    /// What.
    pub fault: Fault,
    /// When, since the first fault might have come.
    pub at_ms: u64,
    /// For how long.
    pub lasts_ms: u64,
    /// What it draws itself, is drawn from it.
    pub seed: u64,
}

impl Planned {
    /// When it ends.
    pub fn ends_ms(&self) -> u64 {
        self.at_ms + self.lasts_ms
    }
}

/// Faults of these kinds, for so long. Each kind comes once before any comes a second time.
pub fn draw(faults: &[Fault], time: Duration, seed: u64) -> Vec<Planned> {
    let mut random = StdRng::seed_from_u64(seed);
    let until = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut planned = Vec::new();
    let mut left: Vec<Fault> = Vec::new();
    let mut at_ms = 500;
    while !faults.is_empty() {
        if left.is_empty() {
            left = faults.to_vec();
        }
        let place = random.random_range(0..left.len());
        let fault = left.remove(place);
        let range = LASTS_MS.choose(&mut random).cloned().unwrap_or(LASTS_MS[1].clone());
        let lasts_ms = random.random_range(range).max(fault.least_ms());
        let seed = random.random();
        if at_ms + lasts_ms > until {
            break;
        }
        planned.push(Planned { number: planned.len(), fault, at_ms, lasts_ms, seed });
        at_ms += random.random_range(APART_MS);
    }
    planned
}

/// What a file holds.
pub fn load(path: &Path) -> Result<Vec<Planned>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no schedule of faults", path.display()))
}

/// Writes it to a file.
pub fn store(path: &Path, planned: &[Planned]) -> Result<()> {
    std::fs::write(path, serde_json::to_string_pretty(planned)?)
        .with_context(|| format!("can't write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_draws_the_same_again_and_every_kind_comes() {
        let time = Duration::from_secs(120);
        let one = draw(&Fault::ALL, time, 7);
        assert_eq!(one, draw(&Fault::ALL, time, 7));
        assert_ne!(one, draw(&Fault::ALL, time, 8));
        let kinds: BTreeSet<Fault> = one.iter().take(Fault::ALL.len()).map(|planned| planned.fault).collect();
        assert_eq!(kinds.len(), Fault::ALL.len());
        assert!(one.iter().all(|planned| planned.ends_ms() <= 120_000));
    }

    #[test]
    fn faults_overlap() {
        let drawn = draw(&Fault::ALL, Duration::from_secs(300), 1);
        assert!(drawn.windows(2).filter(|pair| pair[1].at_ms < pair[0].ends_ms()).count() > 10);
    }

    #[test]
    fn what_was_stored_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("schedule.json");
        let drawn = draw(&[Fault::Kill], Duration::from_secs(30), 1);
        store(&path, &drawn).unwrap();
        assert_eq!(load(&path).unwrap(), drawn);
    }
}
