//! `rollcall freeze`: times at which nothing is disturbed.

use clap::Subcommand;
use rollcall_ident::{FreezeId, GroupName};
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{ListArgs, WriteArgs};
use crate::client::{read_options, windows};
use crate::failure::{Exit, Failure, Outcome};
use crate::view::{At, Changed, FreezeCreatedView, FreezeView, List};
use crate::when::When;

/// What can be done to change freezes.
#[derive(Debug, Subcommand)]
pub enum FreezeCommand {
    /// Forbid changes for a while; what hasn't passed its commit point goes back
    #[command(after_help = "\
Examples:
  rollcall freeze create --until 12h --reason 'incident 4711'
  rollcall freeze create --group redis.default --group web.default \\
    --from 2026-12-23T17:00:00Z --until 2027-01-02T08:00:00Z --reason holidays")]
    Create {
        /// Only this group, and others by more of this option [default: all groups]
        #[arg(long = "group", value_name = "GROUP")]
        groups: Vec<GroupName>,
        /// From when on: 2026-12-23T17:00:00Z, or a duration from now like 2h [default: now]
        #[arg(long, value_name = "T")]
        from: Option<When>,
        /// Until when, in the same form [default: until it is lifted]
        #[arg(long, value_name = "T")]
        until: Option<When>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Show all freezes, those that hold and those to come
    #[command(after_help = "Example:\n  rollcall freeze list")]
    List {
        #[command(flatten)]
        list: ListArgs,
    },
    /// End a freeze before its time
    #[command(after_help = "Example:\n  rollcall freeze lift f42 --reason 'the incident is over'")]
    Lift {
        /// Its id, as `freeze list` shows it
        #[arg(value_name = "FREEZE-ID")]
        id: FreezeId,
        #[command(flatten)]
        write: WriteArgs,
    },
}

/// Runs a command of this family.
pub async fn run(command: FreezeCommand, app: &App) -> Outcome {
    match command {
        FreezeCommand::Create { groups, from, until, write } => create(&groups, from, until, write, app).await?,
        FreezeCommand::List { list } => show_all(&list, app).await?,
        FreezeCommand::Lift { id, write } => {
            let request = v1::LiftFreezeRequest { freeze_id: id.to_string(), options: Some(write.into_wire()) };
            let response =
                app.client.call(request, async |channel, request| windows(channel).lift_freeze(request).await).await?;
            let line = format!("freeze {id} lifted at revision {}", response.revision);
            app.output.show_change(&Changed { revision: response.revision }, &line)?;
        }
    }
    Ok(Exit::Done)
}

async fn create(
    groups: &[GroupName],
    from: Option<When>,
    until: Option<When>,
    write: WriteArgs,
    app: &App,
) -> Result<(), Failure> {
    if let (Some(begin), Some(end)) = (from, until)
        && end <= begin
    {
        let (begin, end) = (begin.in_words(), end.in_words());
        return Err(Failure::Usage(format!("--until {end}: expected a moment after --from, {begin}")));
    }
    let request = v1::CreateFreezeRequest {
        groups: groups.iter().map(ToString::to_string).collect(),
        from: from.map(When::into_wire),
        until: until.map(When::into_wire),
        options: Some(write.into_wire()),
    };
    let response =
        app.client.call(request, async |channel, request| windows(channel).create_freeze(request).await).await?;
    app.output.show(&At { revision: response.revision, item: FreezeCreatedView { freeze_id: response.freeze_id } })
}

async fn show_all(list: &ListArgs, app: &App) -> Result<(), Failure> {
    let request = v1::ListFreezesRequest { options: read_options(&list.read) };
    let response =
        app.client.call(request, async |channel, request| windows(channel).list_freezes(request).await).await?;
    let items = response.freezes.into_iter().map(FreezeView::from).take(list.limit.unwrap_or(usize::MAX)).collect();
    app.output.show(&List { revision: response.revision, items })
}
