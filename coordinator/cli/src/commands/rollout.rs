//! `rollcall rollout`: move a group to a release. What shows a rollout is in
//! [`rollout_status`].

use clap::{Args, Subcommand};
use rollcall_ident::{GroupName, RolloutId};
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{DigestArgs, Format, ListArgs, ReadArgs, TargetArgs, WriteArgs};
use crate::client::{read_options, rollouts};
use crate::commands::pages::{OnePage, all_pages};
use crate::commands::rollout_status::{self, StatusArgs};
use crate::failure::{Exit, Failure, Outcome};
use crate::view::{At, History, List, PlanView, RolloutView};

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
    /// Let no new step begin; one past its commit point runs to its end
    #[command(after_help = "Example:\n  rollcall rollout pause r42 --reason 'latency alarm'")]
    Pause(VerbArgs),
    /// Go on with a paused rollout
    #[command(after_help = "Example:\n  rollcall rollout resume r42")]
    Resume(VerbArgs),
    /// End a rollout here and leave the nodes as they are
    #[command(after_help = "Example:\n  rollcall rollout stop r42 --reason 'wrong release'")]
    Stop(VerbArgs),
    /// Try a paused rollout's failed steps again
    #[command(after_help = "Example:\n  rollcall rollout retry r42 --node redis-3")]
    Retry {
        /// Only this node's step: its name or id
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
        #[command(flatten)]
        verb: VerbArgs,
    },
}

/// What each verb takes.
#[derive(Debug, Args)]
pub struct VerbArgs {
    /// The rollout
    #[arg(value_name = "ID")]
    pub id: RolloutId,
    #[command(flatten)]
    pub write: WriteArgs,
}

/// What is done to a rollout that there is already.
#[derive(Debug, Clone, Copy)]
enum Verb {
    Pause,
    Resume,
    Stop,
    Retry,
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
        RolloutCommand::Pause(verb) => apply_verb(Verb::Pause, verb, None, app).await,
        RolloutCommand::Resume(verb) => apply_verb(Verb::Resume, verb, None, app).await,
        RolloutCommand::Stop(verb) => apply_verb(Verb::Stop, verb, None, app).await,
        RolloutCommand::Retry { node, verb } => apply_verb(Verb::Retry, verb, node, app).await,
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

async fn start(target: &TargetArgs, digest: DigestArgs, write: WriteArgs, app: &App) -> Outcome {
    let request = v1::StartRolloutRequest {
        group: target.group.to_string(),
        target: target.to.to_string(),
        digest: digest.into_wire(),
        options: Some(write.into_wire()),
    };
    let response = app.client.call(request, async |channel, request| rollouts(channel).start(request).await).await?;
    let rollout = response.rollout.ok_or_else(|| Failure::incomplete_answer("the rollout"))?;
    let view = At { revision: response.revision, item: RolloutView::from(rollout) };
    // The id alone, for `id=$(rollcall rollout start …)`.
    app.output.show_change(&view, &view.item.rollout_id)?;
    Ok(Exit::Done)
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

async fn apply_verb(verb: Verb, args: VerbArgs, node: Option<String>, app: &App) -> Outcome {
    let request = v1::RolloutVerbRequest {
        rollout_id: args.id.to_string(),
        options: Some(args.write.into_wire()),
        node: node.unwrap_or_default(),
    };
    let response = app
        .client
        .call(request, async |channel, request| {
            let mut rollouts = rollouts(channel);
            match verb {
                Verb::Pause => rollouts.pause(request).await,
                Verb::Resume => rollouts.resume(request).await,
                Verb::Stop => rollouts.stop(request).await,
                Verb::Retry => rollouts.retry(request).await,
            }
        })
        .await?;
    let rollout = response.rollout.ok_or_else(|| Failure::incomplete_answer("the rollout"))?;
    let view = At { revision: response.revision, item: RolloutView::from(rollout) };
    app.output.show_change(&view, &verb_line(verb, &view))?;
    if app.output.format() == Format::Table && matches!(verb, Verb::Resume) && view.item.status == "paused" {
        app.output.note(&format!("what paused it still holds; `rollcall explain {}` says what", args.id));
    }
    Ok(Exit::Done)
}

fn verb_line(verb: Verb, view: &At<RolloutView>) -> String {
    let done = match verb {
        Verb::Pause => "paused",
        Verb::Resume => "resumed",
        Verb::Stop => "stopped",
        Verb::Retry => "tries again",
    };
    let rollout = &view.item;
    let now = if rollout.status == done { String::new() } else { format!("; it is {} now", rollout.status) };
    format!("{} {done} at revision {}{now}", rollout.rollout_id, view.revision)
}
