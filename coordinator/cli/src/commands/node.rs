//! `rollcall node`: the machines that run the agent.

use clap::Subcommand;
use rollcall_ident::GroupName;
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{ListArgs, ReadArgs, WriteArgs};
use crate::client::{nodes, read_options};
use crate::commands::pages::{OnePage, all_pages};
use crate::failure::{Exit, Failure, Outcome};
use crate::view::{At, Changed, NodeView};

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
}

/// Runs a command of this family.
pub async fn run(command: NodeCommand, app: &App) -> Outcome {
    match command {
        NodeCommand::List { group, list } => show_all(group.as_ref(), &list, app).await,
        NodeCommand::Get { node, read } => get(node, &read, app).await,
        NodeCommand::Remove { node, force, write } => remove(node, force, write, app).await,
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

async fn remove(node: String, force: bool, write: WriteArgs, app: &App) -> Outcome {
    let request = v1::RemoveNodeRequest { node: node.clone(), force, options: Some(write.into_wire()) };
    let response = app.client.call(request, async |channel, request| nodes(channel).remove(request).await).await?;
    let line = format!("node {node} removed at revision {}", response.revision);
    app.output.show_change(&Changed { revision: response.revision }, &line)?;
    Ok(Exit::Done)
}
