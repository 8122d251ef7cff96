//! The binaries together: a peer's history is changed behind its back, and the operator's command finds it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use openraft::RaftSnapshotBuilder as _;
use openraft::storage::RaftStateMachine as _;
use rollcall_coordinator::storage::{DataDir, Sizes, Storage};
use serde_json::Value;

use crate::process::{binary, started, terminate};
use crate::storage_support::sample::entry;
use crate::storage_support::tamper;

/// The operator's command, which is another crate's: beside the peer's binary.
fn rollcall() -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_rollcall-coordinator")).with_file_name("rollcall");
    assert!(program.is_file(), "{} isn't built: cargo build -p rollcall-cli", program.display());
    let mut command = Command::new(program);
    command.env_clear();
    command
}

/// Its exit code and its answer.
fn ask(endpoint: &str, line: &str) -> (Option<i32>, Value) {
    let line = format!("--endpoints {endpoint} -o json {line}");
    let Output { status, stdout, stderr } = rollcall().args(line.split(' ')).output().unwrap();
    let answer = serde_json::from_slice(&stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&stderr)));
    (status.code(), answer)
}

#[test]
fn a_record_that_was_changed_on_a_disk_is_found_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let (child, address) = started(&mut binary(dir.path()));
    ask(&address, "cluster init --actor founder@desk");
    let mut changed = 0;
    for n in 0..5 {
        let (code, created) = ask(&address, &format!("channel create c{n} --reason why-{n} --actor ann@desk"));
        assert_eq!(code, Some(0));
        changed = if n == 2 { created["revision"].as_u64().unwrap() } else { changed };
    }
    let (code, whole) = ask(&address, "audit --verify");
    assert_eq!((code, &whole["copies"][0]["anchor_revision"]), (Some(0), &0.into()), "{whole}");
    let (_, trail) = ask(&address, "audit");
    let actors: Vec<&str> =
        trail["items"].as_array().unwrap().iter().filter_map(|item| item["actor"].as_str()).collect();
    assert_eq!(actors.iter().filter(|actor| **actor == "ann@desk").count(), 5, "{actors:?}");
    assert!(actors.contains(&"founder@desk"), "{actors:?}");
    terminate(child);

    tamper::change_reason(dir.path(), changed, "nothing to see here");
    let (child, address) = started(binary(dir.path()).args(["--advertise", &address]));
    let (code, broken) = ask(&address, "audit --verify");
    assert_eq!((code, &broken["copies"][0]["problem"]["revision"]), (Some(1), &changed.into()), "{broken}");
    terminate(child);

    // Put aside, it is made again from the log.
    std::fs::remove_dir_all(dir.path().join("history")).unwrap();
    let (child, address) = started(binary(dir.path()).args(["--advertise", &address]));
    let (code, healed) = ask(&address, "audit --verify");
    assert_eq!(code, Some(0), "{healed}");
    terminate(child);
}

/// A snapshot of 500 entries, of which the last 100 or so have their events in it.
async fn snapshot(dir: &Path) -> PathBuf {
    let dir = DataDir::lock(dir).unwrap();
    let mut storage = Storage::open(&dir, Sizes { history_revisions: 100, ..Sizes::default() }).unwrap();
    // In parts, since trimming goes by parts too.
    for part in (0..500).collect::<Vec<_>>().chunks(100) {
        let entries: Vec<_> = part.iter().map(|index| Ok((entry(1, *index), None))).collect();
        storage.state_machine.apply(futures::stream::iter(entries)).await.unwrap();
    }
    let built = storage.state_machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    built.snapshot.path().to_owned()
}

#[tokio::test]
async fn a_snapshot_is_shown_and_a_damaged_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = snapshot(dir.path()).await;
    let inspect = |file: &Path| rollcall().args(["snapshot", "inspect", "-o", "json"]).arg(file).output().unwrap();
    let Output { status, stdout, stderr } = inspect(&file);
    assert_eq!(status.code(), Some(0), "{}", String::from_utf8_lossy(&stderr));
    let shown: Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!(
        (&shown["revision"], &shown["term"], &shown["audit"]["verified"]),
        (&499.into(), &1.into(), &true.into())
    );
    let anchor = shown["audit"]["anchor_revision"].as_u64().unwrap();
    assert!(anchor > 0, "{shown}");
    assert_eq!(shown["history"]["first_revision"], anchor + 1);
    assert_eq!((&shown["history"]["last_revision"], &shown["audit"]["head_revision"]), (&499.into(), &499.into()));

    let changed = dir.path().join("changed.snap");
    tamper::change_reason_in_snapshot(&file, &changed, 480, "nothing to see here");
    let Output { status, stdout, .. } = inspect(&changed);
    let shown: Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!((status.code(), &shown["audit"]["broken_revision"]), (Some(1), &480.into()));

    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&changed, &bytes).unwrap();
    let Output { status, stdout, stderr } = inspect(&changed);
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!((status.code(), stdout.len()), (Some(1), 0));
    assert!(stderr.contains("changed.snap") && stderr.contains("checksum"), "{stderr}");
}
