//! `rollcall package`: releases in channels.

use clap::Subcommand;
use rollcall_ident::{ChannelName, ReleaseIdent};
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{DigestArgs, WriteArgs};
use crate::client::channels;
use crate::failure::{Exit, Outcome};
use crate::output::View as _;
use crate::view::{At, PromotionView};

/// What can be done to releases.
#[derive(Debug, Subcommand)]
pub enum PackageCommand {
    /// Put a release into a channel; groups that follow it start a rollout
    #[command(after_help = "Example:\n  rollcall package promote acme/redis/7.2.1/20261130101500 stable")]
    Promote {
        /// The release: origin/name/version/release
        #[arg(value_name = "IDENT")]
        ident: ReleaseIdent,
        /// The channel
        #[arg(value_name = "CHANNEL")]
        channel: ChannelName,
        #[command(flatten)]
        digest: DigestArgs,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Take a release out of a channel; a rollout to it stops
    #[command(after_help = "\
Example:
  rollcall package demote acme/redis/7.2.1/20261130101500 stable --reason 'leaks memory'")]
    Demote {
        /// The release: origin/name/version/release
        #[arg(value_name = "IDENT")]
        ident: ReleaseIdent,
        /// The channel
        #[arg(value_name = "CHANNEL")]
        channel: ChannelName,
        #[command(flatten)]
        write: WriteArgs,
    },
}

/// Runs a command of this family.
pub async fn run(command: PackageCommand, app: &App) -> Outcome {
    match command {
        PackageCommand::Promote { ident, channel, digest, write } => {
            promote(&ident, &channel, digest, write, app).await
        }
        PackageCommand::Demote { ident, channel, write } => demote(&ident, &channel, write, app).await,
    }
}

async fn promote(
    ident: &ReleaseIdent,
    channel: &ChannelName,
    digest: DigestArgs,
    write: WriteArgs,
    app: &App,
) -> Outcome {
    let request = v1::PromoteRequest {
        ident: ident.to_string(),
        channel: channel.to_string(),
        digest: digest.into_wire(),
        options: Some(write.into_wire()),
    };
    let response = app.client.call(request, async |channel, request| channels(channel).promote(request).await).await?;
    let item = PromotionView {
        ident: ident.to_string(),
        channel: channel.to_string(),
        started_rollout_ids: response.started_rollout_ids,
        stopped_rollout_ids: Vec::new(),
    };
    show("promoted into", At { revision: response.revision, item }, app)
}

async fn demote(ident: &ReleaseIdent, channel: &ChannelName, write: WriteArgs, app: &App) -> Outcome {
    let request =
        v1::DemoteRequest { ident: ident.to_string(), channel: channel.to_string(), options: Some(write.into_wire()) };
    let response = app.client.call(request, async |channel, request| channels(channel).demote(request).await).await?;
    let item = PromotionView {
        ident: ident.to_string(),
        channel: channel.to_string(),
        started_rollout_ids: Vec::new(),
        stopped_rollout_ids: response.stopped_rollout_ids,
    };
    show("demoted out of", At { revision: response.revision, item }, app)
}

fn show(done: &str, view: At<PromotionView>, app: &App) -> Outcome {
    let mut line = format!("{} {done} {} at revision {}", view.item.ident, view.item.channel, view.revision);
    let rollouts = view.to_table(app.output.page());
    if !rollouts.is_empty() {
        line = format!("{line}\n{rollouts}");
    }
    app.output.show_change(&view, &line)?;
    Ok(Exit::Done)
}
