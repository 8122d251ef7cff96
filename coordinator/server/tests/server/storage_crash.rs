//! A peer's storage, killed (SIGKILL) at any moment: nothing that was acknowledged is lost, and it always opens again.
//!
//! The child is this very test binary, running the one test that is ignored otherwise.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::storage_support::{child, verify};

const DIR: &str = "ROLLCALL_CRASH_DIR";
const SEED: &str = "ROLLCALL_CRASH_SEED";

/// BOUND: how long a child may take to acknowledge its first entry, on a machine that is busy with other tests.
const FIRST_WORD: Duration = Duration::from_secs(60);

#[test]
#[ignore = "the child of the crash test: it runs until it is killed"]
fn child_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let seed = std::env::var(SEED).unwrap().parse().unwrap();
    child::run(dir.as_ref(), seed).unwrap();
}

/// The highest numbers that a child has told.
#[derive(Debug, Default, Clone, Copy)]
struct Told {
    acked: u64,
    purged: u64,
}

/// Runs a child, kills it `life` after its first acknowledgement, and returns what it told.
fn run_and_kill(dir: &Path, seed: u64, life: Duration, mut told: Told) -> Told {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "storage_crash::child_process", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (lines, words) = channel();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
    });
    let (mut deadline, mut heard) = (Instant::now() + FIRST_WORD, false);
    let hear = |line: &str, told: &mut Told| {
        // The harness writes its own words in front of the first line.
        let mut words = line.rsplit(' ');
        let (Some(number), Some(what)) = (words.next().and_then(|word| word.parse().ok()), words.next()) else {
            return false;
        };
        match what.chars().next_back() {
            Some('A') => told.acked = told.acked.max(number),
            Some('Q') => told.purged = told.purged.max(number),
            _ => return false,
        }
        true
    };
    loop {
        match words.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) if hear(&line, &mut told) && !heard => {
                (deadline, heard) = (Instant::now() + life, true);
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => panic!("the child ended by itself: {:?}", child.wait()),
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    for line in words {
        hear(&line, &mut told);
    }
    assert!(heard, "the child said nothing for {FIRST_WORD:?}");
    told
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let rounds = if std::env::var_os("ROLLCALL_FULL").is_some() { 50 } else { 6 };
    let mut rng = SmallRng::seed_from_u64(20);
    let folder = tempfile::tempdir().unwrap();
    let (dir, mut told) = (folder.path().join("data"), Told::default());
    for round in 0..rounds {
        let before = told.acked;
        // Short lives are killed while they open or make their first snapshot, long ones while they purge.
        let life = Duration::from_micros(1 << rng.random_range(6..21));
        told = run_and_kill(&dir, round, life, told);
        verify::run(&dir, told.acked, told.purged).unwrap_or_else(|error| panic!("round {round}: {error:?}"));
        assert!(told.acked >= before);
    }
    assert!(told.acked > 0 && told.purged > 0, "too little happened: {told:?}");
}
