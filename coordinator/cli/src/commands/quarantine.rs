//! `rollcall quarantine`: releases that aren't started again.

use clap::{Args, Subcommand};
use rollcall_ident::ReleaseIdent;
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{ListArgs, WriteArgs};
use crate::client::{channels, read_options};
use crate::failure::{Exit, Outcome};
use crate::view::{Changed, List, QuarantineView};

/// What can be done to the quarantine.
#[derive(Debug, Subcommand)]
pub enum QuarantineCommand {
    /// Show the releases that aren't started again: those that failed, and those that somebody put there
    #[command(after_help = "Example:\n  rollcall quarantine list")]
    List {
        #[command(flatten)]
        list: ListArgs,
    },
    /// Put a release into quarantine; a rollout to it doesn't go on
    #[command(after_help = "\
Example:
  rollcall quarantine add acme/redis/7.2.1/20261130101500 --reason 'loses writes'")]
    Add(ReleaseArgs),
    /// Let a release be started again
    #[command(after_help = "\
Example:
  rollcall quarantine remove acme/redis/7.2.1/20261130101500 --reason 'it was the disk'")]
    Remove(ReleaseArgs),
}

/// Which release.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// The release: origin/name/version/release
    #[arg(value_name = "IDENT")]
    pub ident: ReleaseIdent,
    #[command(flatten)]
    pub write: WriteArgs,
}

impl ReleaseArgs {
    fn into_wire(self) -> v1::QuarantineRequest {
        v1::QuarantineRequest { ident: self.ident.to_string(), options: Some(self.write.into_wire()) }
    }
}

/// Runs a command of this family.
pub async fn run(command: QuarantineCommand, app: &App) -> Outcome {
    match command {
        QuarantineCommand::List { list } => {
            let request = v1::ListQuarantineRequest { options: read_options(&list.read) };
            let response = app
                .client
                .call(request, async |channel, request| channels(channel).list_quarantine(request).await)
                .await?;
            let items = response.releases.into_iter().map(QuarantineView::from);
            let items = items.take(list.limit.unwrap_or(usize::MAX)).collect();
            app.output.show(&List { revision: response.revision, items })?;
        }
        QuarantineCommand::Add(args) => {
            let request = args.into_wire();
            let ident = request.ident.clone();
            let response = app
                .client
                .call(request, async |channel, request| channels(channel).add_quarantine(request).await)
                .await?;
            let line = format!("{ident} is in quarantine at revision {}", response.revision);
            app.output.show_change(&Changed { revision: response.revision }, &line)?;
        }
        QuarantineCommand::Remove(args) => {
            let request = args.into_wire();
            let ident = request.ident.clone();
            let response = app
                .client
                .call(request, async |channel, request| channels(channel).remove_quarantine(request).await)
                .await?;
            let line = format!("{ident} may be started again at revision {}", response.revision);
            app.output.show_change(&Changed { revision: response.revision }, &line)?;
        }
    }
    Ok(Exit::Done)
}
