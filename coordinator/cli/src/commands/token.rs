//! `rollcall token`: who may be down.

use clap::Subcommand;
use rollcall_proto::v1;

use crate::app::App;
use crate::args::ListArgs;
use crate::client::{read_options, tokens};
use crate::failure::{Exit, Outcome};
use crate::view::{List, TokenView};

/// What can be done to tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Show who may be down, since when, and what expires when
    #[command(after_help = "Example:\n  rollcall token list")]
    List {
        #[command(flatten)]
        list: ListArgs,
    },
}

/// Runs a command of this family.
pub async fn run(command: TokenCommand, app: &App) -> Outcome {
    let TokenCommand::List { list } = command;
    let request = v1::ListTokensRequest { options: read_options(&list.read) };
    let response = app.client.call(request, async |channel, request| tokens(channel).list(request).await).await?;
    let items = response.tokens.into_iter().map(|token| TokenView::from_wire(token, response.now.as_ref()));
    let items = items.take(list.limit.unwrap_or(usize::MAX)).collect();
    app.output.show(&List { revision: response.revision, items })?;
    Ok(Exit::Done)
}
