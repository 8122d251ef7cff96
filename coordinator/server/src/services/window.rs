//! `WindowService`: when groups may be disturbed.

use rollcall_ident::GroupName;
use rollcall_proto::v1;
use rollcall_proto::v1::window_service_server::WindowService;
use rollcall_rollout::{Command, Group, Rejection, Reply, State};
use tonic::{Request, Response, Status};

use super::api::{Api, Call};
use super::channel::unexpected;
use crate::convert;
use crate::world::wall_clock;

/// BOUND: groups that one freeze names; whoever means more leaves the names out and means all.
const MAX_FROZEN_GROUPS: usize = 1_000;

/// Maintenance windows and change freezes.
pub struct Windows(pub Api);

#[tonic::async_trait]
impl WindowService for Windows {
    async fn list(
        &self,
        request: Request<v1::ListWindowsRequest>,
    ) -> Result<Response<v1::ListWindowsResponse>, Status> {
        let call = Call::of(&request);
        let v1::ListWindowsRequest { group, options } = request.into_inner();
        let group = convert::optional::<GroupName>("group", &group)?;
        let view = self.0.read(&call, options).await?;
        let (state, now) = (&view.state, wall_clock());
        let groups = wanted(state, group.as_ref())?;
        let groups = groups.into_iter().map(|group| convert::group_windows(state, group, now)).collect();
        Ok(Response::new(v1::ListWindowsResponse { revision: view.revision.0, groups }))
    }

    async fn add(&self, request: Request<v1::AddWindowRequest>) -> Result<Response<v1::AddWindowResponse>, Status> {
        let call = Call::of(&request);
        let v1::AddWindowRequest { group, window, options } = request.into_inner();
        let group = convert::required("group", &group)?;
        let window = window.ok_or_else(|| convert::FieldError::new("window", "is missing"))?;
        let window = convert::window(window)?;
        let written = self.0.write(&call, options, Command::AddWindow { group, window }).await?;
        match written.reply {
            Reply::WindowAdded(id) => {
                Ok(Response::new(v1::AddWindowResponse { revision: written.revision.0, window_id: id.to_string() }))
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveWindowRequest>,
    ) -> Result<Response<v1::RemoveWindowResponse>, Status> {
        let call = Call::of(&request);
        let v1::RemoveWindowRequest { group, window_id, options } = request.into_inner();
        let command = Command::RemoveWindow {
            group: convert::required("group", &group)?,
            window: convert::required("window_id", &window_id)?,
        };
        let written = self.0.write(&call, options, command).await?;
        Ok(Response::new(v1::RemoveWindowResponse { revision: written.revision.0 }))
    }

    async fn list_freezes(
        &self,
        request: Request<v1::ListFreezesRequest>,
    ) -> Result<Response<v1::ListFreezesResponse>, Status> {
        let call = Call::of(&request);
        let view = self.0.read(&call, request.into_inner().options).await?;
        let freezes = view.state.freezes().values().map(convert::freeze).collect();
        Ok(Response::new(v1::ListFreezesResponse { revision: view.revision.0, freezes }))
    }

    async fn create_freeze(
        &self,
        request: Request<v1::CreateFreezeRequest>,
    ) -> Result<Response<v1::CreateFreezeResponse>, Status> {
        let call = Call::of(&request);
        let v1::CreateFreezeRequest { groups, from, until, options } = request.into_inner();
        if groups.len() > MAX_FROZEN_GROUPS {
            let problem = format!("names {} groups; at most {MAX_FROZEN_GROUPS}, and none means all", groups.len());
            return Err(convert::FieldError::new("groups", problem).into());
        }
        let command = Command::CreateFreeze {
            groups: groups.iter().map(|group| convert::required("groups", group)).collect::<Result<_, _>>()?,
            from: convert::wall_time("from", from)?,
            until: convert::wall_time("until", until)?,
        };
        let written = self.0.write(&call, options, command).await?;
        match written.reply {
            Reply::FreezeCreated(id) => {
                Ok(Response::new(v1::CreateFreezeResponse { revision: written.revision.0, freeze_id: id.to_string() }))
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn lift_freeze(
        &self,
        request: Request<v1::LiftFreezeRequest>,
    ) -> Result<Response<v1::LiftFreezeResponse>, Status> {
        let call = Call::of(&request);
        let v1::LiftFreezeRequest { freeze_id, options } = request.into_inner();
        let freeze = convert::required("freeze_id", &freeze_id)?;
        let written = self.0.write(&call, options, Command::LiftFreeze { freeze }).await?;
        Ok(Response::new(v1::LiftFreezeResponse { revision: written.revision.0 }))
    }
}

/// The group that is asked for, or all that have windows.
fn wanted<'a>(state: &'a State, group: Option<&GroupName>) -> Result<Vec<&'a Group>, Status> {
    match group {
        None => Ok(state.groups().values().filter(|group| !group.windows.is_empty()).collect()),
        Some(name) => match state.groups().get(name) {
            Some(group) => Ok(vec![group]),
            None => Err(convert::refused(&Rejection::UnknownGroup(name.clone()))),
        },
    }
}
