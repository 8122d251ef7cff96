//! The command line: what is refused before anything is sent, and what help there is.

use crate::fake::{Fake, dead_endpoint};
use crate::{code, rollcall, run, stderr, stdout};

#[test]
fn usage_errors_end_with_2_and_name_the_thing() {
    for (line, named) in [
        ("", "Usage"),
        ("rollout", "Usage"),
        ("rollout begin", "begin"),
        ("rollout start redis.default", "--to"),
        ("rollout start redis.default --to acme/redis/7.2.1", "origin/name/version/release"),
        ("rollout start redis --to acme/redis/7.2.1/20261130101500", "service.group"),
        ("rollout start redis.default --to acme/redis/7.2.1/20261130101500 --digest 12", "64 hexadecimal digits"),
        ("rollout pause 42", "like r42"),
        ("rollout pause r42 --until 2020-01-01T00:00:00Z", "\"2020-01-01T00:00:00Z\" is over: it is 20"),
        ("rollout resume r42 --until tomorrow", "2026-12-01T02:00:00Z"),
        ("rollout undo redis.default --to-revision latest", "like r42 or 42"),
        ("rollout skip r42", "--node"),
        ("node hold redis-1 --until 2030-01-01T00:00:00", "append Z"),
        ("node set-health redis-1 sick", "healthy, unhealthy, auto"),
        ("package promote acme/redis/7.2.1/20261130101500", "CHANNEL"),
        ("package promote a/b/1/20261130101500 a/c stable", "origin/name/version/release"),
        ("window add redis.default --start 2am --length 2h", "HH:MM"),
        ("window add redis.default --start 02:00 --length 25h", "--length: 1d1h is too long"),
        ("window add redis.default --start 02:00 --length 2h --days monday", "expected mon, tue"),
        ("window add redis.default --start 02:00 --length 2h --days mon,mon", "--days: names mon twice"),
        ("window remove redis.default 1", "looks like w1"),
        ("freeze create --from 2h --until 1h", "--until"),
        ("freeze lift 42", "looks like f42"),
        ("rollout status nonsense", "neither a rollout id"),
        ("rollout pause r42 --request-id a/b", "request id"),
        ("group list --timeout 10", "duration"),
        ("group list --timeout 0s", "above zero"),
        ("group list -o xml", "xml"),
        ("group apply -f /nowhere/group.toml", "/nowhere/group.toml"),
        ("group list --ca ca.pem", "TLS is not built yet"),
        ("events --since now", "--since"),
        ("audit --verify --expect 42", "REVISION:HASH"),
        ("audit --expect 42:ab", "--verify"),
        ("snapshot inspect", "FILE"),
        ("cluster add-peer 10.0.0.1", "host:port"),
    ] {
        let output = rollcall().args(line.split(' ').filter(|word| !word.is_empty())).output().unwrap();
        assert_eq!(code(&output), 2, "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(named), "{line}: {}", stderr(&output));
    }
    let output = rollcall().args(["--endpoints", "http://10.0.0.1", "group", "list"]).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("host:port"), "{}", stderr(&output));
}

#[test]
fn every_command_has_help_with_an_example() {
    let mut commands = vec![Vec::<String>::new()];
    let mut leaves = 0;
    while let Some(command) = commands.pop() {
        let output = rollcall().args(&command).arg("--help").output().unwrap();
        assert_eq!(code(&output), 0, "{command:?}");
        let help = stdout(&output);
        let listed = help.split("Commands:\n").nth(1).map(|text| text.split("\n\n").next().unwrap_or(text));
        let names =
            listed.into_iter().flat_map(str::lines).filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names: Vec<_> =
            names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
        if names.is_empty() {
            leaves += 1;
            assert!(help.contains("Example"), "{command:?} has no example:\n{help}");
        }
        commands.extend(names.iter().map(|name| [&command[..], &[(*name).to_owned()]].concat()));
    }
    assert!(leaves >= 30, "only {leaves} commands were found");
}

#[test]
fn version_is_told() {
    let output = rollcall().arg("--version").output().unwrap();
    assert_eq!(stdout(&output), format!("rollcall {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_and_manual_pages_are_made() {
    let output = rollcall().args(["completions", "bash"]).output().unwrap();
    assert!(stdout(&output).contains("_rollcall"));
    let output = rollcall().arg("man").output().unwrap();
    assert!(stdout(&output).starts_with(".ie"), "{}", stdout(&output));
    let dir = tempfile::tempdir().unwrap();
    let output = rollcall().arg("man").arg("--dir").arg(dir.path()).output().unwrap();
    assert_eq!(code(&output), 0);
    assert!(dir.path().join("rollcall-rollout-status.1").exists());
}

#[test]
fn unreachable_peers_end_with_3_and_are_named() {
    let (first, second) = (dead_endpoint(), dead_endpoint());
    let output = run(&format!("{first},{second}"), "group list --timeout 300ms");
    assert_eq!(code(&output), 3);
    let text = stderr(&output);
    assert!(text.contains(&first) && text.contains(&second) && text.contains("refused"), "{text}");
}

#[test]
fn settings_come_from_option_environment_and_file_in_this_order() {
    let fake = Fake::start();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("rollcall.toml");
    std::fs::write(&config, format!("endpoints = [\"{}\"]\noutput = \"json\"\n", fake.endpoint())).unwrap();
    let output = rollcall().arg("--config").arg(&config).args(["token", "list"]).output().unwrap();
    assert!(stdout(&output).starts_with('{'), "{}", stderr(&output));
    let output = rollcall()
        .env("ROLLCALL_CONFIG", &config)
        .env("ROLLCALL_OUTPUT", "yaml")
        .args(["token", "list"])
        .output()
        .unwrap();
    assert!(stdout(&output).starts_with("revision:"), "{}", stdout(&output));
    let output = rollcall()
        .env("ROLLCALL_ENDPOINTS", fake.endpoint())
        .env("ROLLCALL_OUTPUT", "yaml")
        .args(["token", "list", "-o", "table"])
        .output()
        .unwrap();
    assert!(stdout(&output).starts_with("NODE"), "{}", stdout(&output));
}

#[test]
fn wrong_config_names_file_line_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("rollcall.toml");
    std::fs::write(&config, "timeout = \"10s\"\nendpoint = [\"a:1\"]\n").unwrap();
    let output = rollcall().arg("--config").arg(&config).args(["token", "list"]).output().unwrap();
    assert_eq!(code(&output), 2);
    let text = stderr(&output);
    assert!(text.contains("rollcall.toml:2: endpoint: unknown field `endpoint`, expected"), "{text}");
}

#[test]
fn a_hook_s_own_config_is_none_of_the_command_s() {
    let fake = Fake::start();
    let output = rollcall()
        .env("ROLLCALL_CONFIG", "/nowhere/service.toml")
        .env("ROLLCALL_PKG_PATH", "/nowhere/pkg")
        .args(["--endpoints", &fake.endpoint(), "token", "list"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}
