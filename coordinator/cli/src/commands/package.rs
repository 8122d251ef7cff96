//! `rollcall package`: releases in channels.

use clap::{Args, Subcommand};
use rollcall_ident::{ChannelName, ReleaseIdent};
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{DigestArgs, WriteArgs};
use crate::client::channels;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::View as _;
use crate::view::{At, PromotionView};

/// What can be done to releases.
#[derive(Debug, Subcommand)]
pub enum PackageCommand {
    /// Put releases into a channel, all or none; groups that follow it start a rollout
    #[command(after_help = "\
Examples:
  rollcall package promote acme/redis/7.2.1/20261130101500 stable
  rollcall package promote acme/redis/7.2.1/20261130101500 acme/web/3.0.0/20261130101500 stable")]
    Promote {
        #[command(flatten)]
        releases: ReleasesArgs,
        #[command(flatten)]
        digest: DigestArgs,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Take releases out of a channel, all or none; a rollout to one of them ends as its group's on_demote says
    #[command(after_help = "\
Example:
  rollcall package demote acme/redis/7.2.1/20261130101500 stable --reason 'leaks memory'")]
    Demote {
        #[command(flatten)]
        releases: ReleasesArgs,
        #[command(flatten)]
        write: WriteArgs,
    },
}

/// Which releases, and which channel.
#[derive(Debug, Args)]
pub struct ReleasesArgs {
    /// The releases: origin/name/version/release
    #[arg(value_name = "IDENT", required = true)]
    pub idents: Vec<ReleaseIdent>,
    /// The channel
    #[arg(value_name = "CHANNEL", required = true)]
    pub channel: ChannelName,
}

impl ReleasesArgs {
    /// The first release, and the others.
    fn into_wire(self) -> (String, Vec<String>, String) {
        let mut idents: Vec<_> = self.idents.iter().map(ToString::to_string).collect();
        let first = idents.remove(0);
        (first, idents, self.channel.to_string())
    }
}

/// Runs a command of this family.
pub async fn run(command: PackageCommand, app: &App) -> Outcome {
    match command {
        PackageCommand::Promote { releases, digest, write } => promote(releases, digest, write, app).await,
        PackageCommand::Demote { releases, write } => demote(releases, write, app).await,
    }
}

async fn promote(releases: ReleasesArgs, digest: DigestArgs, write: WriteArgs, app: &App) -> Outcome {
    if releases.idents.len() > 1 && digest.digest.is_some() {
        return Err(Failure::Usage("--digest is that of one release: promote it by a command of its own".to_owned()));
    }
    let (ident, more_idents, channel) = releases.into_wire();
    let request = v1::PromoteRequest {
        ident: ident.clone(),
        channel: channel.clone(),
        digest: digest.into_wire(),
        options: Some(write.into_wire()),
        more_idents: more_idents.clone(),
    };
    let response = app.client.call(request, async |channel, request| channels(channel).promote(request).await).await?;
    let item = PromotionView {
        ident,
        more_idents,
        channel,
        started_rollout_ids: response.started_rollout_ids,
        stopped_rollout_ids: Vec::new(),
    };
    show("promoted into", At { revision: response.revision, item }, app)
}

async fn demote(releases: ReleasesArgs, write: WriteArgs, app: &App) -> Outcome {
    let (ident, more_idents, channel) = releases.into_wire();
    let request = v1::DemoteRequest {
        ident: ident.clone(),
        channel: channel.clone(),
        options: Some(write.into_wire()),
        more_idents: more_idents.clone(),
    };
    let response = app.client.call(request, async |channel, request| channels(channel).demote(request).await).await?;
    let item = PromotionView {
        ident,
        more_idents,
        channel,
        started_rollout_ids: Vec::new(),
        stopped_rollout_ids: response.stopped_rollout_ids,
    };
    show("demoted out of", At { revision: response.revision, item }, app)
}

/// A line for each release, and one for each rollout that it touched.
fn show(done: &str, view: At<PromotionView>, app: &App) -> Outcome {
    let (channel, revision) = (&view.item.channel, view.revision);
    let idents = [&view.item.ident].into_iter().chain(&view.item.more_idents);
    let mut lines: Vec<_> = idents.map(|ident| format!("{ident} {done} {channel} at revision {revision}")).collect();
    lines.push(view.to_table(app.output.page()));
    app.output.show_change(&view, lines.join("\n").trim_end())?;
    Ok(Exit::Done)
}
