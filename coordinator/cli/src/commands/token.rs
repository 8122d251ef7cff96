//! `rollcall token`: who may be down.

use clap::Subcommand;
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{ListArgs, WriteArgs};
use crate::client::{read_options, tokens};
use crate::failure::{Exit, Failure, Outcome};
use crate::view::{At, List, RevokedView, TokenView};

/// What the server calls a revocation that wasn't forced.
const NEEDS_FORCE: &str = "revoke_needs_force";

/// What can be done to tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Show who may be down, since when, and what expires when
    #[command(after_help = "Example:\n  rollcall token list")]
    List {
        #[command(flatten)]
        list: ListArgs,
    },
    /// Take the token from a node, whatever it is doing; without --force, say what that risks
    #[command(after_help = "\
Examples:
  rollcall token revoke redis-3
  rollcall token revoke redis-3 --force --reason 'its disk is dead'")]
    Revoke {
        /// Its name or id
        #[arg(value_name = "NODE")]
        node: String,
        /// You know how the node is, or that it never comes back
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        write: WriteArgs,
    },
}

/// Runs a command of this family.
pub async fn run(command: TokenCommand, app: &App) -> Outcome {
    match command {
        TokenCommand::List { list } => show_all(&list, app).await,
        TokenCommand::Revoke { node, force, write } => revoke(node, force, write, app).await,
    }
}

async fn show_all(list: &ListArgs, app: &App) -> Outcome {
    let request = v1::ListTokensRequest { options: read_options(&list.read) };
    let response = app.client.call(request, async |channel, request| tokens(channel).list(request).await).await?;
    let items = response.tokens.into_iter().map(|token| TokenView::from_wire(token, response.now.as_ref()));
    let items = items.take(list.limit.unwrap_or(usize::MAX)).collect();
    app.output.show(&List { revision: response.revision, items })?;
    Ok(Exit::Done)
}

async fn revoke(node: String, force: bool, write: WriteArgs, app: &App) -> Outcome {
    let request = v1::RevokeTokenRequest { node: node.clone(), force, options: Some(write.into_wire()) };
    let answer = app.client.call(request, async |channel, request| tokens(channel).revoke(request).await).await;
    let response = answer.map_err(|failure| with_what_to_look_at(failure, &node))?;
    let rollout_id = Some(response.rollout_id).filter(|id| !id.is_empty());
    app.output.show(&At { revision: response.revision, item: RevokedView { node, rollout_id } })?;
    Ok(Exit::Done)
}

/// The refusal says what is risked; how the node is, `explain` says.
fn with_what_to_look_at(failure: Failure, node: &str) -> Failure {
    match failure {
        Failure::Refused { reason, message, .. } if reason == NEEDS_FORCE => {
            let hint = format!("look first: `rollcall explain {node}`; then: `rollcall token revoke {node} --force`");
            Failure::Refused { reason, message, hint: Some(hint) }
        }
        other => other,
    }
}
