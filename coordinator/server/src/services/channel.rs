//! `ChannelService`.

use rollcall_ident::ReleaseIdent;
use rollcall_proto::v1;
use rollcall_proto::v1::channel_service_server::ChannelService;
use rollcall_rollout::{Command, Reply};
use tonic::{Request, Response, Status};

use super::api::{Api, Call};
use crate::convert;

/// Channels, and the releases that are kept out of rollouts.
pub struct Channels(pub Api);

#[tonic::async_trait]
impl ChannelService for Channels {
    async fn list(
        &self,
        request: Request<v1::ListChannelsRequest>,
    ) -> Result<Response<v1::ListChannelsResponse>, Status> {
        let call = Call::of(&request);
        let view = self.0.read(&call, request.into_inner().options).await?;
        let channels = view.state.channels().values().map(convert::channel).collect();
        Ok(Response::new(v1::ListChannelsResponse { revision: view.revision.0, channels }))
    }

    async fn create(
        &self,
        request: Request<v1::CreateChannelRequest>,
    ) -> Result<Response<v1::CreateChannelResponse>, Status> {
        let call = Call::of(&request);
        let v1::CreateChannelRequest { name, options } = request.into_inner();
        let channel = convert::required("name", &name)?;
        let written = self.0.write(&call, options, Command::CreateChannel { channel }).await?;
        Ok(Response::new(v1::CreateChannelResponse { revision: written.revision.0 }))
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteChannelRequest>,
    ) -> Result<Response<v1::DeleteChannelResponse>, Status> {
        let call = Call::of(&request);
        let v1::DeleteChannelRequest { name, options } = request.into_inner();
        let channel = convert::required("name", &name)?;
        let written = self.0.write(&call, options, Command::DeleteChannel { channel }).await?;
        Ok(Response::new(v1::DeleteChannelResponse { revision: written.revision.0 }))
    }

    async fn promote(&self, request: Request<v1::PromoteRequest>) -> Result<Response<v1::PromoteResponse>, Status> {
        let call = Call::of(&request);
        let v1::PromoteRequest { ident, channel, digest, options, more_idents } = request.into_inner();
        let first = (release_alone("ident", &ident)?, convert::optional("digest", &digest)?);
        let more = idents("more_idents", &more_idents)?.into_iter().map(|release| (release, None));
        let releases = [first].into_iter().chain(more).collect();
        let channel = convert::required("channel", &channel)?;
        let written = self.0.write(&call, options, Command::Promote { releases, channel }).await?;
        let started = match written.reply {
            Reply::Promoted(started) => started,
            other => return Err(unexpected(&other)),
        };
        Ok(Response::new(v1::PromoteResponse {
            revision: written.revision.0,
            started_rollout_ids: started.iter().map(ToString::to_string).collect(),
        }))
    }

    async fn demote(&self, request: Request<v1::DemoteRequest>) -> Result<Response<v1::DemoteResponse>, Status> {
        let call = Call::of(&request);
        let v1::DemoteRequest { ident, channel, options, more_idents } = request.into_inner();
        let mut releases = vec![convert::required("ident", &ident)?];
        releases.extend(idents("more_idents", &more_idents)?);
        let channel = convert::required("channel", &channel)?;
        let written = self.0.write(&call, options, Command::Demote { releases, channel }).await?;
        let stopped = match written.reply {
            Reply::Demoted(stopped) => stopped,
            other => return Err(unexpected(&other)),
        };
        Ok(Response::new(v1::DemoteResponse {
            revision: written.revision.0,
            stopped_rollout_ids: stopped.iter().map(ToString::to_string).collect(),
        }))
    }

    async fn list_quarantine(
        &self,
        request: Request<v1::ListQuarantineRequest>,
    ) -> Result<Response<v1::ListQuarantineResponse>, Status> {
        let call = Call::of(&request);
        let view = self.0.read(&call, request.into_inner().options).await?;
        let releases =
            view.state.quarantine().iter().map(|(release, quarantine)| convert::quarantined(release, quarantine));
        Ok(Response::new(v1::ListQuarantineResponse { revision: view.revision.0, releases: releases.collect() }))
    }

    async fn add_quarantine(
        &self,
        request: Request<v1::QuarantineRequest>,
    ) -> Result<Response<v1::QuarantineResponse>, Status> {
        self.quarantine(request, |release| Command::AddQuarantine { release }).await
    }

    async fn remove_quarantine(
        &self,
        request: Request<v1::QuarantineRequest>,
    ) -> Result<Response<v1::QuarantineResponse>, Status> {
        self.quarantine(request, |release| Command::RemoveQuarantine { release }).await
    }
}

impl Channels {
    async fn quarantine(
        &self,
        request: Request<v1::QuarantineRequest>,
        command: fn(ReleaseIdent) -> Command,
    ) -> Result<Response<v1::QuarantineResponse>, Status> {
        let call = Call::of(&request);
        let v1::QuarantineRequest { ident, options } = request.into_inner();
        let release = convert::required("ident", &ident)?;
        let written = self.0.write(&call, options, command(release)).await?;
        Ok(Response::new(v1::QuarantineResponse { revision: written.revision.0 }))
    }
}

fn idents(field: &str, texts: &[String]) -> Result<Vec<ReleaseIdent>, convert::FieldError> {
    texts.iter().map(|text| release_alone(field, text)).collect()
}

/// Channels hold releases; the configuration of a group that follows goes with them from there.
fn release_alone(field: &str, text: &str) -> Result<ReleaseIdent, convert::FieldError> {
    let ident: ReleaseIdent = convert::required(field, text)?;
    match ident.config() {
        Some(config) => Err(convert::FieldError::new(
            field,
            format!("{text:?} names a configuration; channels hold releases alone: leave @{config} out"),
        )),
        None => Ok(ident),
    }
}

/// A peer of a version that answers differently.
pub(super) fn unexpected(reply: &Reply) -> Status {
    Status::internal(format!("the log answers {reply:?}; are the peers of different versions?"))
}
