//! `rollcall node`: the machines that run the agent.

use clap::{Subcommand, ValueEnum};
use rollcall_ident::GroupName;
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{ListArgs, ReadArgs, WriteArgs};
use crate::client::{nodes, read_options};
use crate::commands::pages::{OnePage, all_pages};
use crate::failure::{Exit, Failure, Outcome};
use crate::view::{At, Changed, NodeView};
use crate::when::When;

/// What can be done to nodes.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Show all nodes and what runs on them
    #[command(after_help = "Example:\n  rollcall node list --group redis.default")]
    List {
        /// Only members of this group
        #[arg(long, value_name = "GROUP")]
        group: Option<GroupName>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show one node
    #[command(after_help = "Example:\n  rollcall node get redis-1")]
    Get {
        /// Its name or id
        #[arg(value_name = "NODE")]
        node: String,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Take a node that is gone out of the registry: the only way it leaves
    #[command(after_help = "Example:\n  rollcall node remove redis-7 --reason 'hardware returned'")]
    Remove {
        /// Its name or id
        #[arg(value_name = "NODE")]
        node: String,
        /// Also while it holds a token past its commit point: its service may come up once more
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Let a new machine take the place of one that is gone for good, under its name or in its place of the inventory
    #[command(after_help = "\
Examples:
  rollcall node replace redis-3 5f0c1d2e-8a6b-4c3d-9e1f-0a2b4c6d8e0f --reason 'new disk'
  rollcall node replace redis-3 redis-7")]
    Replace {
        /// Name or id of the one that is gone
        #[arg(value_name = "OLD")]
        old: String,
        /// Name or id of the new one; its id where it hasn't joined yet, as its agent logs it when it is refused
        #[arg(value_name = "NEW")]
        new: String,
        /// Also while the old one holds a token past its commit point: its service may come up once more
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Keep a node from being updated, from its next step on; it uses its groups' budget meanwhile
    #[command(after_help = "\
Examples:
  rollcall node hold redis-3 --reason 'memory is being replaced'
  rollcall node hold redis-3 --until 2h")]
    Hold {
        /// Its name or id
        #[arg(value_name = "NODE")]
        node: String,
        /// Release it by itself then: 2026-12-01T02:00:00Z, or a duration from now like 2h [default: never]
        #[arg(long, value_name = "T")]
        until: Option<When>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Let a held node be updated again
    #[command(after_help = "Example:\n  rollcall node release redis-3")]
    Release {
        /// Its name or id
        #[arg(value_name = "NODE")]
        node: String,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Say how a node's services are, whatever their health checks say
    #[command(after_help = "\
Examples:
  rollcall node set-health redis-3 unhealthy --reason 'answers, but with old data'
  rollcall node set-health redis-3 auto")]
    SetHealth {
        /// Its name or id
        #[arg(value_name = "NODE")]
        node: String,
        /// How they are
        #[arg(value_name = "healthy|unhealthy|auto", hide_possible_values = true)]
        health: Word,
        #[command(flatten)]
        write: WriteArgs,
    },
}

/// An operator's word on health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Word {
    /// They are healthy.
    Healthy,
    /// They aren't.
    Unhealthy,
    /// What the health checks say.
    Auto,
}

impl Word {
    fn as_wire(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Auto => "auto",
        }
    }
}

/// Runs a command of this family.
pub async fn run(command: NodeCommand, app: &App) -> Outcome {
    match command {
        NodeCommand::List { group, list } => show_all(group.as_ref(), &list, app).await,
        NodeCommand::Get { node, read } => get(node, &read, app).await,
        NodeCommand::Remove { node, force, write } => remove(node, force, write, app).await,
        NodeCommand::Replace { old, new, force, write } => replace(old, new, force, write, app).await,
        NodeCommand::Hold { node, until, write } => hold(node, until, write, app).await,
        NodeCommand::Release { node, write } => release(node, write, app).await,
        NodeCommand::SetHealth { node, health, write } => set_health(node, health, write, app).await,
    }
}

async fn show_all(group: Option<&GroupName>, list: &ListArgs, app: &App) -> Outcome {
    let group = group.map(ToString::to_string).unwrap_or_default();
    let all = all_pages(list.limit, async |page_size, page_token| {
        let options = read_options(&list.read);
        let request = v1::ListNodesRequest { group: group.clone(), options, page_size, page_token };
        let response = app.client.call(request, async |channel, request| nodes(channel).list(request).await).await?;
        let items = response.nodes.into_iter().map(NodeView::from).collect();
        Ok(OnePage { revision: response.revision, items, next_token: response.next_page_token })
    });
    app.output.show(&all.await?)?;
    Ok(Exit::Done)
}

async fn get(node: String, read: &ReadArgs, app: &App) -> Outcome {
    let request = v1::GetNodeRequest { node, options: read_options(read) };
    let response = app.client.call(request, async |channel, request| nodes(channel).get(request).await).await?;
    let node = response.node.ok_or_else(|| Failure::incomplete_answer("the node"))?;
    app.output.show(&At { revision: response.revision, item: NodeView::from(node) })?;
    Ok(Exit::Done)
}

async fn replace(old: String, new: String, force: bool, write: WriteArgs, app: &App) -> Outcome {
    let line = format!("node {old} replaced by {new}");
    let request = v1::ReplaceNodeRequest { old, new, force, options: Some(write.into_wire()) };
    let response = app.client.call(request, async |channel, request| nodes(channel).replace(request).await).await?;
    app.output
        .show_change(&Changed { revision: response.revision }, &format!("{line} at revision {}", response.revision))?;
    Ok(Exit::Done)
}

async fn remove(node: String, force: bool, write: WriteArgs, app: &App) -> Outcome {
    let request = v1::RemoveNodeRequest { node: node.clone(), force, options: Some(write.into_wire()) };
    let response = app.client.call(request, async |channel, request| nodes(channel).remove(request).await).await?;
    let line = format!("node {node} removed at revision {}", response.revision);
    app.output.show_change(&Changed { revision: response.revision }, &line)?;
    Ok(Exit::Done)
}

async fn hold(node: String, until: Option<When>, write: WriteArgs, app: &App) -> Outcome {
    let request = v1::HoldNodeRequest { node, until: until.map(When::into_wire), options: Some(write.into_wire()) };
    let response = app.client.call(request, async |channel, request| nodes(channel).hold(request).await).await?;
    let until = until.map_or("it is released".to_owned(), When::in_words);
    show_changed(response, &format!("is held until {until}"), app)
}

async fn release(node: String, write: WriteArgs, app: &App) -> Outcome {
    let request = v1::ReleaseNodeRequest { node, options: Some(write.into_wire()) };
    let response = app.client.call(request, async |channel, request| nodes(channel).release(request).await).await?;
    show_changed(response, "is released", app)
}

async fn set_health(node: String, health: Word, write: WriteArgs, app: &App) -> Outcome {
    let request = v1::SetHealthRequest { node, health: health.as_wire().to_owned(), options: Some(write.into_wire()) };
    let response = app.client.call(request, async |channel, request| nodes(channel).set_health(request).await).await?;
    let done = match health {
        Word::Auto => "is as its health checks say".to_owned(),
        word => format!("is {} whatever its health checks say", word.as_wire()),
    };
    show_changed(response, &done, app)
}

fn show_changed(response: v1::NodeVerbResponse, done: &str, app: &App) -> Outcome {
    let node = response.node.ok_or_else(|| Failure::incomplete_answer("the node"))?;
    let view = At { revision: response.revision, item: NodeView::from(node) };
    app.output.show_change(&view, &format!("node {} {done}, at revision {}", view.item.name, view.revision))?;
    Ok(Exit::Done)
}
