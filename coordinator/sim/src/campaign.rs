//! Many seeds: each in a process of its own, so that what one leaves behind, or dies of, is no other's.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// BOUND: what a run may take of a processor. It takes some seconds; one in which something goes on without letting time
/// pass never ends. However busy the machine is, that says nothing of it.
const MOST_WORK: Duration = Duration::from_secs(60);

/// BOUND: a run in which nothing goes on at all.
const LONGEST: Duration = Duration::from_secs(1_800);

/// In which the kernel counts the work of a process (`USER_HZ`, the same on every Linux).
const TICKS_PER_SECOND: u64 = 100;

/// What a child says of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The first violation's rule; none: there was none.
    pub rule: Option<String>,
    /// Its last line.
    pub line: String,
}

/// How children are run.
#[derive(Debug, Clone)]
pub struct Children {
    /// This very program.
    pub program: PathBuf,
    /// What each is given beside its seed.
    pub arguments: Vec<String>,
}

impl Children {
    /// Runs a seed, without these events.
    ///
    /// # Errors
    /// The child can't be run, or ends by neither of its verdicts.
    pub fn run(&self, seed: u64, without: &BTreeSet<usize>) -> anyhow::Result<Said> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("--seed").arg(seed.to_string());
        if !without.is_empty() {
            command.arg("--without").arg(list(without));
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.context("a child can't be run")?;
        let began = Instant::now();
        while child.try_wait()?.is_none() {
            if work_of(child.id()) > MOST_WORK || began.elapsed() > LONGEST {
                child.kill()?;
                child.wait()?;
                let line =
                    format!("seed {seed} VIOLATED busy: time doesn't pass, or takes more than {MOST_WORK:?} of work");
                return Ok(Said { rule: Some("busy".to_owned()), line });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().last().unwrap_or_default().to_owned();
        match output.status.code() {
            Some(0) => Ok(Said { rule: None, line }),
            Some(1) => {
                let rule = line.split("VIOLATED ").nth(1).and_then(|rest| rest.split(':').next()).unwrap_or_default();
                Ok(Said { rule: Some(rule.to_owned()), line })
            }
            code => {
                let said = String::from_utf8_lossy(&output.stderr);
                let panic = said.lines().find(|line| line.starts_with("panicked: "));
                let last = panic.or(said.lines().last()).unwrap_or_default().to_owned();
                // A process that dies takes its verdict with it; that it died is one.
                anyhow::ensure!(code != Some(3), "seed {seed}: {last}");
                Ok(Said { rule: Some("died".to_owned()), line: format!("seed {seed} VIOLATED died: {last}") })
            }
        }
    }
}

/// How long a process of ours has kept a processor busy so far.
fn work_of(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name is in parentheses, and may hold anything; utime and stime are the 14th and 15th field (proc(5)).
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
}

/// Numbers with commas between them.
#[must_use]
pub fn list(numbers: &BTreeSet<usize>) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Runs so many seeds from the first on, some at once, and says how each went. The failing ones.
///
/// # Errors
/// A child can't be run.
pub fn run(children: &Children, first: u64, count: u64, at_once: usize) -> anyhow::Result<Vec<(u64, Said)>> {
    let next = AtomicU64::new(first);
    let failed = Mutex::new(Vec::new());
    let began = Instant::now();
    std::thread::scope(|scope| {
        let worker = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + count {
                    return anyhow::Ok(());
                }
                let said = children.run(seed, &BTreeSet::new())?;
                println!("{}", said.line);
                if said.rule.is_some() {
                    failed.lock().expect("nothing panics under it").push((seed, said));
                }
            }
        };
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker doesn't panic"))
    })?;
    let mut failed = failed.into_inner().expect("nothing panics under it");
    failed.sort_by_key(|(seed, _)| *seed);
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    println!("{count} seeds, {} violated, {:.1} seeds a minute", failed.len(), count as f64 / minutes.max(1e-9));
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_and_waiting_is_not() {
        let own = std::process::id();
        let before = work_of(own);
        let began = Instant::now();
        let mut sum = 0_u64;
        while work_of(own) < before + Duration::from_millis(50) {
            sum = std::hint::black_box(sum.wrapping_add(1));
            assert!(began.elapsed() < Duration::from_secs(60), "{sum}");
        }
        assert_eq!(work_of(u32::MAX), Duration::ZERO, "nobody has that number");
    }
}
