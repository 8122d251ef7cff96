//! `ClusterService`: care of the peers.

use rollcall_ident::PeerId;
use rollcall_proto::v1;
use rollcall_proto::v1::cluster_service_server::ClusterService;
use tonic::{Request, Response, Status};

use super::api::{Api, Call};
use super::serving::serves;
use super::{Answers, snapshot_stream};
use crate::convert;
use crate::doctor;
use crate::raft::{Consensus, MemberStatus};

/// The peers.
pub struct Clusters(pub Api);

#[tonic::async_trait]
impl ClusterService for Clusters {
    async fn init(
        &self,
        request: Request<v1::InitClusterRequest>,
    ) -> Result<Response<v1::InitClusterResponse>, Status> {
        let call = Call::of(&request);
        let v1::InitClusterRequest { peers, options } = request.into_inner();
        let origin = Api::origin(&call, options)?;
        let peer = self.0.peer().clone();
        // It goes on when the caller has gone: half a cluster helps nobody.
        let made = tokio::spawn(async move { peer.init_cluster(&peers, origin).await });
        let made = made.await.map_err(|error| Status::internal(error.to_string()))?;
        let cluster_id = made.map_err(|error| convert::not_changed(&error))?;
        let consensus = self.0.consensus()?;
        let members = consensus.members().await;
        Ok(Response::new(v1::InitClusterResponse {
            cluster_id: cluster_id.to_string(),
            peers: peers_of(&members, &consensus),
        }))
    }

    async fn status(
        &self,
        request: Request<v1::ClusterStatusRequest>,
    ) -> Result<Response<v1::ClusterStatusResponse>, Status> {
        let stale = request.into_inner().options.is_some_and(|options| options.stale);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let Some(consensus) = self.0.peer().consensus() else {
            let blank = v1::Peer { address: self.0.peer().address().to_owned(), ..v1::Peer::default() };
            return Ok(Response::new(v1::ClusterStatusResponse {
                condition: "uninitialized".to_owned(),
                peers: vec![blank],
                quorum_margin: -1,
                version,
                ..v1::ClusterStatusResponse::default()
            }));
        };
        let leadership = *consensus.leadership().borrow();
        let (members, has_leader) = if stale {
            (consensus.members_here(), leadership.is_some())
        } else {
            tokio::join!(consensus.members(), serves(&consensus))
        };
        let view = consensus.state();
        let raft = consensus.status();
        Ok(Response::new(v1::ClusterStatusResponse {
            condition: if has_leader { "serving" } else { "no_leader" }.to_owned(),
            cluster_id: consensus.cluster_id().to_string(),
            revision: view.revision.0,
            now: Some(convert::moment(self.0.now(&consensus, &view))),
            feature_level: view.state.feature_level(),
            leader_peer_id: leadership.filter(|_| has_leader).map_or(0, |leadership| leadership.peer.0),
            answering_peer_id: consensus.peer_id().0,
            quorum_margin: convert::quorum_margin(&members),
            peers: peers_of(&members, &consensus),
            version,
            snapshot_revision: raft.snapshot.0,
            log_entries: raft.log_entries,
        }))
    }

    async fn add_peer(&self, request: Request<v1::AddPeerRequest>) -> Result<Response<v1::AddPeerResponse>, Status> {
        let call = Call::of(&request);
        let v1::AddPeerRequest { address, options } = request.into_inner();
        let origin = Api::origin(&call, options)?;
        let consensus = self.0.consensus()?;
        let adding = consensus.clone();
        let added = tokio::spawn(async move { adding.add_peer(&address, origin).await });
        let added = added.await.map_err(|error| Status::internal(error.to_string()))?;
        let PeerId(peer_id) = added.map_err(|error| convert::not_changed(&error))?;
        Ok(Response::new(v1::AddPeerResponse { peer_id, peers: peers_of(&consensus.members().await, &consensus) }))
    }

    async fn remove_peer(
        &self,
        request: Request<v1::RemovePeerRequest>,
    ) -> Result<Response<v1::RemovePeerResponse>, Status> {
        let call = Call::of(&request);
        let v1::RemovePeerRequest { peer_id, options } = request.into_inner();
        let origin = Api::origin(&call, options)?;
        let consensus = self.0.consensus()?;
        let removing = consensus.clone();
        let removed = tokio::spawn(async move { removing.remove_peer(PeerId(peer_id), origin).await });
        let removed = removed.await.map_err(|error| Status::internal(error.to_string()))?;
        removed.map_err(|error| convert::not_changed(&error))?;
        Ok(Response::new(v1::RemovePeerResponse { peers: peers_of(&consensus.members().await, &consensus) }))
    }

    async fn transfer_leader(
        &self,
        request: Request<v1::TransferLeaderRequest>,
    ) -> Result<Response<v1::TransferLeaderResponse>, Status> {
        let call = Call::of(&request);
        let to = PeerId(request.into_inner().peer_id);
        let consensus = self.0.consensus()?;
        consensus.transfer_leader(to).await.map_err(|error| convert::not_changed(&error))?;
        let leader_peer_id = seen_leading(&consensus, to, &call).await;
        Ok(Response::new(v1::TransferLeaderResponse { leader_peer_id }))
    }

    type SaveSnapshotStream = Answers<v1::SaveSnapshotResponse>;

    async fn save_snapshot(
        &self,
        request: Request<v1::SaveSnapshotRequest>,
    ) -> Result<Response<Self::SaveSnapshotStream>, Status> {
        let call = Call::of(&request);
        // What was acknowledged before the call is in it.
        self.0.read(&call, request.into_inner().options).await?;
        let consensus = self.0.consensus()?;
        let turn = consensus.export_turn().map_err(|error| convert::not_exported(&error))?;
        let (cluster, me) = (consensus.cluster_id().to_string(), consensus.peer_id().0);
        Ok(Response::new(Box::pin(snapshot_stream::stream(self.0.clone(), cluster, me, turn))))
    }

    async fn doctor(&self, request: Request<v1::DoctorRequest>) -> Result<Response<v1::DoctorResponse>, Status> {
        let stale = request.into_inner().options.is_some_and(|options| options.stale);
        let examined = doctor::examine(&self.0.consensus()?, self.0.clock(), stale).await;
        let diagnosis = examined.map_err(|error| Status::internal(format!("looking at the state failed: {error}")))?;
        Ok(Response::new(convert::diagnosis(diagnosis)))
    }
}

/// Who leads once this peer sees the new leader too; 0 where it doesn't by the deadline.
async fn seen_leading(consensus: &Consensus, to: PeerId, call: &Call) -> u64 {
    let mut leadership = consensus.leadership();
    let seen = leadership.wait_for(|now| now.is_some_and(|now| now.peer == to));
    match tokio::time::timeout_at(call.deadline, seen).await {
        Ok(Ok(now)) => now.map_or(0, |now| now.peer.0),
        _ => 0,
    }
}

fn peers_of(members: &[MemberStatus], consensus: &Consensus) -> Vec<v1::Peer> {
    let state = consensus.state().state;
    members.iter().map(|member| convert::peer(member, &state)).collect()
}
