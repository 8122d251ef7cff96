//! The group file: what a person declares of a group, as TOML.
//!
//! Only what the file names is sent, so a file with three lines changes three things. Errors name the file, the line,
//! the key and what was expected. The server judges the merged policy; what is wrong in the file by itself is said
//! here, with its line.

mod policy;
mod values;

use std::io::Read as _;
use std::path::Path;

use rollcall_ident::{ChannelName, GroupName, PackageName};
use rollcall_proto::v1;
use serde::Deserialize;
use toml::Spanned;

use crate::config::FromText;
use crate::failure::Failure;
use crate::toml_error::TomlSource;
use policy::PolicyTable;
use values::OrEmpty;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    group: GroupTable,
    #[serde(default)]
    policy: PolicyTable,
    #[serde(default)]
    window: Vec<Spanned<toml::Table>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupTable {
    name: FromText<GroupName>,
    package: Option<FromText<PackageName>>,
    /// Empty: follow none any more.
    channel: Option<OrEmpty<ChannelName>>,
    update_condition: Option<UpdateCondition>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum UpdateCondition {
    Latest,
    TrackChannel,
}

/// Reads a group file; `-` is stdin.
pub fn load(path: &Path) -> Result<v1::GroupSpec, Failure> {
    let is_stdin = path == Path::new("-");
    let path = if is_stdin { Path::new("<stdin>") } else { path };
    let text = if is_stdin {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(|error| Failure::Usage(format!("the group file {}: {error}", path.display())))?;
    parse(path, &text)
}

/// The same for a text that is at hand.
pub fn parse(path: &Path, text: &str) -> Result<v1::GroupSpec, Failure> {
    let source = TomlSource::new(path, text);
    let file: File = source.parse()?;
    if let Some(window) = file.window.first() {
        return Err(source.error_at(
            &window.span(),
            "maintenance windows are not built yet; take [[window]] out: without one a group is always open",
        ));
    }
    file.policy.check(&source)?;
    Ok(v1::GroupSpec {
        name: file.group.name.0.to_string(),
        package: file.group.package.map(|package| package.0.to_string()),
        channel: file.group.channel.map(OrEmpty::into_wire),
        update_condition: file.group.update_condition.map(UpdateCondition::into_wire),
        policy: Some(file.policy.into_wire()),
    })
}

impl UpdateCondition {
    fn into_wire(self) -> String {
        match self {
            Self::Latest => "latest",
            Self::TrackChannel => "track-channel",
        }
        .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<v1::GroupSpec, String> {
        parse(Path::new("g.toml"), text).map_err(|failure| failure.to_string())
    }

    fn policy_error(line: &str) -> String {
        parse_text(&format!("[group]\nname = \"redis.default\"\n[policy]\n{line}\n")).unwrap_err()
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
        let policy = spec.policy.unwrap();
        let text = format!("{policy:?}");
        assert!(!text.contains("None"), "a documented key isn't sent: {text}");
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
            ("order = \"random\"", "g.toml:4: policy.order: \"random\""),
            ("canary = -1", "g.toml:4: policy.canary: invalid value: integer `-1`, expected u32"),
            ("max_failure_ratio = 1.5", "g.toml:4: policy.max_failure_ratio: 1.5"),
            ("batches = [1, \"0%\"]", "g.toml:4: policy.batches: \"0%\""),
        ] {
            let error = policy_error(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn deadlines_out_of_order_are_named() {
        let error = policy_error("min_healthy_time = \"5m\"\nhealthy_deadline = \"5m\"");
        assert!(error.contains("g.toml:5: policy.healthy_deadline: 5m is not longer than min_healthy_time"), "{error}");
        let error = policy_error("progress_deadline = \"10s\"\nhealthy_deadline = \"1m\"");
        assert!(
            error.contains("g.toml:4: policy.progress_deadline: 10s is not longer than healthy_deadline"),
            "{error}"
        );
    }

    #[test]
    fn windows_are_refused_with_their_line() {
        let error = parse_text("[group]\nname = \"a.b\"\n\n[[window]]\nlength = \"2h\"\n").unwrap_err();
        assert!(error.contains("g.toml:4: window: maintenance windows are not built yet"), "{error}");
    }

    #[test]
    fn a_group_needs_a_name() {
        assert!(
            parse_text("[group]\npackage = \"a/b\"\n").unwrap_err().contains("g.toml:1: group: missing field `name`")
        );
        assert!(parse_text("[policy]\n").unwrap_err().contains("missing field `group`"));
        let error = parse_text("[group]\nname = \"redis\"\n").unwrap_err();
        assert!(error.contains("g.toml:2: group.name: \"redis\" is not a group name"), "{error}");
    }
}
