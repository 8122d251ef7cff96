//! `rollcall group`: declare service groups.

use std::path::PathBuf;

use clap::Subcommand;
use rollcall_ident::GroupName;
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{ListArgs, ReadArgs, WriteArgs};
use crate::client::{groups, read_options};
use crate::commands::pages::{OnePage, all_pages};
use crate::failure::{Exit, Failure, Outcome};
use crate::group_file;
use crate::view::{At, Changed, GroupView};

/// What can be done to groups.
#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// Declare a group, or change of it what the file names
    #[command(after_help = "\
Example:
  rollcall group apply -f redis.toml --reason 'soak for longer'

redis.toml:
  [group]
  name = \"redis.default\"
  package = \"acme/redis\"
  channel = \"stable\"

  [policy]
  max_unavailable = 1
  min_healthy_time = \"30s\"")]
    Apply {
        /// The group's TOML file; - reads from stdin
        #[arg(long, short, value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Show a group, its members, its policy and its windows
    #[command(after_help = "\
Examples:
  rollcall group get redis.default -o json
  rollcall group get redis.default --as-file > redis.toml")]
    Get {
        /// The group
        #[arg(value_name = "GROUP")]
        name: GroupName,
        /// Print what is declared as a group file, for `group apply -f`
        #[arg(long)]
        as_file: bool,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Show all groups
    #[command(after_help = "Example:\n  rollcall group list")]
    List {
        #[command(flatten)]
        list: ListArgs,
    },
    /// Delete a group; refused while a rollout of it runs or nodes still declare it
    #[command(after_help = "Example:\n  rollcall group delete redis.default --reason 'moved to cell 2'")]
    Delete {
        /// The group
        #[arg(value_name = "GROUP")]
        name: GroupName,
        #[command(flatten)]
        write: WriteArgs,
    },
}

/// Runs a command of this family.
pub async fn run(command: GroupCommand, app: &App) -> Outcome {
    match command {
        GroupCommand::Apply { file, write } => apply(&file, write, app).await,
        GroupCommand::Get { name, as_file, read } => get(&name, as_file, &read, app).await,
        GroupCommand::List { list } => {
            let groups = fetch_all(&list, app).await?;
            app.output.show(&groups)?;
            Ok(Exit::Done)
        }
        GroupCommand::Delete { name, write } => delete(&name, write, app).await,
    }
}

async fn apply(file: &std::path::Path, write: WriteArgs, app: &App) -> Outcome {
    let spec = group_file::load(file)?;
    let request = v1::ApplyGroupRequest { spec: Some(spec), options: Some(write.into_wire()) };
    let response = app.client.call(request, async |channel, request| groups(channel).apply(request).await).await?;
    let group = response.group.ok_or_else(|| Failure::incomplete_answer("the group"))?;
    let view = At { revision: response.revision, item: GroupView::from(group) };
    let mut line = format!("group {} applied at revision {}", view.item.name, view.revision);
    if !response.started_rollout_id.is_empty() {
        line.push_str(&format!("; it started rollout {}", response.started_rollout_id));
    }
    app.output.show_change(&view, &line)?;
    Ok(Exit::Done)
}

async fn get(name: &GroupName, as_file: bool, read: &ReadArgs, app: &App) -> Outcome {
    let request = v1::GetGroupRequest { name: name.to_string(), options: read_options(read) };
    let response = app.client.call(request, async |channel, request| groups(channel).get(request).await).await?;
    let group = response.group.ok_or_else(|| Failure::incomplete_answer("the group"))?;
    let view = At { revision: response.revision, item: GroupView::from(group) };
    if as_file {
        app.output.line(&group_file::to_file(&view.item))?
    } else {
        app.output.show(&view)?
    }
    Ok(Exit::Done)
}

/// All groups, page by page.
pub async fn fetch_all(list: &ListArgs, app: &App) -> Result<crate::view::List<GroupView>, Failure> {
    all_pages(list.limit, async |page_size, page_token| {
        let request = v1::ListGroupsRequest { options: read_options(&list.read), page_size, page_token };
        let response = app.client.call(request, async |channel, request| groups(channel).list(request).await).await?;
        let items = response.groups.into_iter().map(GroupView::from).collect();
        Ok(OnePage { revision: response.revision, items, next_token: response.next_page_token })
    })
    .await
}

async fn delete(name: &GroupName, write: WriteArgs, app: &App) -> Outcome {
    let request = v1::DeleteGroupRequest { name: name.to_string(), options: Some(write.into_wire()) };
    let response = app.client.call(request, async |channel, request| groups(channel).delete(request).await).await?;
    let line = format!("group {name} deleted at revision {}", response.revision);
    app.output.show_change(&Changed { revision: response.revision }, &line)?;
    Ok(Exit::Done)
}
