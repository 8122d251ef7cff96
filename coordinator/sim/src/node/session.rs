//! The session: hello, then orders in, reports out, heartbeats between; with one peer after the other. As
//! `node/agent/src/session/client.rs` does it.

use std::rc::Rc;
use std::time::Duration;

use rollcall_ident::Fence;
use rollcall_proto::v1;
use rollcall_proto::v1::agent_message::Kind as Out;
use rollcall_proto::v1::agent_service_client::AgentServiceClient;
use rollcall_proto::v1::peer_message::Kind as In;
use tokio::sync::mpsc;
use tokio::time::{interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::agent::Agent;
use super::wire;
use crate::network::dial;

const CONNECT_LIMIT: Duration = Duration::from_secs(1);
const WELCOME_LIMIT: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_LIMIT: Duration = Duration::from_secs(2);
const REFUSED_PAUSE: Duration = Duration::from_secs(30);
const PAUSES_MS: [u64; 6] = [50, 100, 200, 500, 1_000, 2_000];

/// BOUND: of what waits to be written to the connection.
const OUTGOING: usize = 64;

/// Keeps a session for ever, with one peer or another.
pub(super) async fn run(agent: Rc<Agent>, configured: Vec<String>) {
    let mut endpoints = configured.clone();
    let mut next = usize::try_from(agent.machine.borrow_mut().draw(endpoints.len() as u64)).unwrap_or(0);
    let (mut failures, mut revision) = (0, 0);
    loop {
        let endpoint = endpoints[next % endpoints.len()].clone();
        let end = session(&agent, &endpoint, &configured, &mut endpoints, &mut revision, &mut failures).await;
        agent.has_session.set(false);
        agent.judge.note(&agent.name, format_args!("no session with {endpoint}: {end:?}"));
        next += 1;
        let pause = PAUSES_MS[failures.min(PAUSES_MS.len() - 1)];
        failures += 1;
        let jittered = pause / 2 + agent.machine.borrow_mut().draw(pause);
        match end {
            End::Refused => sleep(REFUSED_PAUSE).await,
            End::Connect | End::Broken | End::NoWelcome => sleep(Duration::from_millis(jittered)).await,
        }
    }
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Connect,
    NoWelcome,
    Refused,
    Broken,
}

async fn session(
    agent: &Rc<Agent>,
    endpoint: &str,
    configured: &[String],
    endpoints: &mut Vec<String>,
    revision: &mut u64,
    failures: &mut usize,
) -> End {
    let (outgoing, mut incoming) = match open(agent, endpoint).await {
        Ok(streams) => streams,
        Err(end) => return end,
    };
    let welcome = match timeout(WELCOME_LIMIT, incoming.message()).await {
        Ok(Ok(Some(v1::PeerMessage { kind: Some(In::Welcome(welcome)) }))) => welcome,
        Ok(Ok(Some(v1::PeerMessage { kind: Some(In::Refused(refused)) }))) => {
            agent.judge.note(&agent.name, format_args!("refused: {}", refused.reason));
            return if refused.retry { End::Broken } else { End::Refused };
        }
        Ok(_) => return End::Broken,
        Err(_) => return End::NoWelcome,
    };
    agent.judge.note(&agent.name, format_args!("session {} with {endpoint}", welcome.epoch));
    agent.judge.count("sessions");
    agent.judge.witness(|witness, _| witness.session(&agent.name, welcome.epoch));
    agent.machine.borrow_mut().cluster_id.clone_from(&welcome.cluster_id);
    if !welcome.endpoints.is_empty() {
        let known = configured.iter().filter(|known| !welcome.endpoints.contains(known));
        *endpoints = welcome.endpoints.iter().chain(known).cloned().collect();
    }
    *failures = 0;
    agent.has_session.set(true);
    agent.outbox.borrow_mut().begin_session();
    agent.outgoing.notify_one();
    let mut heartbeats = interval(Duration::from_millis(welcome.heartbeat_interval_ms.clamp(50, 60_000)));
    loop {
        let sent = tokio::select! {
            biased;
            message = incoming.message() => match message {
                Ok(Some(message)) => match receive(agent, message, revision) {
                    Some(end) => return end,
                    None => true,
                },
                Ok(None) | Err(_) => return End::Broken,
            },
            () = agent.outgoing.notified() => {
                let unsent = agent.outbox.borrow_mut().take_unsent();
                let mut is_open = true;
                for report in unsent {
                    is_open &= outgoing.send(to_peer(Out::Report(report))).await.is_ok();
                }
                is_open
            }
            _ = heartbeats.tick() => outgoing.send(to_peer(Out::Heartbeat(v1::Heartbeat {}))).await.is_ok(),
        };
        if !sent {
            return End::Broken;
        }
    }
}

fn to_peer(kind: Out) -> v1::AgentMessage {
    v1::AgentMessage { kind: Some(kind) }
}

async fn open(
    agent: &Rc<Agent>,
    endpoint: &str,
) -> Result<(mpsc::Sender<v1::AgentMessage>, Streaming<v1::PeerMessage>), End> {
    let endpoint = dial::endpoint(endpoint)
        .connect_timeout(CONNECT_LIMIT)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_LIMIT)
        .keep_alive_while_idle(true);
    let channel = dial::connect(&endpoint).await.map_err(|_| End::Connect)?;
    let mut client = AgentServiceClient::new(channel);
    let (outgoing, stream) = mpsc::channel(OUTGOING);
    let hello = to_peer(Out::Hello(hello(agent)));
    outgoing.try_send(hello).map_err(|_| End::Broken)?;
    let opening = client.session(ReceiverStream::new(stream));
    let response = timeout(WELCOME_LIMIT, opening).await.map_err(|_| End::NoWelcome)?;
    Ok((outgoing, response.map_err(|_| End::Broken)?.into_inner()))
}

fn hello(agent: &Rc<Agent>) -> v1::Hello {
    let status = agent.status();
    let machine = agent.machine.borrow();
    v1::Hello {
        node_id: machine.id.clone(),
        node_name: machine.name.clone(),
        machine_id: format!("m-{}", machine.name),
        identity_locus: format!("disk-{}", machine.name),
        boot_id: agent.boot_id.to_string(),
        agent_version: "sim".to_owned(),
        services: vec![status],
        highest_fence: agent.fence.get().0,
        cluster_id: machine.cluster_id.clone(),
        ..v1::Hello::default()
    }
}

fn receive(agent: &Rc<Agent>, message: v1::PeerMessage, revision: &mut u64) -> Option<End> {
    match message.kind {
        Some(In::Orders(orders)) => {
            let known = Fence(orders.highest_fence);
            if known > agent.fence.get() {
                agent.fence.set(known);
                agent.lost_fence.set(known);
            }
            // Of a peer that lags.
            if orders.revision >= *revision {
                *revision = orders.revision;
                let understood = wire::orders(&orders, agent.fence.get());
                agent.orders.send_if_modified(|current| {
                    let is_news = current.as_ref() != Some(&understood);
                    *current = Some(understood);
                    is_news
                });
            }
        }
        Some(In::Answer(answer)) => {
            if !answer.refusal.is_empty() {
                agent.judge.note(&agent.name, format_args!("report refused: {}", answer.refusal));
            }
            let milestone = agent.outbox.borrow_mut().answer(answer.number, &answer.refusal);
            if let Some((key, count)) = milestone {
                agent.note_answer(key, count);
            }
        }
        Some(In::Refused(_)) => return Some(End::Refused),
        Some(In::Welcome(_)) | None => {}
    }
    None
}
