//! The public gRPC API as a client sees it: any peer will do, and one that doesn't answer is passed over.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rollcall_proto::v1;
use rollcall_proto::v1::cluster_service_client::ClusterServiceClient;
use rollcall_proto::v1::group_service_client::GroupServiceClient;
use rollcall_proto::v1::rollout_service_client::RolloutServiceClient;
use rollcall_proto::v1::token_service_client::TokenServiceClient;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// BOUND: one try of one call at one peer. Longer than an election, which a call may have to wait out.
const CALL_WITHIN: Duration = Duration::from_secs(5);

/// BOUND: all tries of one call: a change of leader takes some seconds.
const TRIES_WITHIN: Duration = Duration::from_secs(30);

/// BOUND: an answer: a rollout comes with all of its steps.
const LARGEST_ANSWER: usize = 64 << 20;

/// BOUND: states that nobody has looked at yet; the watcher waits then.
const WATCH_QUEUE: usize = 64;

fn rollouts(channel: Channel) -> RolloutServiceClient<Channel> {
    RolloutServiceClient::new(channel).max_decoding_message_size(LARGEST_ANSWER)
}

/// A client of all peers.
#[derive(Debug, Clone)]
pub struct Api {
    channels: Vec<Channel>,
}

impl Api {
    /// Connects lazily: a peer that isn't there is found out by the first call.
    pub fn new(endpoints: &[String]) -> Result<Self> {
        let channels = endpoints
            .iter()
            .map(|address| {
                let endpoint = Endpoint::from_shared(format!("http://{address}"))
                    .with_context(|| format!("{address} is no address"))?
                    .connect_timeout(Duration::from_secs(1))
                    .http2_keep_alive_interval(Duration::from_secs(2))
                    .keep_alive_timeout(Duration::from_secs(2));
                Ok(endpoint.connect_lazy())
            })
            .collect::<Result<_>>()?;
        Ok(Self { channels })
    }

    /// The group's active or else latest rollout, or the one with this id.
    pub async fn rollout(&self, group: &str, rollout_id: &str) -> Result<v1::GetRolloutResponse> {
        let request = v1::GetRolloutRequest {
            rollout_id: rollout_id.to_owned(),
            group: if rollout_id.is_empty() { group.to_owned() } else { String::new() },
            options: None,
        };
        self.call(async |channel| rollouts(channel).get(within(request.clone())).await).await
    }

    /// Makes a cluster of the first peer and `others`.
    pub async fn init_cluster(&self, others: &[String]) -> Result<()> {
        let request = v1::InitClusterRequest { peers: others.to_vec(), options: None };
        let first = self.channels.first().context("there is no peer")?.clone();
        ClusterServiceClient::new(first).init(request).await?;
        Ok(())
    }

    /// Declares a group.
    pub async fn apply_group(&self, spec: v1::GroupSpec) -> Result<()> {
        let request = v1::ApplyGroupRequest { spec: Some(spec), options: None };
        let _: v1::ApplyGroupResponse =
            self.call(async |channel| GroupServiceClient::new(channel).apply(within(request.clone())).await).await?;
        Ok(())
    }

    /// A group with its members.
    pub async fn group(&self, name: &str) -> Result<v1::Group> {
        let request = v1::GetGroupRequest { name: name.to_owned(), options: None };
        let answer: v1::GetGroupResponse =
            self.call(async |channel| GroupServiceClient::new(channel).get(within(request.clone())).await).await?;
        answer.group.context("the answer has no group")
    }

    /// Starts a rollout; safe to repeat, because every try carries the same request id.
    pub async fn start_rollout(&self, group: &str, target: &str, request_id: &str) -> Result<v1::Rollout> {
        let request = v1::StartRolloutRequest {
            group: group.to_owned(),
            target: target.to_owned(),
            digest: String::new(),
            options: Some(v1::WriteOptions { request_id: request_id.to_owned(), ..Default::default() }),
        };
        let answer: v1::StartRolloutResponse =
            self.call(async |channel| rollouts(channel).start(within(request.clone())).await).await?;
        answer.rollout.context("the answer to a start has no rollout")
    }

    /// Lets a paused rollout go on; the revision from which on it does.
    pub async fn resume_rollout(&self, rollout_id: &str) -> Result<u64> {
        let request = v1::RolloutVerbRequest { rollout_id: rollout_id.to_owned(), ..Default::default() };
        let answer: v1::RolloutVerbResponse =
            self.call(async |channel| rollouts(channel).resume(within(request.clone())).await).await?;
        Ok(answer.revision)
    }

    /// How the peers stand; `stale` asks whoever answers first for what it knows itself.
    pub async fn cluster(&self, stale: bool) -> Result<v1::ClusterStatusResponse> {
        let request = v1::ClusterStatusRequest { options: Some(v1::ReadOptions { stale }) };
        self.call(async |channel| ClusterServiceClient::new(channel).status(within(request)).await).await
    }

    /// What the first peer knows of the cluster itself, in one try.
    pub async fn cluster_now(&self) -> Option<v1::ClusterStatusResponse> {
        let request = v1::ClusterStatusRequest { options: Some(v1::ReadOptions { stale: true }) };
        let channel = self.channels.first()?.clone();
        Some(ClusterServiceClient::new(channel).status(within(request)).await.ok()?.into_inner())
    }

    /// The address of the peer that leads.
    pub async fn leader_address(&self) -> Result<String> {
        let status = self.cluster(false).await?;
        let leader = status.peers.iter().find(|peer| peer.leader || peer.peer_id == status.leader_peer_id);
        Ok(leader.context("no peer is said to lead")?.address.clone())
    }

    /// Who may be down now.
    pub async fn tokens(&self) -> Result<Vec<v1::Token>> {
        let request = v1::ListTokensRequest { options: None };
        let answer: v1::ListTokensResponse =
            self.call(async |channel| TokenServiceClient::new(channel).list(within(request)).await).await?;
        Ok(answer.tokens)
    }

    /// The rollout now and after each of its changes, until it ends; goes on at another peer where one is lost.
    pub fn watch(&self, rollout_id: &str) -> Watch {
        let (sender, receiver) = mpsc::channel(WATCH_QUEUE);
        let task = tokio::spawn(follow(self.clone(), rollout_id.to_owned(), sender));
        Watch { receiver, task }
    }

    /// Asks one peer after the other until one gives an answer that is no "not now".
    async fn call<T>(&self, ask: impl AsyncFn(Channel) -> Result<tonic::Response<T>, Status>) -> Result<T> {
        let deadline = tokio::time::Instant::now() + TRIES_WITHIN;
        let mut latest = None;
        while tokio::time::Instant::now() < deadline {
            for channel in &self.channels {
                match ask(channel.clone()).await {
                    Ok(answer) => return Ok(answer.into_inner()),
                    Err(status) if may_try_again(&status) => latest = Some(status),
                    Err(status) => return Err(anyhow!("{:?}: {}", status.code(), status.message())),
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let latest = latest.map(|status| format!("{:?}: {}", status.code(), status.message())).unwrap_or_default();
        Err(anyhow!("no peer answers within {TRIES_WITHIN:?}; the last said: {latest}"))
    }
}

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    receiver: mpsc::Receiver<v1::GetRolloutResponse>,
    task: JoinHandle<()>,
}

impl Watch {
    /// The next state; `None` after the rollout's end.
    pub async fn next(&mut self) -> Option<v1::GetRolloutResponse> {
        self.receiver.recv().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(api: Api, rollout_id: String, sender: mpsc::Sender<v1::GetRolloutResponse>) {
    let mut revision = 0;
    for channel in api.channels.iter().cycle() {
        let request = v1::WatchRolloutRequest { rollout_id: rollout_id.clone(), group: String::new() };
        let opened = rollouts(channel.clone()).watch(request).await;
        if let Ok(stream) = opened {
            let mut stream = stream.into_inner();
            while let Ok(Some(state)) = stream.message().await {
                let ended = state.rollout.as_ref().is_some_and(|rollout| rollout.ended_at.is_some());
                // Another peer may begin with something older than what was seen already.
                if state.revision < revision {
                    continue;
                }
                revision = state.revision;
                if sender.send(state).await.is_err() || ended {
                    return;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn within<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(CALL_WITHIN);
    request
}

fn may_try_again(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown)
}
