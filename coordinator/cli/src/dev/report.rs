//! What `dev` says when everything runs: where it is, and what to try.

use serde::Serialize;

use super::folder::Folder;
use super::sample::{BROKEN, CHANNEL, GROUP, SECOND};
use crate::app::App;
use crate::args::Format;
use crate::failure::Failure;
use crate::output::{Page, Tone, View, key_values};

/// How to reach it all.
#[derive(Debug, Serialize)]
struct DevView {
    endpoints: Vec<String>,
    /// The peers' HTTP: dashboard, metrics, depot.
    http: Vec<String>,
    data_dir: String,
    group: String,
    channel: String,
    pid: u32,
}

impl View for DevView {
    fn to_table(&self, page: &Page) -> String {
        let head = key_values(
            page,
            [
                ("endpoints", self.endpoints.join("\n")),
                ("http", self.http.join("\n")),
                ("folder", self.data_dir.clone()),
                ("group", self.group.clone()),
            ],
        );
        let hint = |text: &str| Tone::Dim.paint(&format!("# {text}"));
        format!(
            "\n{head}\n\nIn another shell:\n\
             \n  export ROLLCALL_ENDPOINTS={}\n\
             \n  {}\n  rollcall cluster status\n  rollcall group get {GROUP}\n\
             \n  {}\n  rollcall package promote {SECOND} {CHANNEL}\n  rollcall rollout status {GROUP} --watch\n\
             \n  {}\n  rollcall rollout start {GROUP} --to {BROKEN}\n  rollcall explain {GROUP}\n\
             \nCtrl-C ends it all. What happens from now on:\n",
            self.endpoints.join(","),
            hint("how it stands"),
            hint("roll release 1.1.0 out"),
            hint("a release that never becomes healthy: the rollout halts at its first node"),
        )
    }
}

/// Prints it.
pub fn show(folder: &Folder, dev: &App) -> Result<(), Failure> {
    let view = DevView {
        endpoints: folder.endpoints().iter().map(ToString::to_string).collect(),
        http: folder.peers.iter().map(|peer| format!("http://{}", peer.ports.http)).collect(),
        data_dir: folder.path().display().to_string(),
        group: GROUP.to_owned(),
        channel: CHANNEL.to_owned(),
        pid: std::process::id(),
    };
    match dev.output.format() {
        Format::Table => dev.output.show(&view),
        Format::Json | Format::Yaml => dev.output.show_next(&view),
    }
}
