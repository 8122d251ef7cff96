//! One node: its session with one peer or another, and what waits to be reported.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use rand::Rng;
use rollcall_proto::v1;
use rollcall_proto::v1::agent_message::Kind as Out;
use rollcall_proto::v1::agent_service_client::AgentServiceClient;
use rollcall_proto::v1::peer_message::Kind as In;
use rollcall_proto::v1::report::Kind as Said;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

use super::step::Progress;
use super::{FIRST, Shared};

const BOOT: &str = "00000000-0000-4000-8000-0000000000b0";

// As `node/agent/src/session` has them.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
const WELCOME_LIMIT: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_LIMIT: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const OUTGOING: usize = 64;

/// What a node is to do.
#[derive(Debug)]
pub enum Order {
    /// Says how it is, once; `told` hears when it was answered.
    Report { detail: String, is_healthy: bool, told: Option<mpsc::UnboundedSender<Instant>> },
    /// Says how it is until then, so many reports at once; `told` hears what the last accepted one said, and how long
    /// each took.
    Flood { until: Instant, at_once: usize, told: mpsc::UnboundedSender<(String, Vec<Duration>)> },
}

/// A node.
pub struct Node {
    number: usize,
    group: String,
    endpoints: Vec<String>,
    next: usize,
    shared: Arc<Shared>,
    gate: Arc<Semaphore>,
    release: String,
    /// Of its process: counted up with each start.
    start_time: u64,
    progress: Progress,
    fetched: String,
    outbox: VecDeque<Waiting>,
    last_number: u64,
    flood: Option<Flood>,
}

/// A report without an answer.
struct Waiting {
    number: u64,
    said: Said,
    is_sent: bool,
    begun: Instant,
    told: Option<mpsc::UnboundedSender<Instant>>,
}

struct Flood {
    until: Instant,
    size: usize,
    told: mpsc::UnboundedSender<(String, Vec<Duration>)>,
    last: String,
    count: u64,
    times: Vec<Duration>,
}

impl Node {
    pub fn new(number: usize, group: &str, endpoints: &[String], shared: Arc<Shared>, gate: Arc<Semaphore>) -> Self {
        Self {
            number,
            group: group.to_owned(),
            endpoints: endpoints.to_vec(),
            next: number % endpoints.len(),
            shared,
            gate,
            release: FIRST.to_owned(),
            start_time: 1,
            progress: Progress::default(),
            fetched: String::new(),
            outbox: VecDeque::new(),
            last_number: 0,
            flood: None,
        }
    }

    /// Keeps a session for ever, with one peer or another.
    pub async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut pause = FIRST_PAUSE;
        loop {
            // It ends with an error only: a session is never over by itself.
            let _ = self.session(&mut orders, &mut pause).await;
            self.next = (self.next + 1) % self.endpoints.len();
            let jittered = pause.mul_f64(rand::rng().random_range(0.5..1.5));
            pause = (pause * 2).min(LONGEST_PAUSE);
            sleep(jittered).await;
        }
    }

    async fn session(&mut self, orders: &mut mpsc::UnboundedReceiver<Order>, pause: &mut Duration) -> Result<()> {
        let gate = self.gate.clone();
        let may_connect = gate.acquire().await?;
        let endpoint = Endpoint::from_shared(format!("http://{}", self.endpoints[self.next]))?
            .connect_timeout(CONNECT_LIMIT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_LIMIT)
            .keep_alive_while_idle(true);
        let mut client = AgentServiceClient::new(endpoint.connect().await?);
        let (outgoing, stream) = mpsc::channel(OUTGOING);
        outgoing.try_send(message(Out::Hello(self.hello())))?;
        let opening = client.session(ReceiverStream::new(stream));
        let mut incoming = timeout(WELCOME_LIMIT, opening).await??.into_inner();
        let welcome = match timeout(WELCOME_LIMIT, incoming.message()).await??.and_then(|it| it.kind) {
            Some(In::Welcome(welcome)) => welcome,
            other => bail!("no welcome: {other:?}"),
        };
        drop(may_connect);
        *pause = FIRST_PAUSE;
        let _is_open = Open::count(self.shared.clone());
        self.outbox.iter_mut().for_each(|waiting| waiting.is_sent = false);
        let mut heartbeats = interval(Duration::from_millis(welcome.heartbeat_interval_ms.max(50)));
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            for waiting in self.outbox.iter_mut().filter(|waiting| !waiting.is_sent) {
                waiting.is_sent = true;
                let report = v1::Report { number: waiting.number, kind: Some(waiting.said.clone()) };
                outgoing.send(message(Out::Report(report))).await?;
            }
            tokio::select! {
                heard = incoming.message() => match heard?.ok_or_else(|| anyhow!("the peer has ended it"))?.kind {
                    Some(In::Orders(orders)) => self.obey(&orders),
                    Some(In::Answer(answer)) => self.hear(&answer)?,
                    Some(In::Refused(refused)) => bail!("refused: {}", refused.reason),
                    Some(In::Welcome(_)) | None => {}
                },
                Some(order) = orders.recv() => self.take(order),
                _ = heartbeats.tick() => outgoing.send(message(Out::Heartbeat(v1::Heartbeat {}))).await?,
            }
        }
    }

    fn hello(&self) -> v1::Hello {
        let number = self.number;
        v1::Hello {
            node_id: format!("00000000-0000-4000-8000-{number:012x}"),
            node_name: format!("node-{number:06}"),
            machine_id: format!("machine-{number}"),
            identity_locus: format!("disk-{number}"),
            boot_id: BOOT.to_owned(),
            agent_version: "bench".to_owned(),
            services: vec![self.status(true, "")],
            highest_fence: self.progress.fence(),
            ..v1::Hello::default()
        }
    }

    fn instance(&self) -> v1::Instance {
        v1::Instance {
            pid: u32::try_from(self.number).unwrap_or(u32::MAX).saturating_add(2),
            start_time: self.start_time,
            boot_id: BOOT.to_owned(),
            release: self.release.clone(),
        }
    }

    fn status(&self, is_healthy: bool, detail: &str) -> v1::ServiceStatus {
        let health = if is_healthy { v1::Health::Healthy } else { v1::Health::Critical };
        v1::ServiceStatus {
            group: self.group.clone(),
            release: self.release.clone(),
            instance: Some(self.instance()),
            health: health.into(),
            health_detail: detail.to_owned(),
            ..v1::ServiceStatus::default()
        }
    }

    fn say(&mut self, said: Said, told: Option<mpsc::UnboundedSender<Instant>>) {
        self.last_number += 1;
        self.outbox.push_back(Waiting { number: self.last_number, said, is_sent: false, begun: Instant::now(), told });
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Report { detail, is_healthy, told } => {
                let status = self.status(is_healthy, &detail);
                self.say(Said::Status(status), told);
            }
            Order::Flood { until, at_once, told } => {
                self.flood =
                    Some(Flood { until, size: at_once, told, last: String::new(), count: 0, times: Vec::new() });
                self.go_on_flooding();
            }
        }
    }

    /// As many reports as may be on their way at once; at the end it is told.
    fn go_on_flooding(&mut self) {
        let Some(mut flood) = self.flood.take() else { return };
        if Instant::now() < flood.until {
            while self.outbox.len() < flood.size {
                let detail = crate::client::text("flood", self.number, flood.count);
                flood.count += 1;
                let status = self.status(true, &detail);
                self.say(Said::Status(status), None);
            }
        } else if self.outbox.is_empty() {
            let _ = flood.told.send((flood.last, flood.times));
            return;
        }
        self.flood = Some(flood);
    }

    fn hear(&mut self, answer: &v1::ReportAnswer) -> Result<()> {
        if answer.refusal == "stale_session" {
            bail!("the session is over");
        }
        let Some(at) = self.outbox.iter().position(|waiting| waiting.number == answer.number) else { return Ok(()) };
        let Some(heard) = self.outbox.remove(at) else { return Ok(()) };
        self.shared.answered.fetch_add(1, Ordering::Relaxed);
        if let Some(told) = heard.told {
            let _ = told.send(Instant::now());
        }
        if !answer.refusal.is_empty() {
            self.shared.note_refusal(&answer.refusal);
        } else if let Said::Step(v1::StepReport { event: Some(v1::step_report::Event::Finished(_)), .. }) = &heard.said
        {
            self.shared.note_finished(answer.revision);
        }
        if let (Some(flood), Said::Status(status)) = (&mut self.flood, heard.said) {
            flood.times.push(heard.begun.elapsed());
            flood.last = status.health_detail;
        }
        self.go_on_flooding();
        Ok(())
    }

    /// What the orders want is done at once, and said.
    fn obey(&mut self, orders: &v1::Orders) {
        let Some(group) = orders.groups.iter().find(|group| group.group == self.group) else { return };
        if !group.prefetch.is_empty() && group.prefetch != self.fetched {
            self.fetched.clone_from(&group.prefetch);
            let report = v1::PrefetchReport {
                group: self.group.clone(),
                release: group.prefetch.clone(),
                digest: "ab".repeat(32),
                ..v1::PrefetchReport::default()
            };
            self.say(Said::Prefetch(report), None);
        }
        let Some(step) = &group.step else { return };
        let todo = self.progress.todo(step);
        for event in todo {
            let event = match event {
                v1::step_report::Event::Started(_) => {
                    self.release.clone_from(&step.to);
                    self.start_time += 1;
                    v1::step_report::Event::Started(v1::Started { instance: Some(self.instance()) })
                }
                event => event,
            };
            let is_started = matches!(event, v1::step_report::Event::Started(_));
            let report = v1::StepReport {
                group: self.group.clone(),
                rollout_id: step.rollout_id.clone(),
                fence: step.fence,
                attempt: step.attempt,
                event: Some(event),
            };
            self.say(Said::Step(report), None);
            if is_started {
                let status = self.status(true, "");
                self.say(Said::Status(status), None);
            }
        }
    }
}

/// Counts a session for as long as it is open.
struct Open(Arc<Shared>);

impl Open {
    fn count(shared: Arc<Shared>) -> Self {
        shared.open.send_modify(|open| *open += 1);
        Self(shared)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

fn message(kind: Out) -> v1::AgentMessage {
    v1::AgentMessage { kind: Some(kind) }
}
