//! `AgentService`: the door to the sessions.

use rollcall_proto::v1;
use rollcall_proto::v1::agent_service_server::AgentService;
use tonic::{Request, Response, Status, Streaming};

use super::Answers;
use super::api::Api;
use crate::convert;
use crate::sessions::Sessions;

/// Sessions of agents.
pub struct Agents {
    /// For peers that are blank.
    pub api: Api,
    /// Where they are hosted.
    pub sessions: Sessions,
}

#[tonic::async_trait]
impl AgentService for Agents {
    type SessionStream = Answers<v1::PeerMessage>;

    async fn session(
        &self,
        request: Request<Streaming<v1::AgentMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        self.api.consensus()?;
        if self.api.stopping().is_cancelled() {
            return Err(convert::retry_later("stopping", "the peer is stopping; connect to another"));
        }
        let from = request.remote_addr().map(|addr| addr.to_string()).unwrap_or_default();
        let messages = self.sessions.host(from, request.into_inner())?;
        Ok(Response::new(Box::pin(messages)))
    }
}
