//! The binary: how it is configured, what it says when it can't start, and how it ends.

use std::path::Path;
use std::process::{Command, Output};

use rollcall_proto::v1;
use rollcall_proto::v1::cluster_service_client::ClusterServiceClient;

use crate::process::{binary, started, terminate};

fn fails(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{stderr}");
    stderr
}

#[test]
fn a_port_in_use_is_named_with_the_option_that_chooses_another() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall-coordinator"));
    command.args(["--grpc", &address, "--http", "127.0.0.1:0", "--data-dir"]).arg(dir.path());
    let stderr = fails(&mut command);
    assert!(stderr.contains(&address) && stderr.contains("--grpc"), "{stderr}");
}

#[test]
fn a_wrong_config_names_file_line_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("peer.toml");
    std::fs::write(&path, "http = \"127.0.0.1:0\"\nadvertize = \"10.0.0.1:7400\"\n").unwrap();
    let stderr = fails(binary(dir.path()).arg("--config").arg(&path));
    for part in ["peer.toml", "line 2", "advertize", "advertise"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

#[test]
fn a_folder_in_use_or_that_is_none_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (mut first, _) = started(&mut binary(dir.path()));
    let stderr = fails(&mut binary(dir.path()));
    assert!(stderr.contains("in use by another process") && stderr.contains("data_dir"), "{stderr}");
    first.kill().unwrap();
    first.wait().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let stderr = fails(&mut binary(&file));
    assert!(stderr.contains(file.to_str().unwrap()), "{stderr}");
}

#[test]
fn an_address_that_nobody_can_reach_is_not_advertised() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall-coordinator"));
    command.args(["--grpc", "0.0.0.0:0", "--http", "127.0.0.1:0", "--data-dir"]).arg(dir.path());
    let stderr = fails(&mut command);
    assert!(stderr.contains("--advertise"), "{stderr}");
}

#[tokio::test]
async fn sigterm_ends_it_in_order_and_what_it_knew_is_there_again() {
    let dir = tempfile::tempdir().unwrap();
    let (child, address) = started(&mut binary(dir.path()));
    let mut clusters = ClusterServiceClient::connect(format!("http://{address}")).await.unwrap();
    let made = clusters.init(v1::InitClusterRequest::default()).await.unwrap().into_inner();
    drop(clusters);
    terminate(child);
    let (child, again) = started(binary(dir.path()).args(["--advertise", &address]));
    let mut clusters = ClusterServiceClient::connect(format!("http://{again}")).await.unwrap();
    let status = clusters.status(v1::ClusterStatusRequest::default()).await.unwrap().into_inner();
    assert_eq!(status.cluster_id, made.cluster_id);
    drop(clusters);
    terminate(child);
}

#[test]
fn help_has_an_example_and_version_is_the_crates() {
    let dir = tempfile::tempdir().unwrap();
    let help = binary(dir.path()).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for part in ["Example", "ROLLCALL_ADVERTISE", "--data-dir", "cluster init"] {
        assert!(help.contains(part), "{part}: {help}");
    }
    let version = binary(dir.path()).arg("--version").output().unwrap();
    assert!(String::from_utf8(version.stdout).unwrap().contains(env!("CARGO_PKG_VERSION")));
}

fn inspected(file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall-coordinator"));
    command.env_clear().args(["snapshot", "inspect"]).arg(file).output().unwrap()
}

#[test]
fn a_file_that_is_no_whole_snapshot_is_named_with_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("peer.snap");
    for (bytes, wrong) in [
        (None, "No such file"),
        (Some(b"".as_slice()), "ends before its end section"),
        (Some(b"what is this file about?".as_slice()), "not a Rollcall envelope"),
    ] {
        bytes.iter().for_each(|bytes| std::fs::write(&file, bytes).unwrap());
        let Output { status, stdout, stderr } = inspected(&file);
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!((status.code(), stdout.len()), (Some(1), 0), "{stderr}");
        assert!(stderr.contains("peer.snap") && stderr.contains(wrong), "{stderr}");
        assert!(!stderr.contains("remove-peer"), "advice for a peer's own disk: {stderr}");
    }
}
