//! A session as an agent has it, one message at a time.

use std::collections::VecDeque;
use std::time::Duration;

use rollcall_proto::v1;
use rollcall_proto::v1::agent_service_client::AgentServiceClient;
use rollcall_proto::v1::{agent_message, peer_message, report, step_report};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::PATIENCE;

pub const R1: &str = "acme/web/1.0.0/20260101000000";
pub const R2: &str = "acme/web/2.0.0/20260201000000";
pub const BOOT: &str = "00000000-0000-4000-8000-0000000000b0";

/// Who an agent is, and what its one service runs.
#[derive(Debug, Clone)]
pub struct Identity {
    pub id: String,
    pub name: String,
    pub locus: String,
    pub group: String,
    pub release: String,
    pub pid: u32,
    /// The peer on its machine, as its config says; empty: none.
    pub hosts_peer: String,
}

impl Identity {
    /// The `n`-th node of a group, healthy on the first release.
    pub fn new(n: u32, group: &str) -> Self {
        Self {
            id: format!("00000000-0000-4000-8000-{n:012x}"),
            name: format!("web-{n}"),
            locus: format!("disk-{n}"),
            group: group.to_owned(),
            release: R1.to_owned(),
            pid: 100 + n,
            hosts_peer: String::new(),
        }
    }

    pub fn instance(&self) -> v1::Instance {
        v1::Instance {
            pid: self.pid,
            start_time: u64::from(self.pid) * 7,
            boot_id: BOOT.to_owned(),
            release: self.release.clone(),
        }
    }

    pub fn status(&self) -> v1::ServiceStatus {
        v1::ServiceStatus {
            group: self.group.clone(),
            release: self.release.clone(),
            instance: Some(self.instance()),
            health: v1::Health::Healthy.into(),
            ..v1::ServiceStatus::default()
        }
    }

    pub fn hello(&self) -> v1::Hello {
        v1::Hello {
            node_id: self.id.clone(),
            node_name: self.name.clone(),
            machine_id: self.locus.clone(),
            hosts_peer: self.hosts_peer.clone(),
            identity_locus: self.locus.clone(),
            boot_id: BOOT.to_owned(),
            agent_version: "test".to_owned(),
            services: vec![self.status()],
            ..v1::Hello::default()
        }
    }
}

/// An open session.
pub struct Session {
    pub welcome: v1::Welcome,
    out: mpsc::Sender<v1::AgentMessage>,
    inbound: Streaming<v1::PeerMessage>,
    /// What came before the answer that was waited for: orders may overtake it.
    put_by: VecDeque<peer_message::Kind>,
    number: u64,
}

/// Why there is none.
#[derive(Debug)]
pub enum NoSession {
    Refused(v1::Refused),
    Failed(Status),
}

impl Session {
    pub async fn open(address: &str, hello: v1::Hello) -> Result<Self, NoSession> {
        let failed = NoSession::Failed;
        let unreachable = |error: tonic::transport::Error| failed(Status::unavailable(error.to_string()));
        let mut client = AgentServiceClient::connect(format!("http://{address}")).await.map_err(unreachable)?;
        let (out, messages) = mpsc::channel(256);
        out.send(to_peer(agent_message::Kind::Hello(hello))).await.unwrap();
        let mut inbound = client.session(ReceiverStream::new(messages)).await.map_err(failed)?.into_inner();
        match timeout(PATIENCE, inbound.message()).await.expect("no answer to the hello").map_err(failed)? {
            Some(v1::PeerMessage { kind: Some(peer_message::Kind::Welcome(welcome)) }) => {
                Ok(Self { welcome, out, inbound, put_by: VecDeque::new(), number: 0 })
            }
            Some(v1::PeerMessage { kind: Some(peer_message::Kind::Refused(refused)) }) => {
                Err(NoSession::Refused(refused))
            }
            other => panic!("a hello is answered with {other:?}"),
        }
    }

    /// What keeps the session alive, in the background.
    pub fn beat(&self) {
        let out = self.out.clone();
        tokio::spawn(async move {
            while out.send(to_peer(agent_message::Kind::Heartbeat(v1::Heartbeat {}))).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
    }

    pub async fn send(&self, message: v1::AgentMessage) {
        self.out.send(message).await.unwrap();
    }

    /// The next message, if the session lives.
    pub async fn next(&mut self) -> Result<peer_message::Kind, Status> {
        match self.put_by.pop_front() {
            Some(message) => Ok(message),
            None => self.receive().await,
        }
    }

    async fn receive(&mut self) -> Result<peer_message::Kind, Status> {
        match timeout(PATIENCE, self.inbound.message()).await.expect("nothing came")? {
            Some(message) => Ok(message.kind.expect("a message of this version")),
            None => Err(Status::cancelled("the peer has ended the session")),
        }
    }

    /// The next orders that `wanted` likes; whatever else comes is passed over.
    pub async fn orders_until(&mut self, wanted: impl Fn(&v1::GroupOrders) -> bool) -> v1::GroupOrders {
        loop {
            if let peer_message::Kind::Orders(orders) = self.next().await.unwrap()
                && let Some(group) = orders.groups.into_iter().find(|group| wanted(group))
            {
                return group;
            }
        }
    }

    pub async fn say(&mut self, kind: report::Kind) -> u64 {
        self.number += 1;
        let report = v1::Report { number: self.number, kind: Some(kind) };
        // A session that is gone is noticed by reading.
        let _ = self.out.send(to_peer(agent_message::Kind::Report(report))).await;
        self.number
    }

    /// Reports, and waits for the answer to that. What comes before it is kept for [`Session::next`].
    pub async fn report(&mut self, kind: report::Kind) -> v1::ReportAnswer {
        let number = self.say(kind).await;
        loop {
            match self.receive().await.unwrap() {
                peer_message::Kind::Answer(answer) if answer.number == number => return answer,
                other => self.put_by.push_back(other),
            }
        }
    }
}

pub fn to_peer(kind: agent_message::Kind) -> v1::AgentMessage {
    v1::AgentMessage { kind: Some(kind) }
}

/// A report on the step that `orders` carry.
pub fn on_step(orders: &v1::GroupOrders, event: step_report::Event) -> report::Kind {
    let step = orders.step.as_ref().expect("orders with a step");
    report::Kind::Step(v1::StepReport {
        group: orders.group.clone(),
        rollout_id: step.rollout_id.clone(),
        fence: step.fence,
        attempt: step.attempt,
        event: Some(event),
    })
}

pub fn prefetched(group: &str, release: &str) -> report::Kind {
    report::Kind::Prefetch(v1::PrefetchReport {
        group: group.to_owned(),
        release: release.to_owned(),
        digest: "ab".repeat(32),
        ..v1::PrefetchReport::default()
    })
}
