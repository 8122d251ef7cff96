//! `rollcall explain`: why something moves or doesn't.

use clap::Args;
use rollcall_proto::v1;

use crate::app::App;
use crate::args::ReadArgs;
use crate::client::{read_options, rollouts};
use crate::failure::{Exit, Outcome};
use crate::view::{At, ExplainView};

/// Show the chain of reasons why a node, group or rollout does or doesn't move now
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rollcall explain redis.default
  rollcall explain r42
  rollcall explain redis-3")]
pub struct ExplainArgs {
    /// A node's name or id, a group, or a rollout id
    #[arg(value_name = "NODE|GROUP|ROLLOUT")]
    pub subject: String,
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Runs the command.
pub async fn run(args: ExplainArgs, app: &App) -> Outcome {
    let request = v1::ExplainRequest { subject: args.subject.clone(), options: read_options(&args.read) };
    let response = app.client.call(request, async |channel, request| rollouts(channel).explain(request).await).await?;
    let revision = response.revision;
    app.output.show(&At { revision, item: ExplainView::from_wire(args.subject, response) })?;
    Ok(Exit::Done)
}
