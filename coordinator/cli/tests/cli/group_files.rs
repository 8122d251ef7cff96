//! `group apply`: from a file to what is sent.

use rollcall_proto::v1::{GroupSpec, Policy};

use crate::fake::Fake;
use crate::{code, rollcall, stderr, stdout};

#[test]
fn only_what_the_file_names_is_sent() {
    let fake = Fake::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("redis.toml");
    std::fs::write(&file, "[group]\nname = \"redis.default\"\n[policy]\nmin_healthy_time = \"30s\"\n").unwrap();
    let output =
        rollcall().args(["--endpoints", &fake.endpoint(), "group", "apply", "-f"]).arg(&file).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&output), "group redis.default applied at revision 1042\n");
    let policy = Policy { min_healthy_time_ms: Some(30_000), ..Policy::default() };
    let spec = GroupSpec { name: "redis.default".to_owned(), policy: Some(policy), ..GroupSpec::default() };
    assert_eq!(fake.script().specs, [spec]);
}

#[test]
fn a_wrong_file_names_line_and_key_and_sends_nothing() {
    let fake = Fake::start();
    let output = rollcall()
        .args(["--endpoints", &fake.endpoint(), "group", "apply", "-f", "-"])
        .write_stdin("[group]\nname = \"redis.default\"\n\n[policy]\nmax_paralel = 1\n")
        .output()
        .unwrap();
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).starts_with("error: <stdin>:5: policy.max_paralel: unknown field `max_paralel`, expected"),
        "{}",
        stderr(&output)
    );
    assert!(fake.script().specs.is_empty());
}
