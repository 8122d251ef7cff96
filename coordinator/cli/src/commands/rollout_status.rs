//! `rollcall rollout status`: show rollouts, once or live.

use clap::Args;
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{ListArgs, ReadArgs, RolloutSubject};
use crate::client::{read_options, rollouts};
use crate::commands::group;
use crate::failure::{Exit, Failure, Outcome};
use crate::live;
use crate::output::{Page, View};
use crate::view::{At, List, RolloutView};

/// Show a rollout, node by node; without a name: each group's active or else latest one
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rollcall rollout status
  rollcall rollout status redis.default --watch
  rollcall rollout status r42 --watch --timeout 30m && echo rolled out")]
pub struct StatusArgs {
    /// A rollout, or a group for its active or else latest one
    #[arg(value_name = "ID|GROUP")]
    pub subject: Option<RolloutSubject>,
    /// Watch it to its end: exit code 0 only when it has succeeded, 4 when --timeout is over
    #[arg(long, short)]
    pub watch: bool,
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Runs the command.
pub async fn run(args: StatusArgs, app: &App) -> Outcome {
    match (args.subject, args.watch) {
        (Some(subject), true) => live::watch(&subject, app).await,
        (Some(subject), false) => {
            let view = fetch(&subject, &args.read, app).await?;
            app.output.show(&view)?;
            Ok(Exit::Done)
        }
        (None, false) => {
            let overview = fetch_overview(args.read, app).await?;
            app.output.show(&overview)?;
            Ok(Exit::Done)
        }
        (None, true) => {
            let overview = fetch_overview(args.read, app).await?;
            live::watch(&only_active(&overview.0)?, app).await
        }
    }
}

/// One rollout, with the cluster's clock.
pub async fn fetch(subject: &RolloutSubject, read: &ReadArgs, app: &App) -> Result<At<RolloutView>, Failure> {
    let (rollout_id, group) = subject.to_wire();
    let request = v1::GetRolloutRequest { rollout_id, group, options: read_options(read) };
    let response = app.client.call(request, async |channel, request| rollouts(channel).get(request).await).await?;
    let rollout = response.rollout.ok_or_else(|| Failure::incomplete_answer("the rollout"))?;
    Ok(At { revision: response.revision, item: RolloutView::from(rollout).at_moment(response.now.as_ref()) })
}

/// Each group's active or else latest rollout, in full.
#[derive(Debug, serde::Serialize)]
#[serde(transparent)]
struct Overview(List<RolloutView>);

impl View for Overview {
    fn to_table(&self, page: &Page) -> String {
        if self.0.items.is_empty() {
            return "no rollouts yet; `rollcall rollout start GROUP --to IDENT` starts one".to_owned();
        }
        let each = self.0.items.iter().map(|item| At { revision: self.0.revision, item: item.clone() }.to_table(page));
        each.collect::<Vec<_>>().join("\n\n\n")
    }
}

async fn fetch_overview(read: ReadArgs, app: &App) -> Result<Overview, Failure> {
    let groups = group::fetch_all(&ListArgs { read: read.clone(), limit: None }, app).await?;
    let mut list = List { revision: groups.revision, items: Vec::new() };
    for group in groups.items {
        let name = group.name.parse().map_err(|_| Failure::incomplete_answer("a group's name"))?;
        match fetch(&RolloutSubject::Group(name), &read, app).await {
            Ok(view) => {
                list.revision = list.revision.max(view.revision);
                list.items.push(view.item);
            }
            // A group that was declared and never moved.
            Err(Failure::Refused { .. }) if group.active_rollout_id.is_none() => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(Overview(list))
}

fn only_active(overview: &List<RolloutView>) -> Result<RolloutSubject, Failure> {
    let active: Vec<_> = overview.items.iter().filter(|rollout| !rollout.is_ended()).collect();
    match active[..] {
        [rollout] => rollout.rollout_id.parse().map_err(|_| Failure::incomplete_answer("the rollout's id")),
        [] => {
            Err(Failure::Usage("--watch: no rollout is active; name one, as `rollcall rollout list` shows them".into()))
        }
        _ => {
            let ids: Vec<_> = active.iter().map(|rollout| rollout.rollout_id.as_str()).collect();
            Err(Failure::Usage(format!("--watch: several rollouts are active; name one of {}", ids.join(", "))))
        }
    }
}
