//! `TokenService`.

use rollcall_proto::v1;
use rollcall_proto::v1::token_service_server::TokenService;
use tonic::{Request, Response, Status};

use super::api::{Api, Call};
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
}
