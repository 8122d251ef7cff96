//! `rollcall dev` with peers and agents that are scripts: how it starts, fails and ends its process tree. With the real
//! binaries it is tried out by the whole workspace's tests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;
use tempfile::TempDir;

use crate::{code, stderr};

/// A folder with this command and two scripts beside it.
fn install(coordinator: &str, node: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("rollcall");
    fs::hard_link(cargo_bin!("rollcall"), &own)
        .or_else(|_| fs::copy(cargo_bin!("rollcall"), &own).map(|_| ()))
        .unwrap();
    for (name, script) in [("rollcall-coordinator", coordinator), ("rollcall-node", node)] {
        let file = dir.path().join(name);
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    dir
}

fn dev(dir: &TempDir) -> Command {
    let mut command = Command::new(dir.path().join("rollcall"));
    command.args(["dev", "--data-dir"]).arg(dir.path().join("data")).env_remove("ROLLCALL_ENDPOINTS");
    command
}

fn is_running(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap_or_default();
    pid.ends_with('\n') && Path::new("/proc").join(pid.trim()).join("stat").exists()
}

#[test]
fn a_peer_that_dies_at_once_is_told_with_the_end_of_its_log() {
    let dir = install("#!/bin/sh\necho \"$2: data_dir: read-only\" >&2\nexit 3\n", "#!/bin/sh\n");
    let output = dev(&dir).output().unwrap();
    let text = stderr(&output);
    assert_eq!(code(&output), 1, "{text}");
    assert!(text.contains("peer-1 ended: exit status: 3"), "{text}");
    assert!(text.contains("peer-1.toml: data_dir: read-only"), "{text}");
}

#[test]
fn what_a_child_leaves_behind_is_ended_with_it() {
    // Dies, and leaves a process that has no parent any more and a session of its own, like a service.
    let script = "#!/bin/sh\n\
        data=$(sed -n 's/^data_dir = \"\\(.*\\)\"/\\1/p' \"$2\")\n\
        setsid sh -c 'echo $$ > \"$0/left.pid\"; exec sleep 600' \"$data\" </dev/null &\n\
        while [ ! -s \"$data/left.pid\" ]; do sleep 0.01; done\n\
        exit 1\n";
    let dir = install(script, "#!/bin/sh\n");
    let output = dev(&dir).arg("--peers").arg("1").output().unwrap();
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let left = dir.path().join("data/data/peer-1/left.pid");
    assert!(left.exists(), "{}", stderr(&output));
    assert!(!is_running(&left));
}

#[test]
fn a_signal_ends_the_whole_tree() {
    let dir = install("#!/bin/sh\necho $$ > \"$2.pid\"\nexec sleep 600\n", "#!/bin/sh\n");
    let mut child = std::process::Command::new(dir.path().join("rollcall"))
        .args(["dev", "--peers", "1", "--data-dir"])
        .arg(dir.path().join("data"))
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid_file = dir.path().join("data/config/peer-1.toml.pid");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_running(&pid_file) {
        assert!(Instant::now() < deadline, "the peer wasn't started");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!is_running(&pid_file));
}

#[test]
fn a_kept_folder_keeps_its_ports_and_its_peers() {
    let dir = install("#!/bin/sh\nexit 1\n", "#!/bin/sh\n");
    assert_eq!(code(&dev(&dir).args(["--peers", "1", "--nodes", "2"]).output().unwrap()), 1);
    let config = dir.path().join("data/config/peer-1.toml");
    let first = fs::read_to_string(&config).unwrap();
    assert_eq!(code(&dev(&dir).output().unwrap()), 1);
    assert_eq!(fs::read_to_string(&config).unwrap(), first);
    assert!(dir.path().join("data/config/node-2.toml").exists());
    let output = dev(&dir).args(["--peers", "3"]).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("has 1 peers"), "{}", stderr(&output));
}
