//! Looks for the fewest faults with which a run still breaks a promise: halves of the schedule are left out as long as it
//! does, then quarters, and so on (Zeller's delta debugging). Each try is a run of its own.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rollcall_jepsen::check::Outcome;
use rollcall_jepsen::nemesis::schedule::{self, Planned};
use rollcall_jepsen::stored::Stored;

/// What a try came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tried {
    /// It breaks a promise all the same.
    Fails,
    /// It doesn't, or there is too little evidence.
    Passes,
}

/// Minimises the schedule of the run in `folder`; writes what is left as `schedule.minimal.json`.
pub fn minimise(folder: &Path, runs: usize) -> Result<Outcome> {
    let stored = Stored::load(folder)?;
    let schedule = schedule::load(&folder.join("schedule.json"))?;
    println!("{} faults; at most {runs} runs", schedule.len());
    let mut left = runs;
    let minimal = reduce(schedule, &mut |faults| {
        if left == 0 {
            return Ok(None);
        }
        left -= 1;
        try_out(&stored, faults).map(Some)
    })?;
    let Some(minimal) = minimal else {
        println!("The run doesn't fail again with all of its faults: what broke needs more than their order.");
        return Ok(Outcome::Unknown);
    };
    let path = folder.join("schedule.minimal.json");
    schedule::store(&path, &minimal)?;
    println!("\n{} faults are left:", minimal.len());
    for planned in &minimal {
        println!(
            "  at {:6.1} s for {:4.1} s  {}",
            seconds(planned.at_ms),
            seconds(planned.lasts_ms),
            planned.fault.name()
        );
    }
    println!("again: scripts/jepsen run … --schedule {}", path.display());
    Ok(Outcome::Violated)
}

/// The fewest of `faults` that still fail; none, where not even all of them do. `try_out` answers nothing once there are
/// no tries left.
fn reduce(
    faults: Vec<Planned>,
    try_out: &mut impl FnMut(&[Planned]) -> Result<Option<Tried>>,
) -> Result<Option<Vec<Planned>>> {
    if try_out(&faults)? != Some(Tried::Fails) {
        return Ok(None);
    }
    let mut faults = faults;
    let mut parts = 2;
    while !faults.is_empty() {
        let size = faults.len().div_ceil(parts);
        let mut smaller = None;
        for part in 0..faults.len().div_ceil(size) {
            let without: Vec<Planned> = faults
                .iter()
                .enumerate()
                .filter(|(place, _)| place / size != part)
                .map(|(_, planned)| planned.clone())
                .collect();
            match try_out(&without)? {
                Some(Tried::Fails) => {
                    smaller = Some(without);
                    break;
                }
                Some(Tried::Passes) => {}
                None => return Ok(Some(faults)),
            }
        }
        match smaller {
            Some(smaller) => {
                faults = smaller;
                parts = (parts - 1).max(2);
            }
            None if size == 1 => break,
            None => parts = (parts * 2).min(faults.len().max(1)),
        }
    }
    Ok(Some(faults))
}

fn try_out(stored: &Stored, faults: &[Planned]) -> Result<Tried> {
    let settings = &stored.settings;
    let tries = stored.folder.join("tries");
    std::fs::create_dir_all(&tries)?;
    let file = tries.join("schedule.json");
    schedule::store(&file, faults)?;
    let names: Vec<&str> = settings.workloads.iter().map(|workload| workload.name()).collect();
    let number = |value: u64| value.to_string();
    let own = std::env::current_exe().context("can't tell where this program is")?;
    let mut command = Command::new(own);
    command
        .args(["run", "--workload", &names.join(","), "--nemesis", "none"])
        .args(["--time-limit", &number(settings.time_limit_s), "--seed", &number(settings.seed)])
        .args(["--clients", &number(settings.clients), "--rate", &number(settings.rate)])
        .args(["--peers", &settings.peers.to_string(), "--nodes", &settings.nodes.max(1).to_string()])
        .args(["--keys", &settings.keys.to_string()])
        .arg("--out")
        .arg(&tries)
        .arg("--schedule")
        .arg(&file)
        .stdout(std::fs::File::create(tries.join("output"))?);
    if let Some(plant) = settings.plant.and_then(|plant| plant.to_possible_value()) {
        command.args(["--plant", plant.get_name()]);
    }
    if let Some(fault) = &settings.plant_in_peers {
        command.args(["--plant-in-peers", fault]);
    }
    if settings.strict {
        command.arg("--strict");
    }
    let status = command.status()?;
    let tried = match status.code() {
        Some(1) => Tried::Fails,
        Some(0 | 2) => Tried::Passes,
        _ => bail!("a try came to nothing ({status}); what it said: {}", tries.join("output").display()),
    };
    println!("  {:3} faults: {tried:?}", faults.len());
    Ok(tried)
}

fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_jepsen::nemesis::Fault;
    use std::time::Duration;

    #[test]
    fn only_the_faults_that_matter_are_left() {
        let faults = schedule::draw(&[Fault::Kill, Fault::Power], Duration::from_secs(120), 1);
        assert!(faults.len() > 12);
        let needed = [3, 9];
        let mut tries = 0;
        let minimal = reduce(faults.clone(), &mut |faults: &[Planned]| {
            tries += 1;
            let all = needed.iter().all(|number| faults.iter().any(|planned| planned.number == *number));
            Ok(Some(if all { Tried::Fails } else { Tried::Passes }))
        });
        let left: Vec<usize> = minimal.unwrap().unwrap().iter().map(|planned| planned.number).collect();
        assert_eq!(left, needed);
        assert!(tries < 60, "{tries}");
        let never = reduce(faults.clone(), &mut |_: &[Planned]| Ok(Some(Tried::Passes))).unwrap();
        assert_eq!(never, None);
        let mut once = Some(Tried::Fails);
        let tired = reduce(faults.clone(), &mut |_: &[Planned]| Ok(once.take())).unwrap();
        assert_eq!(tired, Some(faults), "as far as the tries go");
    }
}
