//! The disk that forgets, mounted, with real programs on it. Needs root and `/dev/fuse`.

#![allow(clippy::unwrap_used, reason = "a test that can't go on, fails")]

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use rollcall_jepsen::power::ailment::Illness;
use rollcall_jepsen::power::apart::live_apart;
use rollcall_jepsen::power::disk::Durability;
use rollcall_jepsen::power::mount::PoweredDisk;
use rollcall_jepsen::procfs;

struct Mounted {
    disk: PoweredDisk,
    _folder: tempfile::TempDir,
}

impl Mounted {
    fn new(durability: Durability) -> Self {
        live_apart().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut disk = PoweredDisk::new(folder.path().join("disk"), durability);
        disk.power_on().unwrap();
        Self { disk, _folder: folder }
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.disk.place().join(path)
    }

    /// Nobody uses it at that moment.
    fn cut(&mut self) {
        self.disk.silence();
        self.disk.lose();
        self.disk.unmount().unwrap();
        self.disk.power_on().unwrap();
    }
}

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

#[test]
fn an_ill_disk_refuses_and_what_its_failed_syncs_left_is_lost_with_the_power() {
    let mut mounted = Mounted::new(Durability::Journaled);
    let file = File::create(mounted.at("a")).unwrap();
    file.write_all_at(b"kept", 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(b"lost", 0).unwrap();

    mounted.disk.ailment().set(Some(Illness::FullDisk));
    assert_eq!(file.write_all_at(b"more", 4).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(File::create(mounted.at("b")).unwrap_err().kind(), ErrorKind::StorageFull);

    mounted.disk.ailment().set(Some(Illness::BadDisk));
    file.sync_all().unwrap_err();
    mounted.disk.ailment().set(None);
    assert_eq!(mounted.disk.ailment().refused_count(), 3);
    // As with Linux: once it has failed, the next one says that all is well.
    file.sync_all().unwrap();
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
    assert_eq!(
        fs::read_to_string(mounted.at("a")).unwrap(),
        "kept",
        "what the disk has, once the kernel has dropped its copy"
    );
    drop(file);
    mounted.cut();
    assert_eq!(fs::read_to_string(mounted.at("a")).unwrap(), "kept");
}

#[test]
fn files_do_what_programs_ask_of_them() {
    let mounted = Mounted::new(Durability::Journaled);
    let (file, folder) = (mounted.at("a"), mounted.at("d"));
    fs::write(&file, "hello").unwrap();
    File::options().append(true).open(&file).unwrap().write_all(b" world").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "hello world");
    File::options().write(true).open(&file).unwrap().set_len(5).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().len(), 5);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);

    fs::create_dir(&folder).unwrap();
    for number in 0..500 {
        fs::write(folder.join(number.to_string()), "x").unwrap();
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 500);
    assert_eq!(fs::remove_dir(&folder).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    fs::rename(&folder, mounted.at("e")).unwrap();
    fs::remove_dir_all(mounted.at("e")).unwrap();

    symlink("a", mounted.at("link")).unwrap();
    fs::hard_link(&file, mounted.at("b")).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(fs::read_to_string(mounted.at("link")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::read_to_string(mounted.at("b")).unwrap(), "hello");
    let open = File::open(mounted.at("b")).unwrap();
    fs::remove_file(mounted.at("b")).unwrap();
    let mut text = String::new();
    (&open).read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
}

#[test]
fn programs_run_from_it_and_locks_exclude_each_other() {
    let mounted = Mounted::new(Durability::Journaled);
    let program = mounted.at("true");
    fs::copy("/bin/true", &program).unwrap();
    assert!(Command::new(&program).status().unwrap().success());
    let script = mounted.at("script");
    fs::write(&script, "#!/bin/sh\nmkfifo pipe && (echo through >pipe &) && cat pipe\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(&script).current_dir(mounted.disk.place()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "through\n");

    let path = mounted.at("lock");
    let first = File::create(&path).unwrap();
    first.lock().unwrap();
    let second = File::open(&path).unwrap();
    assert!(second.try_lock().is_err());
    drop(first);
    second.try_lock().unwrap();
}

#[test]
fn a_cut_takes_what_was_not_synced_and_nothing_else() {
    for durability in [Durability::Journaled, Durability::Strict] {
        let mut mounted = Mounted::new(durability);
        let path = mounted.at("a");
        fs::write(&path, "old").unwrap();
        sync(&path);
        sync(mounted.disk.place());
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"new", 0).unwrap();
        fs::write(mounted.at("b"), "b").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        drop(file);
        mounted.cut();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old", "not out of the kernel's cache either");
        assert!(!mounted.at("b").exists());

        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"NEW", 0).unwrap();
        file.sync_data().unwrap();
        fs::write(mounted.at("a.tmp"), "renamed").unwrap();
        sync(&mounted.at("a.tmp"));
        fs::rename(mounted.at("a.tmp"), mounted.at("c")).unwrap();
        drop(file);
        mounted.cut();
        assert_eq!(fs::read_to_string(&path).unwrap(), "NEW");
        assert!(!mounted.at("c").exists(), "its folder was not synced");
    }
}

#[test]
fn a_silent_disk_answers_nobody_until_it_has_lost() {
    let mut mounted = Mounted::new(Durability::Journaled);
    let path = mounted.at("a");
    let script = format!("echo begun; echo x >{0}; sync {0}; echo synced", path.display());
    mounted.disk.silence();
    let mut child = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut begun = [0; 6];
    output.read_exact(&mut begun).unwrap();
    let id = child.id();
    while procfs::waits_in(id) != "request_wait_answer" {
        std::thread::sleep(Duration::from_millis(1));
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(id.try_into().unwrap()), nix::sys::signal::SIGKILL).unwrap();
    assert!(procfs::is_dying(nix::unistd::Pid::from_raw(id.try_into().unwrap())));
    mounted.disk.lose();
    child.wait().unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "whoever was killed while it hung learns nothing");
    mounted.disk.unmount().unwrap();
    mounted.disk.power_on().unwrap();
    assert!(!path.exists());
}
