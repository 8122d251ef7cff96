//! What an operator does with peers: add one, remove one, hand leadership over.

use std::time::Duration;

use rollcall_proto::v1;
use rollcall_proto::v1::cluster_service_client::ClusterServiceClient;
use tonic::Status;

use crate::hosts::door::{Door, within};

/// BOUND: a new peer has to catch up before it votes.
const CARES_FOR: Duration = Duration::from_secs(15);

/// Takes a peer out; asks the one behind `door`.
pub async fn remove_peer(door: &Door, peer_id: u64) -> Result<Vec<v1::Peer>, Status> {
    let request = v1::RemovePeerRequest { peer_id, options: None };
    let answer = ClusterServiceClient::new(door.channel.clone()).remove_peer(within(CARES_FOR, request)).await?;
    Ok(answer.into_inner().peers)
}

/// Takes a blank peer in.
pub async fn add_peer(door: &Door, address: &str) -> Result<u64, Status> {
    let request = v1::AddPeerRequest { address: address.to_owned(), options: None };
    let answer = ClusterServiceClient::new(door.channel.clone()).add_peer(within(CARES_FOR, request)).await?;
    Ok(answer.into_inner().peer_id)
}

/// Hands leadership over; who leads afterwards.
pub async fn transfer_leader(door: &Door, peer_id: u64) -> Result<u64, Status> {
    let request = v1::TransferLeaderRequest { peer_id };
    let answer = ClusterServiceClient::new(door.channel.clone()).transfer_leader(within(CARES_FOR, request)).await?;
    Ok(answer.into_inner().leader_peer_id)
}

/// How the cluster stands, with everything that was acknowledged.
pub async fn status(door: &Door, stale: bool) -> Result<v1::ClusterStatusResponse, Status> {
    let request = v1::ClusterStatusRequest { options: Some(v1::ReadOptions { stale }) };
    let time = Duration::from_secs(2);
    Ok(ClusterServiceClient::new(door.channel.clone()).status(within(time, request)).await?.into_inner())
}
