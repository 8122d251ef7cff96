//! A cluster that answers from [`samples`](crate::samples), fails when it is told to, and remembers what it was asked.

mod rollouts;

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rollcall_proto::v1::channel_service_server::{ChannelService, ChannelServiceServer};
use rollcall_proto::v1::cluster_service_server::{ClusterService, ClusterServiceServer};
use rollcall_proto::v1::event_service_server::{EventService, EventServiceServer};
use rollcall_proto::v1::group_service_server::{GroupService, GroupServiceServer};
use rollcall_proto::v1::node_service_server::{NodeService, NodeServiceServer};
use rollcall_proto::v1::rollout_service_server::RolloutServiceServer;
use rollcall_proto::v1::token_service_server::{TokenService, TokenServiceServer};
use rollcall_proto::v1::window_service_server::{WindowService, WindowServiceServer};
use rollcall_proto::v1::*;
use tokio::runtime::Runtime;
use tokio_stream::Stream;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::samples::{self, REVISION};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What the fake goes by and remembers.
#[derive(Default)]
pub struct Script {
    /// Answers the next calls, whatever they are, instead of what they ask for.
    pub refusals: VecDeque<Status>,
    /// What each watch brings, one after the other; the last entry of a watch may be a failure.
    pub watches: VecDeque<Vec<Result<Rollout, Status>>>,
    /// The rollout that `Get` and `List` know.
    pub rollout: Option<Rollout>,
    /// Pages of nodes, so that paging shows.
    pub node_count: usize,
    pub condition: String,
    /// Why the rollout has ended.
    pub end: Option<String>,
    /// Options of all writes, in order.
    pub writes: Vec<WriteOptions>,
    pub specs: Vec<GroupSpec>,
    pub verbs: Vec<String>,
    /// Requests of verbs that carry more than options, as they came.
    pub asked: Vec<String>,
    pub findings: Vec<Finding>,
    pub init_peers: Vec<String>,
    pub page_tokens: Vec<String>,
    pub since: Vec<u64>,
    /// The audit trail, and where its chain stands where that isn't its end.
    pub audit: Vec<AuditRecord>,
    pub audit_head: Option<AuditHead>,
    /// What each snapshot that is asked for brings; the last entry of one may be a failure.
    pub snapshots: VecDeque<Vec<Result<SaveSnapshotResponse, Status>>>,
    pub is_plan_empty: bool,
    /// Between two answers of a watch.
    pub pace: Duration,
}

/// A running fake; ends when it is dropped.
pub struct Fake {
    pub address: SocketAddr,
    script: Arc<Mutex<Script>>,
    _runtime: Runtime,
}

impl Fake {
    pub fn start() -> Self {
        let script = Arc::new(Mutex::new(Script {
            rollout: Some(samples::rollout()),
            node_count: 1,
            audit: samples::audit(),
            condition: "serving".to_owned(),
            ..Script::default()
        }));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let service = Service(Arc::clone(&script));
        let server = Server::builder()
            .add_service(GroupServiceServer::new(service.clone()))
            .add_service(RolloutServiceServer::new(service.clone()))
            .add_service(NodeServiceServer::new(service.clone()))
            .add_service(TokenServiceServer::new(service.clone()))
            .add_service(ChannelServiceServer::new(service.clone()))
            .add_service(WindowServiceServer::new(service.clone()))
            .add_service(EventServiceServer::new(service.clone()))
            .add_service(ClusterServiceServer::new(service))
            .serve_with_incoming(TcpListenerStream::new(listener));
        runtime.spawn(server);
        Self { address, script, _runtime: runtime }
    }

    pub fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    pub fn endpoint(&self) -> String {
        self.address.to_string()
    }
}

/// A refusal as the API describes it.
pub fn refusal(code: Code, reason: &str, message: &str) -> Status {
    Status::with_error_details(code, message, ErrorDetails::with_error_info(reason, "rollcall", HashMap::new()))
}

/// An address that nothing listens on.
pub fn dead_endpoint() -> String {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().to_string()
}

#[derive(Clone)]
struct Service(Arc<Mutex<Script>>);

impl Service {
    /// Answers as the script says; `note` sees the script first.
    fn answer<T>(&self, note: impl FnOnce(&mut Script) -> T) -> Result<Response<T>, Status> {
        let mut script = self.0.lock().unwrap();
        let answer = note(&mut script);
        match script.refusals.pop_front() {
            Some(status) => Err(status),
            None => Ok(Response::new(answer)),
        }
    }

    fn write<T>(&self, options: Option<WriteOptions>, answer: T) -> Result<Response<T>, Status> {
        self.answer(|script| {
            script.writes.push(options.expect("a write carries its options"));
            answer
        })
    }
}

#[tonic::async_trait]
impl GroupService for Service {
    async fn apply(&self, request: Request<ApplyGroupRequest>) -> Result<Response<ApplyGroupResponse>, Status> {
        let request = request.into_inner();
        self.0.lock().unwrap().specs.extend(request.spec);
        self.write(
            request.options,
            ApplyGroupResponse { revision: REVISION, group: Some(samples::group()), started_rollout_id: String::new() },
        )
    }

    async fn get(&self, _: Request<GetGroupRequest>) -> Result<Response<GetGroupResponse>, Status> {
        self.answer(|_| GetGroupResponse { revision: REVISION, group: Some(samples::group()) })
    }

    async fn list(&self, _: Request<ListGroupsRequest>) -> Result<Response<ListGroupsResponse>, Status> {
        let groups = vec![samples::group()];
        self.answer(|_| ListGroupsResponse { revision: REVISION, groups, next_page_token: String::new() })
    }

    async fn delete(&self, request: Request<DeleteGroupRequest>) -> Result<Response<DeleteGroupResponse>, Status> {
        self.write(request.into_inner().options, DeleteGroupResponse { revision: REVISION })
    }
}

#[tonic::async_trait]
impl NodeService for Service {
    async fn list(&self, request: Request<ListNodesRequest>) -> Result<Response<ListNodesResponse>, Status> {
        let request = request.into_inner();
        self.answer(|script| {
            script.page_tokens.push(request.page_token.clone());
            let from: usize = request.page_token.parse().unwrap_or(0);
            // Smaller pages than were asked for, as a server may give them.
            let until = (from + 2.min(request.page_size as usize)).min(script.node_count);
            let next_page_token = if until < script.node_count { until.to_string() } else { String::new() };
            let nodes = (from..until).map(|_| samples::node()).collect();
            ListNodesResponse { revision: REVISION, nodes, next_page_token }
        })
    }

    async fn get(&self, _: Request<GetNodeRequest>) -> Result<Response<GetNodeResponse>, Status> {
        self.answer(|_| GetNodeResponse { revision: REVISION, node: Some(samples::node()) })
    }

    async fn remove(&self, request: Request<RemoveNodeRequest>) -> Result<Response<RemoveNodeResponse>, Status> {
        self.write(request.into_inner().options, RemoveNodeResponse { revision: REVISION })
    }

    async fn replace(&self, request: Request<ReplaceNodeRequest>) -> Result<Response<ReplaceNodeResponse>, Status> {
        self.write(request.into_inner().options, ReplaceNodeResponse { revision: REVISION })
    }

    async fn hold(&self, request: Request<HoldNodeRequest>) -> Result<Response<NodeVerbResponse>, Status> {
        let request = request.into_inner();
        let until = request.until.map(|until| until.seconds);
        self.0.lock().unwrap().asked.push(format!("hold {} {until:?}", request.node));
        self.write(request.options, NodeVerbResponse { revision: REVISION, node: Some(samples::node()) })
    }

    async fn release(&self, request: Request<ReleaseNodeRequest>) -> Result<Response<NodeVerbResponse>, Status> {
        let answer = NodeVerbResponse { revision: REVISION, node: Some(samples::node()) };
        self.write(request.into_inner().options, answer)
    }

    async fn set_health(&self, request: Request<SetHealthRequest>) -> Result<Response<NodeVerbResponse>, Status> {
        let request = request.into_inner();
        self.0.lock().unwrap().asked.push(format!("set-health {} {}", request.node, request.health));
        self.write(request.options, NodeVerbResponse { revision: REVISION, node: Some(samples::node()) })
    }
}

#[tonic::async_trait]
impl TokenService for Service {
    async fn list(&self, _: Request<ListTokensRequest>) -> Result<Response<ListTokensResponse>, Status> {
        let tokens = vec![samples::token()];
        self.answer(|_| ListTokensResponse { revision: REVISION, now: samples::ago(0), tokens })
    }

    async fn revoke(&self, request: Request<RevokeTokenRequest>) -> Result<Response<RevokeTokenResponse>, Status> {
        let request = request.into_inner();
        self.0.lock().unwrap().asked.push(format!("revoke {} {}", request.node, request.force));
        self.write(request.options, RevokeTokenResponse { revision: REVISION, rollout_id: "r1000".to_owned() })
    }
}

#[tonic::async_trait]
impl ChannelService for Service {
    async fn list(&self, _: Request<ListChannelsRequest>) -> Result<Response<ListChannelsResponse>, Status> {
        self.answer(|_| ListChannelsResponse { revision: REVISION, channels: vec![samples::channel()] })
    }

    async fn create(&self, request: Request<CreateChannelRequest>) -> Result<Response<CreateChannelResponse>, Status> {
        self.write(request.into_inner().options, CreateChannelResponse { revision: REVISION })
    }

    async fn delete(&self, request: Request<DeleteChannelRequest>) -> Result<Response<DeleteChannelResponse>, Status> {
        self.write(request.into_inner().options, DeleteChannelResponse { revision: REVISION })
    }

    async fn promote(&self, request: Request<PromoteRequest>) -> Result<Response<PromoteResponse>, Status> {
        let started_rollout_ids = vec!["r1043".to_owned()];
        let request = request.into_inner();
        self.0.lock().unwrap().asked.push(format!("promote {} {:?}", request.ident, request.more_idents));
        self.write(request.options, PromoteResponse { revision: REVISION, started_rollout_ids })
    }

    async fn demote(&self, request: Request<DemoteRequest>) -> Result<Response<DemoteResponse>, Status> {
        let stopped_rollout_ids = vec!["r1000".to_owned()];
        let request = request.into_inner();
        self.0.lock().unwrap().asked.push(format!("demote {} {:?}", request.ident, request.more_idents));
        self.write(request.options, DemoteResponse { revision: REVISION, stopped_rollout_ids })
    }

    async fn list_quarantine(
        &self,
        _: Request<ListQuarantineRequest>,
    ) -> Result<Response<ListQuarantineResponse>, Status> {
        self.answer(|_| ListQuarantineResponse { revision: REVISION, releases: samples::quarantine() })
    }

    async fn add_quarantine(
        &self,
        request: Request<QuarantineRequest>,
    ) -> Result<Response<QuarantineResponse>, Status> {
        self.write(request.into_inner().options, QuarantineResponse { revision: REVISION })
    }

    async fn remove_quarantine(
        &self,
        request: Request<QuarantineRequest>,
    ) -> Result<Response<QuarantineResponse>, Status> {
        self.write(request.into_inner().options, QuarantineResponse { revision: REVISION })
    }
}

#[tonic::async_trait]
impl WindowService for Service {
    async fn list(&self, _: Request<ListWindowsRequest>) -> Result<Response<ListWindowsResponse>, Status> {
        self.answer(|_| ListWindowsResponse { revision: REVISION, groups: samples::group_windows() })
    }

    async fn add(&self, request: Request<AddWindowRequest>) -> Result<Response<AddWindowResponse>, Status> {
        let request = request.into_inner();
        let window = request.window.unwrap();
        let words = (window.days.join(","), window.start_time, window.length_ms, window.time_zone);
        self.0.lock().unwrap().asked.push(format!("window {} {words:?}", request.group));
        self.write(request.options, AddWindowResponse { revision: REVISION, window_id: "w3".to_owned() })
    }

    async fn remove(&self, request: Request<RemoveWindowRequest>) -> Result<Response<RemoveWindowResponse>, Status> {
        self.write(request.into_inner().options, RemoveWindowResponse { revision: REVISION })
    }

    async fn list_freezes(&self, _: Request<ListFreezesRequest>) -> Result<Response<ListFreezesResponse>, Status> {
        self.answer(|_| ListFreezesResponse { revision: REVISION, freezes: samples::freezes() })
    }

    async fn create_freeze(
        &self,
        request: Request<CreateFreezeRequest>,
    ) -> Result<Response<CreateFreezeResponse>, Status> {
        let request = request.into_inner();
        let seconds = |time: Option<prost_types::Timestamp>| time.map(|time| time.seconds);
        let words = (request.groups, seconds(request.from), seconds(request.until));
        self.0.lock().unwrap().asked.push(format!("freeze {words:?}"));
        self.write(request.options, CreateFreezeResponse { revision: REVISION, freeze_id: "f1042".to_owned() })
    }

    async fn lift_freeze(&self, request: Request<LiftFreezeRequest>) -> Result<Response<LiftFreezeResponse>, Status> {
        self.write(request.into_inner().options, LiftFreezeResponse { revision: REVISION })
    }
}

#[tonic::async_trait]
impl EventService for Service {
    type WatchStream = Answers<WatchEventsResponse>;

    async fn list(&self, request: Request<ListEventsRequest>) -> Result<Response<ListEventsResponse>, Status> {
        let since = request.into_inner().since_revision;
        self.answer(|script| {
            script.since.push(since);
            let events =
                samples::events().into_iter().filter(|event| event.revision > since).take(2).collect::<Vec<_>>();
            ListEventsResponse { revision: events.last().map_or(since, |event| event.revision), events }
        })
    }

    async fn audit(&self, request: Request<AuditRequest>) -> Result<Response<AuditResponse>, Status> {
        let since = request.into_inner().since_revision;
        self.answer(|script| {
            script.since.push(since);
            let all = script.audit.clone();
            let head = all.last().map(|last| AuditHead { revision: last.revision, hash: last.hash.clone() });
            let rest: Vec<_> = all.into_iter().filter(|record| record.revision > since).collect();
            let more = rest.len() > 2;
            let records: Vec<_> = rest.into_iter().take(2).collect();
            AuditResponse {
                revision: records.last().map_or(since, |record| record.revision),
                records,
                head: script.audit_head.clone().or(head),
                answering_peer_id: 2,
                more,
            }
        })
    }

    async fn watch(&self, request: Request<WatchEventsRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let since = request.into_inner().since_revision;
        self.answer(|script| {
            script.since.push(since);
            let rest: Vec<_> = samples::events().into_iter().filter(|event| event.revision > since).collect();
            let next = rest.first().cloned();
            let answer = next.map(|event| Ok(WatchEventsResponse { revision: event.revision, events: vec![event] }));
            // One event, and then the stream breaks: whoever follows comes back for the next.
            let end =
                if rest.len() > 1 { Status::unavailable("going away") } else { Status::out_of_range("compacted") };
            let stream: Answers<_> = Box::pin(tokio_stream::iter(answer.into_iter().chain([Err(end)])));
            stream
        })
    }
}

#[tonic::async_trait]
impl ClusterService for Service {
    async fn init(&self, request: Request<InitClusterRequest>) -> Result<Response<InitClusterResponse>, Status> {
        self.answer(|script| {
            script.init_peers = request.into_inner().peers;
            InitClusterResponse {
                cluster_id: "c1000000-0000-4000-8000-000000000001".to_owned(),
                peers: samples::peers(),
            }
        })
    }

    async fn status(&self, _: Request<ClusterStatusRequest>) -> Result<Response<ClusterStatusResponse>, Status> {
        self.answer(|script| ClusterStatusResponse {
            condition: script.condition.clone(),
            cluster_id: "c1000000-0000-4000-8000-000000000001".to_owned(),
            revision: REVISION,
            now: samples::ago(0),
            feature_level: 1,
            leader_peer_id: 1,
            answering_peer_id: 2,
            peers: samples::peers(),
            quorum_margin: 0,
            version: "0.1.0".to_owned(),
            snapshot_revision: 1000,
            log_entries: 43,
        })
    }

    async fn add_peer(&self, request: Request<AddPeerRequest>) -> Result<Response<AddPeerResponse>, Status> {
        self.write(request.into_inner().options, AddPeerResponse { peer_id: 4, peers: samples::peers() })
    }

    async fn remove_peer(&self, request: Request<RemovePeerRequest>) -> Result<Response<RemovePeerResponse>, Status> {
        self.write(request.into_inner().options, RemovePeerResponse { peers: samples::peers() })
    }

    async fn transfer_leader(
        &self,
        request: Request<TransferLeaderRequest>,
    ) -> Result<Response<TransferLeaderResponse>, Status> {
        self.answer(|_| TransferLeaderResponse { leader_peer_id: request.into_inner().peer_id })
    }

    type SaveSnapshotStream = Answers<SaveSnapshotResponse>;

    async fn save_snapshot(
        &self,
        _: Request<SaveSnapshotRequest>,
    ) -> Result<Response<Self::SaveSnapshotStream>, Status> {
        let parts = self.0.lock().unwrap().snapshots.pop_front().expect("asked for more snapshots than there are");
        self.answer(|_| Box::pin(tokio_stream::iter(parts)) as Self::SaveSnapshotStream)
    }

    async fn doctor(&self, _: Request<DoctorRequest>) -> Result<Response<DoctorResponse>, Status> {
        self.answer(|script| DoctorResponse {
            revision: REVISION,
            findings: script.findings.clone(),
            checks: 14,
            peers_asked: 3,
        })
    }
}
