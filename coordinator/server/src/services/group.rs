//! `GroupService`.

use rollcall_ident::{GroupName, RolloutId};
use rollcall_proto::v1;
use rollcall_proto::v1::group_service_server::GroupService;
use rollcall_rollout::{Command, Rejection, State};
use tonic::{Request, Response, Status};

use super::api::{Api, Call};
use crate::convert;

/// BOUND: a page; a group with a thousand members takes some hundred kilobytes.
const PAGE: (usize, usize) = (50, 500);

/// Service groups.
pub struct Groups(pub Api);

#[tonic::async_trait]
impl GroupService for Groups {
    async fn apply(&self, request: Request<v1::ApplyGroupRequest>) -> Result<Response<v1::ApplyGroupResponse>, Status> {
        let call = Call::of(&request);
        let v1::ApplyGroupRequest { spec, options } = request.into_inner();
        let patch = convert::group_patch(spec)?;
        let name = patch.name.clone();
        let written = self.0.write(&call, options, Command::ApplyGroup { patch }).await?;
        // It may have been deleted since a first try that this one repeats.
        let group = written.view.state.groups().get(&name).map(|group| convert::group(&written.view.state, group));
        // A rollout has the revision that started it as its id.
        let started = written.view.state.rollouts().get(&RolloutId(written.revision.0));
        let started = started.filter(|rollout| rollout.group == name).map(|rollout| rollout.id.to_string());
        let started_rollout_id = started.unwrap_or_default();
        Ok(Response::new(v1::ApplyGroupResponse { revision: written.revision.0, group, started_rollout_id }))
    }

    async fn get(&self, request: Request<v1::GetGroupRequest>) -> Result<Response<v1::GetGroupResponse>, Status> {
        let call = Call::of(&request);
        let v1::GetGroupRequest { name, options } = request.into_inner();
        let name = convert::required("name", &name)?;
        let view = self.0.read(&call, options).await?;
        let group = find(&view.state, &name)?;
        Ok(Response::new(v1::GetGroupResponse { revision: view.revision.0, group: Some(group) }))
    }

    async fn list(&self, request: Request<v1::ListGroupsRequest>) -> Result<Response<v1::ListGroupsResponse>, Status> {
        let call = Call::of(&request);
        let v1::ListGroupsRequest { options, page_size, page_token } = request.into_inner();
        let size = convert::page_size(page_size, PAGE.0, PAGE.1);
        let after = convert::page_token::<GroupName>(&page_token)?;
        let view = self.0.read(&call, options).await?;
        let groups = view.state.groups();
        let behind = groups.values().filter(|group| after.as_ref().is_none_or(|after| group.name > *after));
        let (groups, next_page_token) =
            convert::page(behind, size, |group| group.name.to_string(), |group| convert::group(&view.state, group));
        Ok(Response::new(v1::ListGroupsResponse { revision: view.revision.0, groups, next_page_token }))
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteGroupRequest>,
    ) -> Result<Response<v1::DeleteGroupResponse>, Status> {
        let call = Call::of(&request);
        let v1::DeleteGroupRequest { name, options } = request.into_inner();
        let group = convert::required("name", &name)?;
        let written = self.0.write(&call, options, Command::DeleteGroup { group }).await?;
        Ok(Response::new(v1::DeleteGroupResponse { revision: written.revision.0 }))
    }
}

fn find(state: &State, name: &GroupName) -> Result<v1::Group, Status> {
    let group = state.groups().get(name).ok_or_else(|| convert::refused(&Rejection::UnknownGroup(name.clone())))?;
    Ok(convert::group(state, group))
}
