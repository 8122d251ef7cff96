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
    /// What was said so far, and what became of it.
    sent: Vec<(Sent, Outcome)>,
    rng: StdRng,
    judge: Judge,
}

/// A write as it is sent, so that it can be sent again.
#[derive(Clone)]
struct Sent {
    verb: Verb,
    rollout: String,
    options: v1::WriteOptions,
}

impl Caller {
    /// To these peers.
    #[must_use]
    pub fn new(peers: Vec<String>, seed: u64, judge: Judge) -> Self {
        Self { peers, next: 0, count: 0, sent: Vec::new(), rng: stream(seed, "operator"), judge }
    }

    fn peer(&mut self) -> String {
        self.next = self.rng.random_range(0..self.peers.len());
        self.peers[self.next].clone()
    }

    /// Declares the group.
    pub async fn apply_group(&mut self, policy: v1::Policy) -> Outcome {
        let package = Some("acme/app".to_owned());
        let spec = v1::GroupSpec { name: GROUP.to_owned(), package, policy: Some(policy), ..Default::default() };
        let options = self.options();
        self.write("apply group", options, |channel, options| {
            let request = v1::ApplyGroupRequest { spec: Some(spec.clone()), options: Some(options) };
            let mut client = GroupServiceClient::new(channel);
            async move { client.apply(request).await.map(|answer| answer.into_inner().revision) }
        })
        .await
    }

    /// Starts a rollout.
    pub async fn start(&mut self, release: usize) -> Outcome {
        self.say(Verb::Start(release), &v1::Rollout::default()).await
    }

    /// Says it until there is an answer.
    pub async fn say_until_answered(&mut self, verb: Verb) {
        while self.say(verb, &v1::Rollout::default()).await == Outcome::Unknown {}
    }

    /// Says something about a rollout, a node or a peer; and looks at once at what has come of it, on any peer.
    pub async fn say(&mut self, verb: Verb, rollout: &v1::Rollout) -> Outcome {
        match verb {
            Verb::TransferLeader(peer) => return self.transfer(peer).await,
            Verb::Repeat(back) => return self.repeat(back).await,
            _ => {}
        }
        let options = self.options();
        let sent = Sent { verb, rollout: rollout.rollout_id.clone(), options };
        let floor = self.judge.pledge(|pledges| pledges.floor());
        let outcome = self.send(&sent).await;
        if let Outcome::Done(revision) = outcome
            && revision <= floor
        {
            let what = format!("{verb:?} was asked for after {floor} was acknowledged, and came to {revision}");
            self.judge.accuse(Violation::new("L5", what));
        }
        self.sent.push((sent, outcome.clone()));
        if matches!(outcome, Outcome::Done(_)) {
            self.group().await;
        }
        outcome
    }

    /// The rollout that the last but so many of the earlier writes was about, if nobody knows what became of it.
    #[must_use]
    pub fn unanswered(&self, back: usize) -> Option<String> {
        let place = self.sent.len().checked_sub(1)? - back % self.sent.len();
        let (sent, outcome) = &self.sent[place];
        (*outcome == Outcome::Unknown).then(|| sent.rollout.clone())
    }

    async fn send(&mut self, sent: &Sent) -> Outcome {
        let name = format!("{:?} ({})", sent.verb, sent.rollout);
        self.write(&name, sent.options.clone(), |channel, options| {
            ask(channel, sent.verb, sent.rollout.clone(), options)
        })
        .await
    }

    /// Sends an earlier write again, as a client does that never saw its answer: whatever became of it first is what it is
    /// told, by whatever peer and after whatever has happened to them.
    async fn repeat(&mut self, back: usize) -> Outcome {
        if self.sent.is_empty() {
            return Outcome::Unknown;
        }
        let place = self.sent.len() - 1 - back % self.sent.len();
        let (sent, first) = self.sent[place].clone();
        let again = self.send(&sent).await;
        self.judge.count("writes repeated");
        let is_same = match (&first, &again) {
            (Outcome::Unknown, _) => {
                self.sent[place].1 = again.clone();
                true
            }
            (_, Outcome::Unknown) => true,
            (first, again) => first == again,
        };
        if !is_same {
            let what =
                format!("{} of {:?} came to {first:?}, and then to {again:?}", sent.options.request_id, sent.verb);
            self.judge.accuse(Violation::new("L4", what));
        }
        again
    }

    async fn transfer(&mut self, peer: usize) -> Outcome {
        let moved = match self.member(peer).await {
            Some(v1::Peer { peer_id, .. }) => {
                let call = |mut client: ClusterServiceClient<Channel>| async move {
                    client.transfer_leader(v1::TransferLeaderRequest { peer_id }).await.map(|_| ())
                };
                self.change_peers(&format!("moves leadership to {peer_id}"), "", call).await
            }
            None => false,
        };
        if moved { Outcome::Done(0) } else { Outcome::Unknown }
    }

    /// What the cluster says of a peer; none: it knows nothing of it, or nobody can tell.
    async fn member(&mut self, peer: usize) -> Option<v1::Peer> {
        // One that was removed may not have heard of it.
        let own = self.peers[peer].clone();
        let address = self.peer_but(&own);
        let status = async {
            let mut client = ClusterServiceClient::new(connect(&address).await?);
            client.status(v1::ClusterStatusRequest::default()).await
        };
        let status = timeout(CALL, status).await.ok()?.ok()?.into_inner();
        // A peer that belongs to no cluster knows of nobody but itself.
        (!status.cluster_id.is_empty()).then_some(())?;
        status.peers.into_iter().find(|it| it.address == self.peers[peer])
    }

    /// Whether a peer has a vote, asked until there is an answer. One whose removal was cut off is still listed, without one.
    pub async fn is_member(&mut self, peer: usize) -> bool {
        for _ in 0..20 {
            if self.member(peer).await.is_some_and(|it| it.voter) {
                return true;
            }
            sleep(PAUSE).await;
        }
        false
    }

    /// Takes a peer out; whether that is certain.
    pub async fn remove_peer(&mut self, peer: usize) -> bool {
        let Some(v1::Peer { peer_id, .. }) = self.member(peer).await else { return false };
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

    /// A peer to ask, any but this one.
    fn peer_but(&mut self, but: &str) -> String {
        loop {
            let address = self.peer();
            if address != *but {
                return address;
            }
        }
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
        let address = self.peer_but(but);
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

    /// Of a write that nobody has sent yet: who asks, and the id by which peers know it again.
    fn options(&mut self) -> v1::WriteOptions {
        self.count += 1;
        let id: u128 = self.rng.random();
        let request_id = format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            id >> 96,
            (id >> 80) & 0xffff,
            (id >> 64) & 0xfff,
            (id >> 52) & 0xfff,
            id & 0xffff_ffff_ffff
        );
        v1::WriteOptions { actor: format!("op-{}", self.count), request_id, ..v1::WriteOptions::default() }
    }

    /// A write, tried again with its request id until there is an answer.
    async fn write<F>(
        &mut self,
        what: &str,
        options: v1::WriteOptions,
        ask: impl Fn(Channel, v1::WriteOptions) -> F,
    ) -> Outcome
    where
        F: Future<Output = Result<u64, Status>>,
    {
        let actor = options.actor.clone();
        self.judge.pledge(|pledges| pledges.asked(&actor));
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

async fn ask(channel: Channel, verb: Verb, rollout_id: String, options: v1::WriteOptions) -> Result<u64, Status> {
    let options = Some(options);
    match verb {
        Verb::Start(release) => {
            let (group, target) = (GROUP.to_owned(), RELEASES[release].to_owned());
            let request = v1::StartRolloutRequest { group, target, options, ..Default::default() };
            RolloutServiceClient::new(channel).start(request).await.map(|answer| answer.into_inner().revision)
        }
        Verb::Undo => {
            let request = v1::UndoRolloutRequest { group: GROUP.to_owned(), options, ..Default::default() };
            RolloutServiceClient::new(channel).undo(request).await.map(|answer| answer.into_inner().revision)
        }
        Verb::Hold(node) => {
            let request = v1::HoldNodeRequest { node: node_name(node), options, ..Default::default() };
            NodeServiceClient::new(channel).hold(request).await.map(|answer| answer.into_inner().revision)
        }
        Verb::Release(node) => {
            let request = v1::ReleaseNodeRequest { node: node_name(node), options };
            NodeServiceClient::new(channel).release(request).await.map(|answer| answer.into_inner().revision)
        }
        Verb::Revoke(node) => {
            let request = v1::RevokeTokenRequest { node: node_name(node), force: true, options };
            TokenServiceClient::new(channel).revoke(request).await.map(|answer| answer.into_inner().revision)
        }
        _ => {
            let node = if let Verb::Skip(node) = verb { node_name(node) } else { String::new() };
            let request = v1::RolloutVerbRequest { rollout_id, options, node, ..Default::default() };
            steer(channel, verb, request).await
        }
    }
}

async fn steer(channel: Channel, verb: Verb, request: v1::RolloutVerbRequest) -> Result<u64, Status> {
    let mut client = RolloutServiceClient::new(channel);
    let answer = match verb {
        Verb::Pause => client.pause(request).await,
        Verb::Resume => client.resume(request).await,
        Verb::Stop => client.stop(request).await,
        Verb::Abort => client.abort(request).await,
        Verb::Retry => client.retry(request).await,
        Verb::Skip(_) => client.skip(request).await,
        Verb::Promote => client.promote(request).await,
        _ => unreachable!("not about a rollout"),
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
