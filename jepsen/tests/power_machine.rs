//! A machine with a disk that forgets, real processes in it. Needs root, `/dev/fuse`, iproute2 and util-linux.

#![allow(clippy::unwrap_used, reason = "a test that can't go on, fails")]

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rollcall_jepsen::power::apart::live_apart;
use rollcall_jepsen::power::disk::Durability;
use rollcall_jepsen::power::machine::{End, Machine, Plan};
use rollcall_jepsen::power::network;
use rollcall_jepsen::procfs;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const LAUNCHER: &str = env!("CARGO_BIN_EXE_rollcall-powercut");

/// One at a time, where the tests share a process; whether the bridge is there.
static ALONE: Mutex<bool> = Mutex::new(false);

struct Bench {
    machine: Machine,
    ends: UnboundedReceiver<End>,
    _folder: tempfile::TempDir,
    _alone: MutexGuard<'static, bool>,
}

impl Bench {
    /// A machine that runs `script`, with its disk as working folder.
    fn new(number: u8, script: &str) -> Self {
        live_apart().unwrap();
        let mut alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        if !*alone {
            network::set_up().unwrap();
            *alone = true;
        }
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan {
            name: "machine-1".into(),
            number,
            durability: Durability::Journaled,
            launcher: PathBuf::from(LAUNCHER),
        };
        let (sender, ends) = unbounded_channel();
        let mut machine = Machine::create(folder.path().join("machine-1"), plan, sender).unwrap();
        let script = format!("cd {}\n{script}", machine.disk().display());
        machine.set_command(vec!["bash".into(), "-c".into(), script]);
        Self { machine, ends, _folder: folder, _alone: alone }
    }

    /// What its program has said so far, once it has said `word` so many times.
    async fn log_with(&self, word: &str, times: usize) -> String {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        loop {
            let log = fs::read_to_string(self.machine.log()).unwrap();
            if log.matches(word).count() >= times {
                return log;
            }
            assert!(tokio::time::Instant::now() < deadline, "{log}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_power_cut_ends_every_process_and_loses_what_was_not_synced() {
    let mut bench = Bench::new(
        1,
        "echo have $(ls); read -r boot </proc/sys/kernel/random/boot_id; echo boot $boot on $(cat /proc/sys/kernel/hostname)
         (setsid sleep 1000 &)
         echo x >synced.$boot; sync synced.$boot; echo x >unsynced
         echo ready; while :; do echo y >>unsynced; sleep 0.01; done",
    );
    bench.machine.switch_on().await.unwrap();
    let first = bench.log_with("ready", 1).await;
    assert!(first.contains("on machine-1"), "{first}");
    let loss = bench.machine.cut_power().await.unwrap();
    assert!(loss.bytes > 0 && loss.names == 1, "{loss:?}");
    assert_eq!(bench.ends.recv().await.unwrap(), End { number: 1, boot: 1, rebooted: false });
    let left = procfs::all_processes().into_iter().filter(|pid| *pid != nix::unistd::getpid()).count();
    assert_eq!(left, 0, "sleep has left its parent and its session, and not its machine");

    bench.machine.switch_on().await.unwrap();
    let both = bench.log_with("ready", 2).await;
    let have: Vec<&str> = both.lines().filter_map(|line| line.strip_prefix("have")).collect();
    let boots: Vec<&str> = both.lines().filter(|line| line.starts_with("boot")).collect();
    let boot = boots[0].split_whitespace().nth(1).unwrap();
    assert_eq!(have, [String::new(), format!(" synced.{boot}")]);
    assert_ne!(boots[0], boots[1]);
    bench.machine.cut_power().await.unwrap();
}

#[tokio::test]
async fn a_machine_reboots_itself() {
    let mut bench = Bench::new(2, &format!("echo x >a; sync a; echo y >b; {LAUNCHER} reboot; sleep 1000"));
    bench.machine.switch_on().await.unwrap();
    assert_eq!(bench.ends.recv().await.unwrap(), End { number: 2, boot: 1, rebooted: true });
    assert_eq!(bench.machine.clean_up().await.unwrap().names, 1);
    assert!(!bench.machine.is_running());
}

#[tokio::test]
async fn a_dead_machine_says_nothing_to_those_it_was_connected_to() {
    use tokio::io::AsyncReadExt;
    let port = 7_000;
    let mut bench = Bench::new(3, &format!("exec 3<>/dev/tcp/{}/{port}; echo hello >&3; sleep 1000", network::HARNESS));
    let listener = tokio::net::TcpListener::bind((network::HARNESS, port)).await.unwrap();
    bench.machine.switch_on().await.unwrap();
    let (mut stream, from) = listener.accept().await.unwrap();
    assert_eq!(from.ip(), bench.machine.address());
    let mut hello = [0; 6];
    stream.read_exact(&mut hello).await.unwrap();
    bench.machine.cut_power().await.unwrap();
    let heard = tokio::time::timeout(Duration::from_millis(500), stream.read(&mut hello)).await;
    assert!(heard.is_err(), "neither an end nor an error: {heard:?}");
}
