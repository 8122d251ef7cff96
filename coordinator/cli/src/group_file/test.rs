use super::*;

fn parse_text(text: &str) -> Result<v1::GroupSpec, String> {
    parse(Path::new("g.toml"), text).map_err(|failure| failure.to_string())
}

fn policy_error(line: &str) -> String {
    parse_text(&format!("[group]\nname = \"redis.default\"\n[policy]\n{line}\n")).unwrap_err()
}

fn window_error(lines: &str) -> String {
    parse_text(&format!("[group]\nname = \"redis.default\"\n[[window]]\n{lines}\n")).unwrap_err()
}

#[test]
fn only_what_is_named_is_sent() {
    let spec = parse_text(
        "[group]\nname = \"redis.default\"\nchannel = \"\"\n\
         [policy]\nmax_parallel = \"25%\"\nbatches = [1, 5, \"20%\"]\nmin_healthy_time = \"1m30s\"\n\
         max_failure_ratio = 0.25\norder = \"label:zone\"\ninventory = []\n",
    )
    .unwrap();
    let strings =
        |values: &[&str]| Some(v1::StringList { values: values.iter().map(|value| (*value).to_owned()).collect() });
    let policy = v1::Policy {
        max_parallel: Some("25%".to_owned()),
        batches: strings(&["1", "5", "20%"]),
        min_healthy_time_ms: Some(90_000),
        max_failure_permille: Some(250),
        order: Some("label:zone".to_owned()),
        inventory: strings(&[]),
        ..v1::Policy::default()
    };
    assert_eq!(
        spec,
        v1::GroupSpec {
            name: "redis.default".to_owned(),
            channel: Some(String::new()),
            policy: Some(policy),
            ..v1::GroupSpec::default()
        }
    );
}

#[test]
fn every_key_of_the_documented_file_is_known() {
    let spec = parse_text(include_str!("documented.toml")).unwrap();
    let text = format!("{spec:?}");
    assert!(!text.contains("None"), "a documented key isn't sent: {text}");
}

#[test]
fn windows_are_all_or_none() {
    let group = "[group]\nname = \"redis.default\"\n";
    assert_eq!(parse_text(group).unwrap().windows, None);
    assert_eq!(parse_text(&format!("window = []\n{group}")).unwrap().windows, Some(v1::WindowList::default()));
    let nightly = parse_text(&format!("{group}[[window]]\nstart_time = \"23:30\"\nlength = \"90m\"\n")).unwrap();
    let window = v1::Window { start_time: "23:30".to_owned(), length_ms: 5_400_000, ..v1::Window::default() };
    assert_eq!(nightly.windows, Some(v1::WindowList { values: vec![window] }));
}

#[test]
fn errors_name_line_and_key() {
    for (line, expected) in [
        ("max_paralel = 1", "g.toml:4: policy.max_paralel: unknown field `max_paralel`"),
        ("max_parallel = \"0%\"", "g.toml:4: policy.max_parallel: \"0%\""),
        ("max_unavailable = \"101%\"", "g.toml:4: policy.max_unavailable: \"101%\""),
        ("max_parallel = 0", "g.toml:4: policy.max_parallel: \"0\""),
        ("max_parallel = true", "g.toml:4: policy.max_parallel: invalid type: boolean `true`"),
        ("delay = \"10\"", "g.toml:4: policy.delay: \"10\" is not a duration"),
        ("delay = 10", "g.toml:4: policy.delay: invalid type: integer `10`"),
        ("mode = \"sometimes\"", "g.toml:4: policy.mode: unknown variant `sometimes`, expected `auto` or `manual`"),
        ("catch_up = \"never\"", "g.toml:4: policy.catch_up: unknown variant `never`, expected `auto` or `manual`"),
        ("order = \"random\"", "g.toml:4: policy.order: \"random\""),
        ("canary = -1", "g.toml:4: policy.canary: invalid value: integer `-1`, expected u32"),
        ("max_failure_ratio = 1.5", "g.toml:4: policy.max_failure_ratio: 1.5"),
        ("max_failure_ratio = nan", "g.toml:4: policy.max_failure_ratio: NaN"),
        ("batches = [1, \"0%\"]", "g.toml:4: policy.batches: \"0%\""),
        ("batches = \"20%\"", "g.toml:4: policy.batches: invalid type: string \"20%\", expected a sequence"),
        ("max_attempts = 0", "g.toml:4: policy.max_attempts: invalid value: integer `0`"),
        ("success_threshold = 0", "g.toml:4: policy.success_threshold: invalid value: integer `0`"),
        ("reboot_timeout = \"0s\"", "g.toml:4: policy.reboot_timeout: \"0s\" is too short"),
        ("stale_after = \"0ms\"", "g.toml:4: policy.stale_after: \"0ms\" is too short"),
    ] {
        let error = policy_error(line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn keys_that_contradict_each_other_are_named() {
    for (lines, expected) in [
        ("min_healthy_time = \"5m\"\nhealthy_deadline = \"5m\"", "g.toml:5: policy.healthy_deadline: 5m"),
        ("progress_deadline = \"10s\"\nhealthy_deadline = \"1m\"", "g.toml:4: policy.progress_deadline: 10s"),
        ("min_healthy_time = \"5m\"\nprogress_deadline = \"1m\"", "g.toml:5: policy.progress_deadline: 1m"),
        (
            "lost_after = \"5s\"\nstale_after = \"10s\"",
            "g.toml:4: policy.lost_after: 5s is not longer than stale_after",
        ),
        ("order = \"inventory\"\ninventory = []", "g.toml:5: policy.inventory: order = \"inventory\" needs"),
        ("inventory = [\"a\", \"b\", \"a\"]", "g.toml:4: policy.inventory: \"a\" stands there twice"),
        (
            "max_failure_ratio = 0.1\nfailure_action = \"pause\"",
            "g.toml:4: policy.max_failure_ratio: has a meaning with failure_action = \"continue\" only",
        ),
    ] {
        let error = policy_error(lines);
        assert!(error.contains(expected), "{lines}: {error}");
    }
    let fits = "max_failure_ratio = 0.1\nfailure_action = \"continue\"\norder = \"inventory\"\ninventory = [\"a\"]";
    parse_text(&format!("[group]\nname = \"redis.default\"\n[policy]\n{fits}\n")).unwrap();
}

#[test]
fn errors_in_windows_name_line_and_key() {
    for (lines, expected) in [
        ("start_time = \"02:00\"", "g.toml:3: window: missing field `length`"),
        ("length = \"2h\"", "g.toml:3: window: missing field `start_time`"),
        ("start_time = \"2:00\"\nlength = \"2h\"", "g.toml:4: window.start_time: \"2:00\" is not a time of day"),
        ("start_time = \"02:00\"\nlength = \"0s\"", "g.toml:5: window.length: 0s is no window"),
        ("start_time = \"02:00\"\nlength = \"25h\"", "g.toml:5: window.length: 1d1h is too long"),
        (
            "days = [\"monday\"]\nstart_time = \"02:00\"\nlength = \"2h\"",
            "g.toml:4: window.days: \"monday\" is not a day",
        ),
        ("start_time = \"02:00\"\nlength = \"2h\"\ntime_zone = \"\"", "g.toml:6: window.time_zone: expected the name"),
        ("start_time = \"02:00\"\nlength = \"2h\"\nzone = \"UTC\"", "g.toml:6: window.zone: unknown field `zone`"),
    ] {
        let error = window_error(lines);
        assert!(error.contains(expected), "{lines}: {error}");
    }
}

#[test]
fn a_group_needs_a_name() {
    assert!(parse_text("[group]\npackage = \"a/b\"\n").unwrap_err().contains("g.toml:1: group: missing field `name`"));
    assert!(parse_text("[policy]\n").unwrap_err().contains("missing field `group`"));
    let error = parse_text("[group]\nname = \"redis\"\n").unwrap_err();
    assert!(error.contains("g.toml:2: group.name: \"redis\" is not a group name"), "{error}");
}
