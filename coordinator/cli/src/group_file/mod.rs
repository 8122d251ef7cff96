//! The group file: what a person declares of a group, as TOML.
//!
//! Only what the file names is sent, so a file with three lines changes three things. Errors name the file, the line,
//! the key and what was expected. The server judges the merged policy; what is wrong in the file by itself is said
//! here, with its line.

mod policy;
mod values;
mod window;
mod write;

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
use window::WindowTable;

pub use write::{to_config_table, to_file, to_policy_lines, to_window_lines};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    group: GroupTable,
    #[serde(default)]
    policy: PolicyTable,
    /// All windows of the group; absent: they stay as they are. `window = []` takes them away.
    window: Option<Vec<Spanned<WindowTable>>>,
    /// What its hooks are given; absent: as it stands, empty: nothing any more.
    config: Option<toml::Table>,
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
    file.policy.check(&source)?;
    Ok(v1::GroupSpec {
        name: file.group.name.0.to_string(),
        package: file.group.package.map(|package| package.0.to_string()),
        channel: file.group.channel.map(OrEmpty::into_wire),
        update_condition: file.group.update_condition.map(UpdateCondition::into_wire),
        policy: Some(file.policy.into_wire()),
        config: file.config.map(|config| if config.is_empty() { String::new() } else { config.to_string() }),
        windows: file.window.map(|windows| window::into_wire(windows, &source)).transpose()?,
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
#[path = "test.rs"]
mod tests;
