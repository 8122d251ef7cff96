//! `rollcall rollout`: move a group to a release. What shows a rollout is in [`rollout_status`], what starts one in
//! [`rollout_start`](super::rollout_start), and what is done to one that there is in [`rollout_verb`](super::rollout_verb).

use clap::Subcommand;
use rollcall_ident::GroupName;
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{DigestArgs, ListArgs, ReadArgs, TargetArgs, WriteArgs};
use crate::client::{read_options, rollouts};
use crate::commands::pages::{OnePage, all_pages};
use crate::commands::rollout_start::{EarlierRollout, start, undo};
use crate::commands::rollout_status::{self, StatusArgs};
use crate::commands::rollout_verb::{Verb, VerbArgs};
use crate::failure::{Exit, Failure, Outcome};
use crate::view::{At, History, List, PlanView, RolloutView};
use crate::when::When;

/// What can be done to rollouts.
#[derive(Debug, Subcommand)]
pub enum RolloutCommand {
    /// Show what a rollout would do, by the code that does it; exit code 10 where there are changes
    #[command(after_help = "\
Example:
  rollcall rollout plan redis.default --to acme/redis/7.2.1/20261130101500")]
    Plan {
        #[command(flatten)]
        target: TargetArgs,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Start a rollout and print its id
    #[command(after_help = "\
Examples:
  rollcall rollout start redis.default --to acme/redis/7.2.1/20261130101500
  rollcall rollout start redis.default --to acme/redis/7.2.1/20261130101500 \\
    --expected-revision 1042 --reason 'CVE-2026-1234'")]
    Start {
        #[command(flatten)]
        target: TargetArgs,
        #[command(flatten)]
        digest: DigestArgs,
        #[command(flatten)]
        write: WriteArgs,
    },
    Status(StatusArgs),
    /// Show all rollouts, newest first
    #[command(after_help = "Example:\n  rollcall rollout list --limit 20")]
    List {
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show a group's rollouts, newest first
    #[command(after_help = "Example:\n  rollcall rollout history redis.default")]
    History {
        /// The group
        #[arg(value_name = "GROUP")]
        group: GroupName,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Start a rollout back to an earlier release of a group, and print its id
    #[command(after_help = "\
Examples:
  rollcall rollout undo redis.default --reason 'slower than before'
  rollcall rollout undo redis.default --to-revision r42")]
    Undo {
        /// The group
        #[arg(value_name = "GROUP")]
        group: GroupName,
        /// To the target of this rollout, as `rollout history` shows it [default: where it was before the latest]
        #[arg(long, value_name = "ID")]
        to_revision: Option<EarlierRollout>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Let no new step begin; one past its commit point runs to its end
    #[command(after_help = "\
Examples:
  rollcall rollout pause r42 --reason 'latency alarm'
  rollcall rollout pause redis.default --until 2h")]
    Pause {
        /// Go on by itself then: 2026-12-01T02:00:00Z, or a duration from now like 2h [default: never]
        #[arg(long, value_name = "T")]
        until: Option<When>,
        #[command(flatten)]
        verb: VerbArgs,
    },
    /// Go on with a paused rollout
    #[command(after_help = "Example:\n  rollcall rollout resume r42")]
    Resume {
        /// Pause again by itself then: 2026-12-01T02:00:00Z, or a duration from now like 2h [default: never]
        #[arg(long, value_name = "T")]
        until: Option<When>,
        #[command(flatten)]
        verb: VerbArgs,
    },
    /// End a rollout here and leave the nodes as they are
    #[command(after_help = "Example:\n  rollcall rollout stop r42 --reason 'wrong release'")]
    Stop(VerbArgs),
    /// Return the updated nodes to where they were, in reverse order, through the same gates
    #[command(after_help = "Example:\n  rollcall rollout abort r42 --reason 'loses writes'")]
    Abort(VerbArgs),
    /// Let the next batch begin
    #[command(after_help = "Examples:\n  rollcall rollout promote r42\n  rollcall rollout promote r42 --full")]
    Promote {
        /// All later batches too
        #[arg(long)]
        full: bool,
        #[command(flatten)]
        verb: VerbArgs,
    },
    /// Let one step begin, where the group's mode is manual
    #[command(after_help = "Example:\n  rollcall rollout next r42")]
    Next(VerbArgs),
    /// Give the second person's word, where approval_required; who started it can't
    #[command(after_help = "Example:\n  rollcall rollout approve r42 --reason 'read the diff'")]
    Approve(VerbArgs),
    /// Refuse the second person's word: the rollout ends before it begins
    #[command(after_help = "Example:\n  rollcall rollout deny r42 --reason 'not on a Friday'")]
    Deny(VerbArgs),
    /// Try failed steps again
    #[command(after_help = "Example:\n  rollcall rollout retry r42 --node redis-3")]
    Retry {
        /// Only this node's step: its name or id
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
        #[command(flatten)]
        verb: VerbArgs,
    },
    /// Leave a node out, on record
    #[command(after_help = "Example:\n  rollcall rollout skip r42 --node redis-3 --reason 'waits for a disk'")]
    Skip {
        /// Its name or id
        #[arg(long, value_name = "NODE")]
        node: String,
        #[command(flatten)]
        verb: VerbArgs,
    },
}

/// Runs a command of this family.
pub async fn run(command: RolloutCommand, app: &App) -> Outcome {
    match command {
        RolloutCommand::Plan { target, read } => plan(&target, &read, app).await,
        RolloutCommand::Start { target, digest, write } => start(&target, digest, write, app).await,
        RolloutCommand::Status(args) => rollout_status::run(args, app).await,
        RolloutCommand::List { list } => {
            let rollouts = fetch_all(None, &list, app).await?;
            app.output.show(&rollouts)?;
            Ok(Exit::Done)
        }
        RolloutCommand::History { group, list } => {
            let rollouts = fetch_all(Some(&group), &list, app).await?;
            app.output.show(&History(rollouts))?;
            Ok(Exit::Done)
        }
        RolloutCommand::Undo { group, to_revision, write } => undo(&group, to_revision, write, app).await,
        RolloutCommand::Pause { until, verb } => Verb::Pause { until }.say(verb, app).await,
        RolloutCommand::Resume { until, verb } => Verb::Resume { until }.say(verb, app).await,
        RolloutCommand::Stop(verb) => Verb::Stop.say(verb, app).await,
        RolloutCommand::Abort(verb) => Verb::Abort.say(verb, app).await,
        RolloutCommand::Promote { full, verb } => Verb::Promote { full }.say(verb, app).await,
        RolloutCommand::Next(verb) => Verb::Next.say(verb, app).await,
        RolloutCommand::Approve(verb) => Verb::Approve.say(verb, app).await,
        RolloutCommand::Deny(verb) => Verb::Deny.say(verb, app).await,
        RolloutCommand::Retry { node, verb } => Verb::Retry { node }.say(verb, app).await,
        RolloutCommand::Skip { node, verb } => Verb::Skip { node }.say(verb, app).await,
    }
}

async fn plan(target: &TargetArgs, read: &ReadArgs, app: &App) -> Outcome {
    let request = v1::PlanRolloutRequest {
        group: target.group.to_string(),
        target: target.to.to_string(),
        options: read_options(read),
    };
    let response = app.client.call(request, async |channel, request| rollouts(channel).plan(request).await).await?;
    let view = At { revision: response.revision, item: PlanView::from(response) };
    app.output.show(&view)?;
    Ok(if view.item.changes { Exit::Changes } else { Exit::Done })
}

/// Rollouts of one group or of all, page by page.
pub async fn fetch_all(group: Option<&GroupName>, list: &ListArgs, app: &App) -> Result<List<RolloutView>, Failure> {
    let group = group.map(ToString::to_string).unwrap_or_default();
    all_pages(list.limit, async |page_size, page_token| {
        let options = read_options(&list.read);
        let request = v1::ListRolloutsRequest { group: group.clone(), options, page_size, page_token };
        let response = app.client.call(request, async |channel, request| rollouts(channel).list(request).await).await?;
        let items = response.rollouts.into_iter().map(RolloutView::from).collect();
        Ok(OnePage { revision: response.revision, items, next_token: response.next_page_token })
    })
    .await
}
