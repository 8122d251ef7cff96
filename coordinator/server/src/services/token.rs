//! `TokenService`.

use rollcall_proto::v1;
use rollcall_proto::v1::token_service_server::TokenService;
use rollcall_rollout::{Command, Event};
use tonic::{Request, Response, Status};

use super::api::{Api, Call, find_node};
use super::event::events_at;
use crate::convert;

/// Who may be down.
pub struct Tokens(pub Api);

#[tonic::async_trait]
impl TokenService for Tokens {
    async fn list(&self, request: Request<v1::ListTokensRequest>) -> Result<Response<v1::ListTokensResponse>, Status> {
        let call = Call::of(&request);
        let view = self.0.read(&call, request.into_inner().options).await?;
        let now = self.0.now(&self.0.consensus()?, &view);
        let state = &view.state;
        let tokens = state.tokens().iter().map(|(id, token)| convert::token(state, *id, token, now.cluster_time));
        Ok(Response::new(v1::ListTokensResponse {
            revision: view.revision.0,
            now: Some(convert::moment(now)),
            tokens: tokens.collect(),
        }))
    }

    async fn revoke(
        &self,
        request: Request<v1::RevokeTokenRequest>,
    ) -> Result<Response<v1::RevokeTokenResponse>, Status> {
        let call = Call::of(&request);
        let v1::RevokeTokenRequest { node, force, options } = request.into_inner();
        let view = self.0.read(&call, None).await?;
        let node = find_node(&view.state, &node)?.id;
        let written = self.0.write(&call, options, Command::RevokeToken { node, force }).await?;
        // Asked of the history: a retry finds the token gone, and its event under the first one's revision.
        let events = events_at(&self.0.consensus()?, written.revision, call.deadline).await;
        let rollout = events.iter().find_map(|event| match event {
            Event::TokenRevoked { rollout, .. } => Some(rollout.to_string()),
            _ => None,
        });
        Ok(Response::new(v1::RevokeTokenResponse {
            revision: written.revision.0,
            rollout_id: rollout.unwrap_or_default(),
        }))
    }
}
