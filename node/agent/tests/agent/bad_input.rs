//! What is wrong is named, and nothing is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rollcall_node::disk::Journal;
use rollcall_proto::v1::report::Kind as Reported;
use rollcall_proto::v1::step_report::Event;
use rollcall_proto::v1::{Failed, Go, Phase, PrefetchReport};

use crate::support::{Coordinator, Machine, Package, Said, eventually, ident};

/// Lets the agent fetch version 2, and gives its report.
async fn prefetch(machine: &Machine, digest: &str) -> PrefetchReport {
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    coordinator.order(|orders| {
        orders.prefetch = ident(2);
        orders.prefetch_digest = digest.to_owned();
    });
    let said = coordinator.until("the prefetch report", |said| report_of(said).is_some()).await;
    report_of(&said).unwrap()
}

fn report_of(said: &Said) -> Option<PrefetchReport> {
    said.reports.iter().rev().find_map(|report| match &report.kind {
        Some(Reported::Prefetch(prefetch)) => Some(prefetch.clone()),
        _ => None,
    })
}

fn failure_of(said: &Said) -> Failed {
    let failures = said.step_events().filter_map(|event| match event {
        Event::Failed(failed) => Some(failed.clone()),
        _ => None,
    });
    failures.last().unwrap()
}

/// Packs a folder's content.
fn pack(folder: &Path, archive: &Path, kind: &str) {
    fs::create_dir_all(archive.parent().unwrap()).unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all(".", folder).unwrap();
    let bytes = builder.into_inner().unwrap();
    write_archive(&bytes, archive, kind);
}

fn write_archive(tar: &[u8], archive: &Path, kind: &str) {
    fs::create_dir_all(archive.parent().unwrap()).unwrap();
    let bytes = match kind {
        "zst" => zstd::encode_all(tar, 3).unwrap(),
        _ => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut encoder, tar).unwrap();
            encoder.finish().unwrap()
        }
    };
    fs::write(archive, bytes).unwrap();
}

fn archive_of(machine: &Machine, kind: &str) -> std::path::PathBuf {
    machine.depot().join(format!("{}.tar.{kind}", ident(2)))
}

#[tokio::test]
async fn archives_are_unpacked_and_verified() {
    for kind in ["zst", "gz"] {
        let machine = Machine::new();
        let folder = tempfile::tempdir().unwrap();
        Package::new(2).write_to(folder.path());
        let archive = archive_of(&machine, kind);
        pack(folder.path(), &archive, kind);
        let digest = blake3::hash(&fs::read(&archive).unwrap()).to_hex().to_string();
        let report = prefetch(&machine, &digest).await;
        assert_eq!((report.failure.as_str(), report.digest), ("", digest), "{}", report.detail);
        let hook = machine.data().join("pkgs").join(ident(2)).join("hooks/run");
        assert_ne!(fs::metadata(hook).unwrap().permissions().mode() & 0o111, 0);
    }
}

#[tokio::test]
async fn archives_that_lead_out_are_refused_by_name() {
    for (name, link) in [("../escape", None), ("/escape", None), ("hooks/escape", Some("../../escape"))] {
        let machine = Machine::new();
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        header.set_size(0);
        if let Some(target) = link {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_link_name(target).unwrap();
        }
        header.set_cksum();
        builder.append(&header, std::io::empty()).unwrap();
        write_archive(&builder.into_inner().unwrap(), &archive_of(&machine, "zst"), "zst");
        let report = prefetch(&machine, "").await;
        assert_eq!(report.failure, "damaged");
        assert!(report.detail.contains(name), "{}", report.detail);
        assert!(!machine.path().join("escape").exists());
    }
}

#[tokio::test]
async fn a_hook_without_its_run_bit_is_found_before_anything_is_disturbed() {
    let machine = Machine::with(&[Package::new(2)]);
    let hook = machine.depot().join(ident(2)).join("hooks/drain");
    fs::set_permissions(hook, fs::Permissions::from_mode(0o644)).unwrap();
    let report = prefetch(&machine, "").await;
    assert_eq!(report.failure, "hook_not_executable");
    assert!(report.detail.contains("hooks/drain"), "{}", report.detail);
}

#[tokio::test]
async fn a_release_that_is_not_what_was_promoted_is_refused() {
    let digest = "ab".repeat(32);
    let report = prefetch(&Machine::with(&[Package::new(2)]), &digest).await;
    assert_eq!(report.failure, "digest_differs");
    assert!(report.detail.contains(&digest), "{}", report.detail);

    let report = prefetch(&Machine::new(), "").await;
    assert_eq!(report.failure, "not_found");
    assert!(report.detail.contains(&ident(2)), "{}", report.detail);

    let machine = Machine::with(&[Package::new(2)]);
    fs::write(machine.depot().join(ident(2)).join("rollcall.toml"), format!("ident = \"{}\"", ident(1))).unwrap();
    assert_eq!(prefetch(&machine, "").await.failure, "wrong_ident");

    let report = prefetch(&Machine::with(&[Package::new(2).without("run")]), "").await;
    assert_eq!(report.failure, "damaged");
}

#[tokio::test]
async fn a_release_without_a_way_back_says_so_when_it_is_fetched() {
    for (manifest, no_rollback) in [("", false), ("rollback = true\n", false), ("rollback = false\n", true)] {
        let report = prefetch(&Machine::with(&[Package::new(2).manifest(manifest)]), "").await;
        assert_eq!((report.failure.as_str(), report.no_rollback), ("", no_rollback), "{manifest}");
    }
}

#[tokio::test]
async fn a_step_to_a_release_that_cannot_be_had_fails_undisturbed() {
    let machine = Machine::with(&[Package::new(1)]);
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    let said = coordinator.until_event("failed", 1).await;
    let failed = failure_of(&said);
    assert_eq!((failed.phase(), failed.reason.as_str()), (Phase::Preparing, "package_unavailable"));
    assert_eq!(machine.starts("ready-to-update", 1), 0);
    assert!(said.is_healthy(1));
}

#[tokio::test]
async fn a_service_that_exits_at_once_is_a_crash_loop() {
    let run = "echo no such config; exit 3";
    let machine = Machine::with(&[Package::new(1), Package::new(2).hook("run", run).hook("health-check", "exit 2")]);
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    let said = coordinator.until_event("failed", 1).await;
    let failed = failure_of(&said);
    assert_eq!((failed.phase(), failed.reason.as_str()), (Phase::Verifying, "crash_loop"));
    assert!(failed.detail.contains("exited with 3"), "{}", failed.detail);
    assert!(failed.output.contains("no such config"), "{}", failed.output);
    machine.until_started("undrain", 2, 1).await;
}

#[tokio::test]
async fn a_process_that_ignores_the_signal_is_killed_and_that_is_told() {
    let run = "trap '' TERM; while :; do sleep 0.05; done";
    let old = Package::new(1).hook("run", run).manifest("[service]\nstop_timeout = \"300ms\"\n");
    let machine = Machine::with(&[old, Package::new(2)]);
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    let said = coordinator.run_step(2, Some(1), 20).await;
    let killed: Vec<bool> = said
        .step_events()
        .filter_map(|event| match event {
            Event::Stopped(stopped) => Some(stopped.killed),
            _ => None,
        })
        .collect();
    assert_eq!(killed, [false, true]);
}

#[tokio::test]
async fn a_drain_that_hangs_fails_the_step_and_undrain_runs() {
    let old = Package::new(1).hook("drain", "echo waiting; sleep 600").manifest("[hooks.drain]\ntimeout = \"300ms\"\n");
    let machine = Machine::with(&[old, Package::new(2)]);
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    let said = coordinator.until_event("failed", 1).await;
    let failed = failure_of(&said);
    assert_eq!((failed.phase(), failed.reason.as_str()), (Phase::Draining, "hook_timeout"));
    assert!(failed.output.contains("waiting"));
    machine.until_started("undrain", 1, 2).await;
    assert_eq!(machine.starts("run", 1), 1);
}

#[tokio::test]
async fn a_failing_install_is_tried_again_as_often_as_the_release_says() {
    let new = Package::new(2).hook("install", "echo no space; exit 1").manifest("[hooks.install]\nretries = 1\n");
    let machine = Machine::with(&[Package::new(1), new]);
    let coordinator = Coordinator::start().await;
    let _agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    let said = coordinator.until_event("failed", 1).await;
    let failed = failure_of(&said);
    assert_eq!((failed.phase(), failed.reason.as_str()), (Phase::Installing, "hook_failed"));
    assert!(failed.output.contains("no space"));
    assert_eq!(machine.starts("install", 2), 2);
    // The old release is up again.
    coordinator.until("version 1 to be healthy", |said| said.is_healthy(1)).await;
}

#[tokio::test]
async fn a_full_disk_holds_the_step_and_costs_nothing() {
    let machine = Machine::with(&[Package::new(1)]).small_disk("1m");
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    coordinator.drive(true);
    let filler = agent.sees(&machine.data()).join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 512]).is_ok() {}
    // The last page of the journal has room for a few steps.
    let mut fence = 10;
    let has_complained = || machine.log().contains("the step waits for the disk");
    while !has_complained() {
        fence += 10;
        coordinator.order_step(1, Some(1), fence, Go::Prepare);
        let is_over = || (has_complained() || coordinator.said().is_finished(fence)).then_some(());
        eventually("the complaint, or the end of the step", is_over).await;
    }
    assert!(machine.log().contains("Free some space there"));
    assert!(!coordinator.said().is_finished(fence));
    drop(file);
    fs::remove_file(filler).unwrap();
    coordinator.until_finished(fence).await;
    let steps = usize::try_from(fence / 10).unwrap();
    assert_eq!((machine.starts("drain", 1), machine.starts("run", 1)), (steps - 1, steps));
    // Whatever half-written record the full disk has left, the journal on it is whole.
    let journal = agent.sees(&machine.service().join("journal"));
    let copy = machine.path().join("journal");
    fs::copy(journal, &copy).unwrap();
    let journal = Journal::open(&copy).unwrap();
    assert!(!copy.with_extension("torn").exists());
    assert_eq!(journal.state().fence.0, fence);
}

/// Starts an agent that must refuse to run, and gives its error.
fn refused(machine: &Machine) -> String {
    let output = machine.command(&["127.0.0.1:1".to_owned()]).stderr(Stdio::piped()).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_wrong_config_is_named() {
    let machine = Machine::new().config("lables = { zone = \"a\" }\n");
    let error = refused(&machine);
    for part in ["node.toml", "line 4", "unknown field `lables`", "expected one of"] {
        assert!(error.contains(part), "{part:?} isn't in: {error}");
    }
}

#[test]
fn a_driver_that_is_not_built_is_named() {
    let config = "[[service]]\ngroup = \"x.default\"\nsource = \"dir:/nowhere\"\ndriver = \"systemd\"\n";
    let error = refused(&Machine::new().config(config));
    assert!(error.contains("x.default") && error.contains("systemd") && error.contains("supervise"), "{error}");
}

#[test]
fn a_port_in_use_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let error = refused(&Machine::new().config(&format!("http = \"{address}\"\n")));
    assert!(error.contains(&address.to_string()) && error.contains("in use"), "{error}");
}

#[test]
fn a_data_folder_that_cannot_be_used_is_named() {
    let machine = Machine::new();
    fs::write(machine.data(), "not a folder").unwrap();
    let error = refused(&machine);
    assert!(error.contains(&machine.data().display().to_string()), "{error}");
}

#[test]
fn help_and_version_are_there() {
    for (option, expected) in [("--help", "rollcall-node --config"), ("--version", env!("CARGO_PKG_VERSION"))] {
        let output = Command::new(env!("CARGO_BIN_EXE_rollcall-node")).arg(option).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains(expected));
    }
}
