//! `rollcall window`: when groups may be disturbed.

use clap::{Args, Subcommand};
use rollcall_ident::{GroupName, Millis, WindowId};
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{ListArgs, WriteArgs};
use crate::client::{read_options, windows};
use crate::failure::{Exit, Failure, Outcome};
use crate::maintenance::{Day, StartTime, Window};
use crate::view::{At, Changed, GroupWindowsView, List, WindowAddedView};

/// What can be done to maintenance windows.
#[derive(Debug, Subcommand)]
pub enum WindowCommand {
    /// Give a group one more window; with the first one it is no longer always open
    #[command(after_help = "\
Examples:
  rollcall window add redis.default --days mon,tue --start 02:00 --length 2h
  rollcall window add redis.default --start 23:30 --length 90m --time-zone Europe/Berlin")]
    Add {
        /// The group
        #[arg(value_name = "GROUP")]
        group: GroupName,
        #[command(flatten)]
        window: WindowArgs,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Show windows, whether groups are open now, and when that changes
    #[command(after_help = "Example:\n  rollcall window list redis.default")]
    List {
        /// Only this group's [default: of all groups that have any]
        #[arg(value_name = "GROUP")]
        group: Option<GroupName>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Take a window from a group; without any it is always open
    #[command(after_help = "Example:\n  rollcall window remove redis.default w1")]
    Remove {
        /// The group
        #[arg(value_name = "GROUP")]
        group: GroupName,
        /// The window's id, as `window list` shows it
        #[arg(value_name = "WINDOW-ID")]
        id: WindowId,
        #[command(flatten)]
        write: WriteArgs,
    },
}

/// One window.
#[derive(Debug, Args)]
pub struct WindowArgs {
    /// On which days it begins: mon, tue, wed, thu, fri, sat, sun [default: every day]
    #[arg(long, value_name = "DAY,…", value_delimiter = ',')]
    pub days: Vec<Day>,

    /// When it begins: HH:MM in the time zone
    #[arg(long, value_name = "HH:MM")]
    pub start: StartTime,

    /// How long it is, like 2h
    #[arg(long, value_name = "DURATION")]
    pub length: Millis,

    /// In which zone days and start are meant, like Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub time_zone: Option<String>,
}

impl WindowArgs {
    fn into_window(self) -> Result<Window, Failure> {
        let Self { days, start, length, time_zone } = self;
        let window = Window { days, start_time: start, length, time_zone };
        window.check().map_err(|(key, problem)| {
            Failure::Usage(format!("--{}: {problem}", key.trim_end_matches("_time").replace('_', "-")))
        })?;
        Ok(window)
    }
}

/// Runs a command of this family.
pub async fn run(command: WindowCommand, app: &App) -> Outcome {
    match command {
        WindowCommand::Add { group, window, write } => add(&group, window.into_window()?, write, app).await?,
        WindowCommand::List { group, list } => show_all(group.as_ref(), &list, app).await?,
        WindowCommand::Remove { group, id, write } => remove(&group, id, write, app).await?,
    }
    Ok(Exit::Done)
}

async fn add(group: &GroupName, window: Window, write: WriteArgs, app: &App) -> Result<(), Failure> {
    let request = v1::AddWindowRequest {
        group: group.to_string(),
        window: Some(window.into_wire()),
        options: Some(write.into_wire()),
    };
    let response = app.client.call(request, async |channel, request| windows(channel).add(request).await).await?;
    let item = WindowAddedView { group: group.to_string(), window_id: response.window_id };
    app.output.show(&At { revision: response.revision, item })
}

async fn show_all(group: Option<&GroupName>, list: &ListArgs, app: &App) -> Result<(), Failure> {
    let group = group.map(ToString::to_string).unwrap_or_default();
    let request = v1::ListWindowsRequest { group, options: read_options(&list.read) };
    let response = app.client.call(request, async |channel, request| windows(channel).list(request).await).await?;
    let items = response.groups.into_iter().map(GroupWindowsView::from);
    let items = items.take(list.limit.unwrap_or(usize::MAX)).collect();
    app.output.show(&List { revision: response.revision, items })
}

async fn remove(group: &GroupName, id: WindowId, write: WriteArgs, app: &App) -> Result<(), Failure> {
    let request = v1::RemoveWindowRequest {
        group: group.to_string(),
        window_id: id.to_string(),
        options: Some(write.into_wire()),
    };
    let response = app.client.call(request, async |channel, request| windows(channel).remove(request).await).await?;
    let line = format!("window {id} removed from {group} at revision {}", response.revision);
    app.output.show_change(&Changed { revision: response.revision }, &line)
}
