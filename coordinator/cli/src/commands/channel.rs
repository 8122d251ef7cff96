//! `rollcall channel`: named sets of releases.

use clap::Subcommand;
use rollcall_ident::ChannelName;
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{ListArgs, WriteArgs};
use crate::client::{channels, read_options};
use crate::failure::{Exit, Outcome};
use crate::view::{Changed, ChannelView, List};

/// What can be done to channels.
#[derive(Debug, Subcommand)]
pub enum ChannelCommand {
    /// Show all channels and the releases in them
    #[command(after_help = "Example:\n  rollcall channel list")]
    List {
        #[command(flatten)]
        list: ListArgs,
    },
    /// Create a channel
    #[command(after_help = "Example:\n  rollcall channel create stable")]
    Create {
        /// Its name
        #[arg(value_name = "CHANNEL")]
        name: ChannelName,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Delete a channel
    #[command(after_help = "Example:\n  rollcall channel delete nightly")]
    Delete {
        /// Its name
        #[arg(value_name = "CHANNEL")]
        name: ChannelName,
        #[command(flatten)]
        write: WriteArgs,
    },
}

/// Runs a command of this family.
pub async fn run(command: ChannelCommand, app: &App) -> Outcome {
    match command {
        ChannelCommand::List { list } => {
            let request = v1::ListChannelsRequest { options: read_options(&list.read) };
            let response =
                app.client.call(request, async |channel, request| channels(channel).list(request).await).await?;
            let items = response.channels.into_iter().map(ChannelView::from);
            let items = items.take(list.limit.unwrap_or(usize::MAX)).collect();
            app.output.show(&List { revision: response.revision, items })?;
        }
        ChannelCommand::Create { name, write } => {
            let request = v1::CreateChannelRequest { name: name.to_string(), options: Some(write.into_wire()) };
            let response =
                app.client.call(request, async |channel, request| channels(channel).create(request).await).await?;
            let line = format!("channel {name} created at revision {}", response.revision);
            app.output.show_change(&Changed { revision: response.revision }, &line)?;
        }
        ChannelCommand::Delete { name, write } => {
            let request = v1::DeleteChannelRequest { name: name.to_string(), options: Some(write.into_wire()) };
            let response =
                app.client.call(request, async |channel, request| channels(channel).delete(request).await).await?;
            let line = format!("channel {name} deleted at revision {}", response.revision);
            app.output.show_change(&Changed { revision: response.revision }, &line)?;
        }
    }
    Ok(Exit::Done)
}
