//! Calls of an operator to the public API: to one peer after the other, with a request id, until there is an answer or nobody can
//! know.

use std::time::Duration;

use rand::Rng as _;
use rand::rngs::StdRng;
use rollcall_proto::v1;
use rollcall_proto::v1::cluster_service_client::ClusterServiceClient;
use rollcall_proto::v1::group_service_client::GroupServiceClient;
use rollcall_proto::v1::node_service_client::NodeServiceClient;
use rollcall_proto::v1::rollout_service_client::RolloutServiceClient;
use rollcall_proto::v1::token_service_client::TokenServiceClient;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::judge::{Judge, Violation};
use crate::network::dial;
use crate::node::{GROUP, RELEASES};
use crate::schedule::Verb;
use crate::setup::stream;

/// BOUND: one call; the API's own deadline is shorter.
const CALL: Duration = Duration::from_secs(4);

/// BOUND: a change of the peers: one that is taken in has to catch up.
const CHANGE: Duration = Duration::from_secs(30);

/// BOUND: one write with all its repetitions.
const WRITE: Duration = Duration::from_secs(12);

const CONNECT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged, at this revision.
    Done(u64),
    /// It certainly has no effect.
    Refused(String),
    /// Nobody knows.
    Unknown,
}

/// Makes a cluster of the peer at `address` and these.
///
/// # Errors
/// What the peer says.
pub async fn init(address: &str, peers: Vec<String>) -> Result<(), Status> {
    let mut client = ClusterServiceClient::new(connect(address).await?);
    let request = v1::InitClusterRequest { peers, options: None };
    match timeout(Duration::from_secs(30), client.init(request)).await {
        Ok(answer) => answer.map(|_| ()),
        Err(_) => Err(Status::deadline_exceeded("init")),
    }
}

async fn connect(address: &str) -> Result<Channel, Status> {
    let endpoint = dial::endpoint(address).connect_timeout(CONNECT);
    dial::connect(&endpoint).await.map_err(|error| Status::unavailable(error.to_string()))
}

/// Calls, and remembers what it was promised.
pub struct Caller {
    peers: Vec<String>,
    next: usize,
    count: u64,
    rng: StdRng,
    judge: Judge,
}

impl Caller {
    /// To these peers.
    #[must_use]
    pub fn new(peers: Vec<String>, seed: u64, judge: Judge) -> Self {
        Self { peers, next: 0, count: 0, rng: stream(seed, "operator"), judge }
    }

    fn peer(&mut self) -> String {
        self.next = self.rng.random_range(0..self.peers.len());
        self.peers[self.next].clone()
    }

    /// Declares the group.
    pub async fn apply_group(&mut self, policy: v1::Policy) -> Outcome {
        let package = Some("acme/app".to_owned());
        let spec = v1::GroupSpec { name: GROUP.to_owned(), package, policy: Some(policy), ..Default::default() };
        self.write("apply group", |channel, options| {
            let request = v1::ApplyGroupRequest { spec: Some(spec.clone()), options: Some(options) };
            let mut client = GroupServiceClient::new(channel);
            async move { client.apply(request).await.map(|answer| answer.into_inner().revision) }
        })
        .await
    }

    /// Starts a rollout.
    pub async fn start(&mut self, release: &'static str) -> Outcome {
        self.write(&format!("start {release}"), |channel, options| {
            let (group, target) = (GROUP.to_owned(), release.to_owned());
            let request = v1::StartRolloutRequest { group, target, options: Some(options), ..Default::default() };
            let mut client = RolloutServiceClient::new(channel);
            async move { client.start(request).await.map(|answer| answer.into_inner().revision) }
        })
        .await
    }

    /// Says it until there is an answer.
    pub async fn say_until_answered(&mut self, verb: Verb) {
        while self.say(verb, &v1::Rollout::default()).await == Outcome::Unknown {}
    }

    /// Says something about a rollout, a node or a peer.
    pub async fn say(&mut self, verb: Verb, rollout: &v1::Rollout) -> Outcome {
        let name = format!("{verb:?} ({})", rollout.rollout_id);
        match verb {
            Verb::Start(release) => self.start(RELEASES[release]).await,
            Verb::Hold(_) | Verb::Release(_) => {
                self.write(&name, |channel, options| hold(channel, verb, options)).await
            }
            Verb::Revoke(node) => {
                self.write(&name, |channel, options| {
                    let node = node_name(node);
                    let request = v1::RevokeTokenRequest { node, force: true, options: Some(options) };
                    let mut client = TokenServiceClient::new(channel);
                    async move { client.revoke(request).await.map(|answer| answer.into_inner().revision) }
                })
                .await
            }
            Verb::TransferLeader(peer) => self.transfer(peer).await,
            _ => {
                let id = rollout.rollout_id.clone();
                self.write(&name, |channel, options| steer(channel, verb, id.clone(), options)).await
            }
        }
    }

    async fn transfer(&mut self, peer: usize) -> Outcome {
        let moved = match self.member(peer).await {
            Some(peer_id) => {
                let call = |mut client: ClusterServiceClient<Channel>| async move {
                    client.transfer_leader(v1::TransferLeaderRequest { peer_id }).await.map(|_| ())
                };
                self.change_peers(&format!("moves leadership to {peer_id}"), "", call).await
            }
            None => false,
        };
        if moved { Outcome::Done(0) } else { Outcome::Unknown }
    }

    /// The id under which a peer is a member; none: it is none, or nobody can tell.
    async fn member(&mut self, peer: usize) -> Option<u64> {
        let address = self.peer();
        let status = async {
            let mut client = ClusterServiceClient::new(connect(&address).await?);
            client.status(v1::ClusterStatusRequest::default()).await
        };
        let status = timeout(CALL, status).await.ok()?.ok()?.into_inner();
        // A peer that belongs to no cluster knows of nobody but itself.
        (!status.cluster_id.is_empty()).then_some(())?;
        status.peers.iter().find(|it| it.address == self.peers[peer]).map(|it| it.peer_id)
    }

    /// Whether a peer is a member, asked until there is an answer.
    pub async fn is_member(&mut self, peer: usize) -> bool {
        for _ in 0..20 {
            if self.member(peer).await.is_some() {
                return true;
            }
            sleep(PAUSE).await;
        }
        false
    }

    /// Takes a peer out; whether that is certain.
    pub async fn remove_peer(&mut self, peer: usize) -> bool {
        let Some(peer_id) = self.member(peer).await else { return false };
        let call = |mut client: ClusterServiceClient<Channel>| async move {
            client.remove_peer(v1::RemovePeerRequest { peer_id, options: None }).await.map(|_| ())
        };
        self.change_peers(&format!("removes peer {peer_id}"), &self.peers[peer].clone(), call).await
    }

    /// Takes a peer in; whether that is certain.
    pub async fn add_peer(&mut self, peer: usize) -> bool {
        let (address, blank) = (self.peers[peer].clone(), self.peers[peer].clone());
        let call = |mut client: ClusterServiceClient<Channel>| async move {
            client.add_peer(v1::AddPeerRequest { address, options: None }).await.map(|_| ())
        };
        self.change_peers(&format!("adds p{}", peer + 1), &blank, call).await
    }

    async fn change_peers<F>(
        &mut self,
        what: &str,
        but: &str,
        change: impl FnOnce(ClusterServiceClient<Channel>) -> F,
    ) -> bool
    where
        F: Future<Output = Result<(), Status>>,
    {
        let address = loop {
            let address = self.peer();
            if address != *but {
                break address;
            }
        };
        let changed = async { change(ClusterServiceClient::new(connect(&address).await?)).await };
        let changed = timeout(CHANGE, changed).await.map(|changed| changed.map_err(|status| reason(&status)));
        self.judge.note("op", format_args!("{what}: {changed:?}"));
        if matches!(changed, Ok(Ok(()))) {
            self.judge.count("changes of the peers");
        }
        matches!(changed, Ok(Ok(())))
    }

    /// The group's active rollout, as it is now.
    pub async fn rollout(&mut self) -> Option<v1::Rollout> {
        let id = self.group().await?.active_rollout_id;
        if id.is_empty() {
            return None;
        }
        let request = v1::GetRolloutRequest { rollout_id: id, ..Default::default() };
        self.read(|channel| {
            let request = request.clone();
            async move {
                let answer = RolloutServiceClient::new(channel).get(request).await?.into_inner();
                Ok((answer.revision, answer.rollout.unwrap_or_default()))
            }
        })
        .await
    }

    /// The group, as it is now.
    pub async fn group(&mut self) -> Option<v1::Group> {
        self.read(|channel| async move {
            let request = v1::GetGroupRequest { name: GROUP.to_owned(), options: None };
            let answer = GroupServiceClient::new(channel).get(request).await?.into_inner();
            Ok((answer.revision, answer.group.unwrap_or_default()))
        })
        .await
    }

    /// A read until there is an answer: it holds everything that was acknowledged before it began.
    async fn read<T, F>(&mut self, ask: impl Fn(Channel) -> F) -> Option<T>
    where
        F: Future<Output = Result<(u64, T), Status>>,
    {
        let floor = self.judge.pledge(|pledges| pledges.floor());
        loop {
            let address = self.peer();
            let asked = async { ask(connect(&address).await?).await };
            match timeout(CALL, asked).await {
                Ok(Ok((revision, found))) => {
                    if revision < floor {
                        let what = format!("a read on {address} shows {revision}, after {floor} was acknowledged");
                        self.judge.accuse(Violation::new("L1", what));
                    }
                    self.judge.count("reads");
                    return Some(found);
                }
                Ok(Err(status)) if status.code() == Code::NotFound => return None,
                Ok(Err(_)) | Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// A write, tried again with its request id until there is an answer.
    async fn write<F>(&mut self, what: &str, ask: impl Fn(Channel, v1::WriteOptions) -> F) -> Outcome
    where
        F: Future<Output = Result<u64, Status>>,
    {
        self.count += 1;
        let actor = format!("op-{}", self.count);
        let id: u128 = self.rng.random();
        let request_id = format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            id >> 96,
            (id >> 80) & 0xffff,
            (id >> 64) & 0xfff,
            (id >> 52) & 0xfff,
            id & 0xffff_ffff_ffff
        );
        let options = v1::WriteOptions { actor: actor.clone(), request_id, ..v1::WriteOptions::default() };
        let deadline = Instant::now() + WRITE;
        let outcome = loop {
            let address = self.peer();
            let asked = async { ask(connect(&address).await?, options.clone()).await };
            match timeout(CALL, asked).await {
                Ok(Ok(revision)) => break Outcome::Done(revision),
                Ok(Err(status)) if is_refusal(&status) => break Outcome::Refused(reason(&status)),
                Ok(Err(_)) | Err(_) if Instant::now() >= deadline => break Outcome::Unknown,
                Ok(Err(_)) | Err(_) => sleep(PAUSE).await,
            }
        };
        self.judge.note("op", format_args!("{actor} {what}: {outcome:?}"));
        if let Outcome::Done(revision) = outcome {
            self.judge.count("writes acknowledged");
            self.judge.pledge(|pledges| pledges.acknowledged(revision, actor));
        }
        outcome
    }
}

fn node_name(node: usize) -> String {
    format!("n{}", node + 1)
}

async fn hold(channel: Channel, verb: Verb, options: v1::WriteOptions) -> Result<u64, Status> {
    let mut client = NodeServiceClient::new(channel);
    let options = Some(options);
    let answer = match verb {
        Verb::Hold(node) => {
            client.hold(v1::HoldNodeRequest { node: node_name(node), options, ..Default::default() }).await
        }
        Verb::Release(node) => client.release(v1::ReleaseNodeRequest { node: node_name(node), options }).await,
        _ => unreachable!("only these two are about holding"),
    };
    answer.map(|answer| answer.into_inner().revision)
}

async fn steer(channel: Channel, verb: Verb, rollout_id: String, options: v1::WriteOptions) -> Result<u64, Status> {
    let mut client = RolloutServiceClient::new(channel);
    let node = if let Verb::Skip(node) = verb { node_name(node) } else { String::new() };
    let request = v1::RolloutVerbRequest { rollout_id, options: Some(options.clone()), node, ..Default::default() };
    let answer = match verb {
        Verb::Pause => client.pause(request).await,
        Verb::Resume => client.resume(request).await,
        Verb::Stop => client.stop(request).await,
        Verb::Abort => client.abort(request).await,
        Verb::Retry => client.retry(request).await,
        Verb::Skip(_) => client.skip(request).await,
        Verb::Promote => client.promote(request).await,
        Verb::Undo => {
            let group = GROUP.to_owned();
            let request = v1::UndoRolloutRequest { group, options: Some(options), ..Default::default() };
            return client.undo(request).await.map(|answer| answer.into_inner().revision);
        }
        Verb::Start(_)
        | Verb::Hold(_)
        | Verb::Release(_)
        | Verb::Revoke(_)
        | Verb::TransferLeader(_)
        | Verb::ReplacePeer(_) => unreachable!("not about a rollout"),
    };
    answer.map(|answer| answer.into_inner().revision)
}

/// Whether the answer says that the write has no effect, and never will.
fn is_refusal(status: &Status) -> bool {
    let is_final = matches!(
        status.code(),
        Code::FailedPrecondition
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
    );
    is_final && reason(status) != "not_initialized"
}

fn reason(status: &Status) -> String {
    let info = status.get_details_error_info();
    info.map_or_else(|| format!("{:?}", status.code()), |info| info.reason)
}
