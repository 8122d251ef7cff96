//! Peers. Each has a runtime of its own, so that it can be killed like a process: its tasks are dropped where they are.

use std::path::PathBuf;

use rollcall_coordinator::app::{App, AppError};
use rollcall_coordinator::config::Config;
use rollcall_coordinator::raft::{StartError, Tuning};
use rollcall_coordinator::storage::StorageError;
use rollcall_proto::v1;
use rollcall_proto::v1::channel_service_client::ChannelServiceClient;
use rollcall_proto::v1::cluster_service_client::ClusterServiceClient;
use rollcall_proto::v1::event_service_client::EventServiceClient;
use rollcall_proto::v1::group_service_client::GroupServiceClient;
use rollcall_proto::v1::node_service_client::NodeServiceClient;
use rollcall_proto::v1::rollout_service_client::RolloutServiceClient;
use rollcall_proto::v1::token_service_client::TokenServiceClient;
use rollcall_proto::v1::window_service_client::WindowServiceClient;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use super::eventually;

pub struct TestPeer {
    pub address: String,
    pub http: String,
    pub dir: PathBuf,
    running: Option<(Runtime, App)>,
}

impl TestPeer {
    /// Waits for a predecessor that was killed to let go of address and folder, as the system does at once for a process.
    pub async fn start(dir: PathBuf, grpc: &str) -> Self {
        Self::start_tuned(dir, grpc, Tuning::default()).await
    }

    /// The same with other numbers than the default's.
    pub async fn start_tuned(dir: PathBuf, grpc: &str, tuning: Tuning) -> Self {
        let started = eventually("address and folder are free", || async {
            match Self::try_start(dir.clone(), grpc, tuning).await {
                Ok(peer) => Some(peer),
                Err(AppError::Listen { .. } | AppError::Start(StartError::Storage(StorageError::Locked { .. }))) => {
                    None
                }
                Err(error) => panic!("{error}"),
            }
        });
        started.await
    }

    async fn try_start(dir: PathBuf, grpc: &str, tuning: Tuning) -> Result<Self, AppError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let config = Config {
            machine_id: String::new(),
            data_dir: dir.clone(),
            grpc: grpc.to_owned(),
            advertise: None,
            http: "127.0.0.1:0".to_owned(),
            tuning,
        };
        let app = match runtime.spawn(App::start(config)).await.unwrap() {
            Ok(app) => app,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let (address, http) = (app.grpc().to_string(), app.http().unwrap().to_string());
        Ok(Self { address, http, dir, running: Some((runtime, app)) })
    }

    /// Like SIGKILL: nothing is said to anybody.
    pub fn kill(&mut self) {
        if let Some((runtime, app)) = self.running.take() {
            runtime.shutdown_background();
            drop(app);
        }
    }

    pub async fn stop(&mut self) {
        if let Some((runtime, app)) = self.running.take() {
            runtime.spawn(app.stop()).await.unwrap();
            runtime.shutdown_background();
        }
    }

    pub fn peer_id(&self) -> u64 {
        self.running.as_ref().unwrap().1.peer().consensus().unwrap().peer_id().0
    }

    pub async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    pub async fn clusters(&self) -> ClusterServiceClient<Channel> {
        ClusterServiceClient::new(self.channel().await)
    }

    pub async fn groups(&self) -> GroupServiceClient<Channel> {
        GroupServiceClient::new(self.channel().await)
    }

    pub async fn rollouts(&self) -> RolloutServiceClient<Channel> {
        RolloutServiceClient::new(self.channel().await)
    }

    pub async fn nodes(&self) -> NodeServiceClient<Channel> {
        NodeServiceClient::new(self.channel().await)
    }

    pub async fn tokens(&self) -> TokenServiceClient<Channel> {
        TokenServiceClient::new(self.channel().await)
    }

    pub async fn channels(&self) -> ChannelServiceClient<Channel> {
        ChannelServiceClient::new(self.channel().await)
    }

    pub async fn events(&self) -> EventServiceClient<Channel> {
        EventServiceClient::new(self.channel().await)
    }

    pub async fn windows(&self) -> WindowServiceClient<Channel> {
        WindowServiceClient::new(self.channel().await)
    }

    pub async fn node(&self, name: &str) -> v1::Node {
        let request = v1::GetNodeRequest { node: name.to_owned(), options: None };
        self.nodes().await.get(request).await.unwrap().into_inner().node.unwrap()
    }

    pub async fn group(&self, name: &str) -> v1::Group {
        let request = v1::GetGroupRequest { name: name.to_owned(), options: None };
        self.groups().await.get(request).await.unwrap().into_inner().group.unwrap()
    }

    pub async fn rollout(&self, id: &str) -> v1::Rollout {
        let request = v1::GetRolloutRequest { rollout_id: id.to_owned(), ..Default::default() };
        self.rollouts().await.get(request).await.unwrap().into_inner().rollout.unwrap()
    }

    pub async fn status(&self) -> v1::ClusterStatusResponse {
        self.clusters().await.status(v1::ClusterStatusRequest::default()).await.unwrap().into_inner()
    }
}

impl Drop for TestPeer {
    fn drop(&mut self) {
        self.kill();
    }
}

pub struct Cluster {
    pub peers: Vec<TestPeer>,
    dir: TempDir,
}

impl Cluster {
    /// Blank peers.
    pub async fn blank(count: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut peers = Vec::new();
        for i in 0..count {
            peers.push(TestPeer::start(dir.path().join(i.to_string()), "127.0.0.1:0").await);
        }
        Self { peers, dir }
    }

    /// Peers that are a cluster.
    pub async fn of(count: usize) -> Self {
        let cluster = Self::blank(count).await;
        let peers = cluster.addresses()[1..].to_vec();
        cluster.peers[0].clusters().await.init(v1::InitClusterRequest { peers, options: None }).await.unwrap();
        for peer in &cluster.peers {
            eventually("every peer sees the leader", || async {
                (peer.status().await.condition == "serving").then_some(())
            })
            .await;
        }
        cluster.settled().await;
        cluster
    }

    /// Waits until the peers have said to the log all that they say by themselves: from then on only others write.
    async fn settled(&self) {
        eventually("the log knows where the peers run, and how they do", || async {
            let list = v1::ListEventsRequest::default();
            let events = self.peers[0].events().await.list(list).await.unwrap().into_inner().events;
            let count = |kind: &str, end: &str| {
                events.iter().filter(|event| event.kind == kind && event.message.ends_with(end)).count()
            };
            let said = (count("peer_described", ""), count("peer_standing_changed", "is caught up"));
            (said == (self.peers.len(), self.peers.len())).then_some(())
        })
        .await;
    }

    pub fn addresses(&self) -> Vec<String> {
        self.peers.iter().map(|peer| peer.address.clone()).collect()
    }

    /// The index of the peer that leads, as a peer that lives sees it.
    pub async fn leader(&self) -> usize {
        let alive: Vec<&TestPeer> = self.peers.iter().filter(|peer| peer.running.is_some()).collect();
        let id = eventually("a leader among those that live", || async {
            let id = alive[0].status().await.leader_peer_id;
            alive.iter().any(|peer| peer.peer_id() == id).then_some(id)
        });
        let id = id.await;
        self.peers.iter().position(|peer| peer.running.is_some() && peer.peer_id() == id).unwrap()
    }

    /// A cluster of one peer that keeps the events of `history_revisions`.
    pub async fn that_keeps(history_revisions: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tuning = Tuning { history_revisions, ..Tuning::default() };
        let peer = TestPeer::start_tuned(dir.path().join("0"), "127.0.0.1:0", tuning).await;
        peer.clusters().await.init(v1::InitClusterRequest::default()).await.unwrap();
        Self { peers: vec![peer], dir }
    }

    /// A peer that doesn't lead, and the third: what is said to the one is read from the other.
    pub async fn teller_and_reader(&self) -> (&TestPeer, &TestPeer) {
        let leader = self.leader().await;
        (&self.peers[(leader + 1) % 3], &self.peers[(leader + 2) % 3])
    }

    /// Starts a peer again on its data and its address.
    pub async fn restart(&mut self, index: usize) {
        let (dir, address) = (self.peers[index].dir.clone(), self.peers[index].address.clone());
        self.peers[index].kill();
        self.peers[index] = TestPeer::start(dir, &address).await;
    }
}

/// A group of `acme/web` whose soak is short.
pub fn spec(name: &str) -> v1::GroupSpec {
    v1::GroupSpec {
        name: name.to_owned(),
        package: Some("acme/web".to_owned()),
        policy: Some(v1::Policy { min_healthy_time_ms: Some(100), ..v1::Policy::default() }),
        ..v1::GroupSpec::default()
    }
}

pub async fn declare(peer: &TestPeer, name: &str) {
    let request = v1::ApplyGroupRequest { spec: Some(spec(name)), options: None };
    peer.groups().await.apply(request).await.unwrap();
}

pub async fn start_rollout(peer: &TestPeer, group: &str, target: &str) -> v1::Rollout {
    let request = v1::StartRolloutRequest { group: group.to_owned(), target: target.to_owned(), ..Default::default() };
    peer.rollouts().await.start(request).await.unwrap().into_inner().rollout.unwrap()
}
