//! `NodeService`.

use rollcall_ident::{GroupName, NodeId, NodeName, RequestId};
use rollcall_proto::v1;
use rollcall_proto::v1::node_service_server::NodeService;
use rollcall_rollout::{Command, State};
use tonic::{Request, Response, Status};

use super::api::{Api, Call, find_node};
use crate::convert;

/// BOUND: a page; a node takes about a kilobyte.
const PAGE: (usize, usize) = (200, 1_000);

/// The registry of nodes.
pub struct Nodes(pub Api);

type Verb = Result<Response<v1::NodeVerbResponse>, Status>;

#[tonic::async_trait]
impl NodeService for Nodes {
    async fn list(&self, request: Request<v1::ListNodesRequest>) -> Result<Response<v1::ListNodesResponse>, Status> {
        let call = Call::of(&request);
        let v1::ListNodesRequest { group, options, page_size, page_token } = request.into_inner();
        let group = convert::optional::<GroupName>("group", &group)?;
        let size = convert::page_size(page_size, PAGE.0, PAGE.1);
        let after = convert::page_token::<NodeName>(&page_token)?;
        let view = self.0.read(&call, options).await?;
        let behind = view
            .state
            .nodes_by_name(after.as_ref())
            .filter(|node| group.as_ref().is_none_or(|group| node.services.contains_key(group)));
        let (nodes, next_page_token) =
            convert::page(behind, size, |node| node.name.to_string(), |node| convert::node(&view.state, node));
        Ok(Response::new(v1::ListNodesResponse { revision: view.revision.0, nodes, next_page_token }))
    }

    async fn get(&self, request: Request<v1::GetNodeRequest>) -> Result<Response<v1::GetNodeResponse>, Status> {
        let call = Call::of(&request);
        let v1::GetNodeRequest { node, options } = request.into_inner();
        let view = self.0.read(&call, options).await?;
        let node = convert::node(&view.state, find_node(&view.state, &node)?);
        Ok(Response::new(v1::GetNodeResponse { revision: view.revision.0, node: Some(node) }))
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveNodeRequest>,
    ) -> Result<Response<v1::RemoveNodeResponse>, Status> {
        let call = Call::of(&request);
        let v1::RemoveNodeRequest { node, force, options } = request.into_inner();
        let request_id = options.as_ref().map_or("", |options| &options.request_id);
        let request_id = convert::optional::<RequestId>("request_id", request_id)?;
        let view = self.0.read(&call, None).await?;
        let node = match removed_before(&view.state, request_id.as_ref()) {
            Some(node) => node,
            None => find_node(&view.state, &node)?.id,
        };
        let written = self.0.write(&call, options, Command::RemoveNode { node, force }).await?;
        Ok(Response::new(v1::RemoveNodeResponse { revision: written.revision.0 }))
    }

    async fn replace(
        &self,
        request: Request<v1::ReplaceNodeRequest>,
    ) -> Result<Response<v1::ReplaceNodeResponse>, Status> {
        let call = Call::of(&request);
        let v1::ReplaceNodeRequest { old, new, force, options } = request.into_inner();
        let request_id = options.as_ref().map_or("", |options| &options.request_id);
        let request_id = convert::optional::<RequestId>("request_id", request_id)?;
        let view = self.0.read(&call, None).await?;
        let old = match removed_before(&view.state, request_id.as_ref()) {
            Some(node) => node,
            None => find_node(&view.state, &old)?.id,
        };
        // It may not have joined yet: then only its id leads to it.
        let new = match find_node(&view.state, &new) {
            Ok(node) => node.id,
            Err(unknown) => new.parse().map_err(|_| unknown)?,
        };
        let written = self.0.write(&call, options, Command::ReplaceNode { old, new, force }).await?;
        Ok(Response::new(v1::ReplaceNodeResponse { revision: written.revision.0 }))
    }

    async fn hold(&self, request: Request<v1::HoldNodeRequest>) -> Verb {
        let call = Call::of(&request);
        let v1::HoldNodeRequest { node, until, options } = request.into_inner();
        let until = convert::wall_time("until", until)?;
        self.tell(&call, &node, options, |node| Command::HoldNode { node, until }).await
    }

    async fn release(&self, request: Request<v1::ReleaseNodeRequest>) -> Verb {
        let call = Call::of(&request);
        let v1::ReleaseNodeRequest { node, options } = request.into_inner();
        self.tell(&call, &node, options, |node| Command::ReleaseNode { node }).await
    }

    async fn set_health(&self, request: Request<v1::SetHealthRequest>) -> Verb {
        let call = Call::of(&request);
        let v1::SetHealthRequest { node, health, options } = request.into_inner();
        let is_healthy = match health.as_str() {
            "healthy" => Some(true),
            "unhealthy" => Some(false),
            "auto" => None,
            other => {
                let problem = format!("{other:?} is none of healthy, unhealthy, auto");
                return Err(convert::FieldError::new("health", problem).into());
            }
        };
        self.tell(&call, &node, options, |node| Command::SetHealth { node, is_healthy }).await
    }
}

impl Nodes {
    /// Says something of a node, and shows it as it is then.
    async fn tell(
        &self,
        call: &Call,
        node: &str,
        options: Option<v1::WriteOptions>,
        command: impl FnOnce(NodeId) -> Command,
    ) -> Verb {
        let view = self.0.read(call, None).await?;
        let id = find_node(&view.state, node)?.id;
        let written = self.0.write(call, options, command(id)).await?;
        // It may have been removed since a first try that this one repeats.
        let node = written.view.state.nodes().get(&id).map(|node| convert::node(&written.view.state, node));
        Ok(Response::new(v1::NodeVerbResponse { revision: written.revision.0, node }))
    }
}

/// The node that a first try of the same request removed: its name leads nowhere any more.
fn removed_before(state: &State, id: Option<&RequestId>) -> Option<NodeId> {
    match state.requested(id?)? {
        Command::RemoveNode { node, .. } | Command::ReplaceNode { old: node, .. } => Some(*node),
        _ => None,
    }
}
