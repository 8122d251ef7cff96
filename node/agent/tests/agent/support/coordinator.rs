//! A coordinator that does as it is told: it pushes orders, keeps and answers reports, and drives a step if asked to.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use rollcall_proto::v1::agent_message::Kind as FromAgent;
use rollcall_proto::v1::agent_service_server::{AgentService, AgentServiceServer};
use rollcall_proto::v1::peer_message::Kind as ToAgent;
use rollcall_proto::v1::report::Kind as Reported;
use rollcall_proto::v1::step_report::Event;
use rollcall_proto::v1::{
    AgentMessage, Go, GroupOrders, Health, Hello, Orders, PeerMessage, Phase, Refused, Report, ReportAnswer,
    ServiceStatus, StepOrder, Welcome,
};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

use super::{ident, within};

/// The group that the tests' agents belong to.
pub const GROUP: &str = "app.default";

/// Everything that was said so far, and what is ordered.
#[derive(Default, Clone)]
pub struct Said {
    pub hellos: Vec<Hello>,
    pub reports: Vec<Report>,
    revision: u64,
    orders: GroupOrders,
    /// Drive the step by itself: each report lets it go on.
    auto: bool,
    /// But no further than this.
    limit: Option<Go>,
    refusal: Option<Refused>,
    /// Reports aren't answered.
    is_mute: bool,
    /// Sessions of an earlier life are over.
    life: u64,
}

/// The coordinator.
#[derive(Clone)]
pub struct Coordinator {
    said: Arc<watch::Sender<Said>>,
    address: String,
    server: Arc<Mutex<Option<tokio::task::JoinHandle<()>>>>,
}

impl Said {
    /// Step events so far, by name.
    pub fn events(&self) -> Vec<&'static str> {
        self.step_events().map(name).collect()
    }

    /// Step events so far.
    pub fn step_events(&self) -> impl Iterator<Item = &Event> {
        self.reports.iter().filter_map(|report| match &report.kind {
            Some(Reported::Step(step)) => step.event.as_ref(),
            _ => None,
        })
    }

    /// Whether the step with this fence has succeeded.
    pub fn is_finished(&self, fence: u64) -> bool {
        self.events_of(fence).iter().any(|event| name(event) == "finished")
    }

    /// The last status, from a report or a hello.
    pub fn status(&self) -> Option<&ServiceStatus> {
        let reported = self.reports.iter().rev().find_map(|report| match &report.kind {
            Some(Reported::Status(status)) => Some(status),
            _ => None,
        });
        reported.or_else(|| self.hellos.last()?.services.first())
    }

    /// Whether the last status is of a healthy process of this version.
    pub fn is_healthy(&self, version: u32) -> bool {
        self.status().is_some_and(|status| {
            status.health() == Health::Healthy
                && status.instance.as_ref().is_some_and(|instance| instance.release == ident(version))
        })
    }

    fn set_go(&mut self, go: Go) {
        if let Some(step) = &mut self.orders.step
            && go as i32 > step.go
            && self.limit.is_none_or(|limit| go as i32 <= limit as i32)
        {
            step.go = go.into();
            self.revision += 1;
        }
    }

    /// Events of the step with this fence.
    pub fn events_of(&self, fence: u64) -> Vec<Event> {
        let steps = self.reports.iter().filter_map(|report| match &report.kind {
            Some(Reported::Step(step)) => Some(step),
            _ => None,
        });
        steps.filter(|step| step.fence == fence).filter_map(|step| step.event.clone()).collect()
    }

    /// What a coordinator would order next.
    fn drive(&mut self) {
        let Some(fence) = self.orders.step.as_ref().map(|step| step.fence) else { return };
        let events = self.events_of(fence);
        let Some(last) = events.last().map(name) else { return };
        let instance = events.iter().rev().find_map(started);
        match last {
            "prepared" => self.set_go(Go::Drain),
            "drained" => self.set_go(Go::Replace),
            "started" if instance.is_some_and(|instance| self.vouches_for(&instance)) => self.set_go(Go::Finish),
            "finished" | "failed" | "turned_back" => {
                self.orders.step = None;
                self.revision += 1;
            }
            _ => {}
        }
    }

    /// The highest fence that the node has reported, as the log knows it.
    fn known_fence(&self) -> u64 {
        let fences = self.reports.iter().filter_map(|report| match &report.kind {
            Some(Reported::Step(step)) => Some(step.fence),
            _ => None,
        });
        fences.max().unwrap_or_default()
    }

    /// Where the log has the step that is ordered.
    fn logged(&self) -> Phase {
        let Some(step) = &self.orders.step else { return Phase::Unspecified };
        match self.events_of(step.fence).last().map(name) {
            None => Phase::Granted,
            Some("accepted") => Phase::Preparing,
            Some("prepared") => Phase::Draining,
            Some("drained") => Phase::Stopping,
            Some("stopped") => Phase::Installing,
            Some("reboot_begun") => Phase::Rebooting,
            Some("installed") => Phase::Starting,
            Some(_) => Phase::Verifying,
        }
    }

    fn vouches_for(&self, instance: &rollcall_proto::v1::Instance) -> bool {
        self.status()
            .is_some_and(|status| status.health() == Health::Healthy && status.instance.as_ref() == Some(instance))
    }
}

fn started(event: &Event) -> Option<rollcall_proto::v1::Instance> {
    match event {
        Event::Started(started) => started.instance.clone(),
        _ => None,
    }
}

/// The name of a step event.
pub fn name(event: &Event) -> &'static str {
    match event {
        Event::Accepted(_) => "accepted",
        Event::Prepared(_) => "prepared",
        Event::Drained(_) => "drained",
        Event::Stopped(_) => "stopped",
        Event::Installed(_) => "installed",
        Event::RebootBegun(_) => "reboot_begun",
        Event::Started(_) => "started",
        Event::Finished(_) => "finished",
        Event::TurnedBack(_) => "turned_back",
        Event::Failed(_) => "failed",
    }
}

impl Coordinator {
    /// Starts one on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let said = Said { orders: orders(), revision: 1, ..Said::default() };
        let coordinator = Self { said: Arc::new(watch::Sender::new(said)), address, server: Arc::default() };
        coordinator.serve(listener);
        coordinator
    }

    fn serve(&self, listener: TcpListener) {
        let service = AgentServiceServer::new(self.clone());
        let incoming = TcpListenerStream::new(listener);
        let server = tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming);
        *self.server.lock().unwrap() = Some(tokio::spawn(async move { server.await.unwrap() }));
    }

    /// As if the peer had died: connections break.
    pub async fn stop(&self) {
        let server = self.server.lock().unwrap().take().unwrap();
        server.abort();
        let _ = server.await;
        self.said.send_modify(|said| said.life += 1);
    }

    /// Comes back at the same address.
    pub async fn restart(&self) {
        self.serve(TcpListener::bind(&self.address).await.unwrap());
    }

    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// What was said so far.
    pub fn said(&self) -> Said {
        self.said.borrow().clone()
    }

    /// Waits until what was said is as wanted.
    pub async fn until(&self, what: &str, is_so: impl Fn(&Said) -> bool) -> Said {
        let mut said = self.said.subscribe();
        let waiting = async { said.wait_for(|said| is_so(said)).await.unwrap().clone() };
        within(what, waiting).await
    }

    /// Waits until this step event has come so often.
    pub async fn until_event(&self, event: &str, times: usize) -> Said {
        let what = format!("event {event} ({times})");
        self.until(&what, |said| said.events().iter().filter(|name| **name == event).count() >= times).await
    }

    /// The orders as they stand.
    pub fn orders(&self) -> GroupOrders {
        self.said.borrow().orders.clone()
    }

    /// The revision of the orders as they stand.
    pub fn revision(&self) -> u64 {
        self.said.borrow().revision
    }

    /// Changes the orders.
    pub fn order(&self, change: impl FnOnce(&mut GroupOrders)) {
        self.said.send_modify(|said| {
            change(&mut said.orders);
            // A fence is the revision of its grant.
            let granted_at = said.orders.step.as_ref().map_or(0, |step| step.fence);
            said.revision = granted_at.max(said.revision + 1);
        });
    }

    /// The orders of a peer that lags behind, for the next session.
    pub fn order_of_the_past(&self, revision: u64, change: impl FnOnce(&mut GroupOrders)) {
        self.said.send_modify(|said| {
            change(&mut said.orders);
            said.revision = revision;
        });
    }

    /// Orders a step to `version`, as far as `go`.
    pub fn order_step(&self, version: u32, from: Option<u32>, fence: u64, go: Go) {
        self.order(|orders| orders.step = Some(step(version, from, fence, go)));
    }

    /// Orders a step to `version` and drives it as a log would, no further than `go`.
    pub fn order_step_up_to(&self, version: u32, from: Option<u32>, fence: u64, go: Go) {
        self.said.send_modify(|said| (said.auto, said.limit) = (true, Some(go)));
        self.order_step(version, from, fence, Go::Prepare);
    }

    /// Lets the step go further.
    pub fn go(&self, go: Go) {
        self.order(|orders| orders.step.as_mut().unwrap().go = go.into());
    }

    /// Drives steps by itself from now on.
    pub fn drive(&self, auto: bool) {
        self.said.send_modify(|said| {
            (said.auto, said.limit) = (auto, None);
            if auto {
                said.drive();
            }
        });
    }

    /// Refuses every session.
    pub fn refuse(&self, reason: &str, retry: bool) {
        let message = "by the test".to_owned();
        self.said.send_modify(|said| said.refusal = Some(Refused { reason: reason.to_owned(), message, retry }));
    }

    /// Leaves reports unanswered, or answers again.
    pub fn mute(&self, is_mute: bool) {
        self.said.send_modify(|said| said.is_mute = is_mute);
    }

    /// Runs a whole step to its end.
    pub async fn run_step(&self, version: u32, from: Option<u32>, fence: u64) -> Said {
        self.drive(true);
        self.order_step(version, from, fence, Go::Prepare);
        self.until_finished(fence).await
    }

    /// Waits for the end of the step with this fence.
    pub async fn until_finished(&self, fence: u64) -> Said {
        self.until("the end of the step", |said| said.is_finished(fence)).await
    }

    fn hear(&self, report: Report) -> Option<ReportAnswer> {
        let answer = ReportAnswer { number: report.number, ..ReportAnswer::default() };
        let mut is_mute = false;
        self.said.send_modify(|said| {
            said.reports.push(report);
            is_mute = said.is_mute;
            if said.auto {
                said.drive();
            }
        });
        (!is_mute).then_some(answer)
    }
}

/// No orders but the group's rules.
fn orders() -> GroupOrders {
    GroupOrders {
        group: GROUP.to_owned(),
        package: "acme/app".to_owned(),
        on_warning: "fail".to_owned(),
        success_threshold: 1,
        failure_threshold: 1,
        known: true,
        ..GroupOrders::default()
    }
}

/// A step's order.
pub fn step(version: u32, from: Option<u32>, fence: u64, go: Go) -> StepOrder {
    StepOrder {
        rollout_id: format!("r{version}"),
        fence,
        attempt: 1,
        from: from.map(ident).unwrap_or_default(),
        to: ident(version),
        go: go.into(),
        reason: "update".to_owned(),
        max_reboots: 3,
        ..StepOrder::default()
    }
}

fn message(kind: ToAgent) -> Result<PeerMessage, Status> {
    Ok(PeerMessage { kind: Some(kind) })
}

#[tonic::async_trait]
impl AgentService for Coordinator {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<PeerMessage, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (sender, receiver) = mpsc::channel(64);
        tokio::spawn(host(self.clone(), request.into_inner(), sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

async fn host(
    coordinator: Coordinator,
    mut incoming: Streaming<AgentMessage>,
    outgoing: mpsc::Sender<Result<PeerMessage, Status>>,
) {
    let Ok(Some(AgentMessage { kind: Some(FromAgent::Hello(hello)) })) = incoming.message().await else { return };
    coordinator.said.send_modify(|said| said.hellos.push(hello));
    let said = coordinator.said();
    if let Some(refusal) = said.refusal {
        let _ = outgoing.send(message(ToAgent::Refused(refusal))).await;
        return;
    }
    let welcome = Welcome {
        epoch: said.hellos.len() as u64,
        cluster_id: "6f1c0d2e-0000-4000-8000-00000000000a".to_owned(),
        heartbeat_interval_ms: 500,
        endpoints: vec![coordinator.address()],
        former_cluster_ids: Vec::new(),
    };
    let _ = outgoing.send(message(ToAgent::Welcome(welcome))).await;
    let mut changes = coordinator.said.subscribe();
    let mut pushed = 0;
    loop {
        let (revision, orders, life, highest_fence) = {
            let said = changes.borrow_and_update();
            let mut orders = said.orders.clone();
            let logged = said.logged();
            orders.step.iter_mut().for_each(|step| step.phase = logged.into());
            (said.revision, orders, said.life, said.known_fence())
        };
        if life != said.life {
            return;
        }
        if revision != pushed {
            pushed = revision;
            let orders = Orders { revision, groups: vec![orders], highest_fence };
            if outgoing.send(message(ToAgent::Orders(orders))).await.is_err() {
                return;
            }
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            received = incoming.message() => match received {
                Ok(Some(AgentMessage { kind: Some(FromAgent::Report(report)) })) => {
                    if let Some(answer) = coordinator.hear(report) {
                        let _ = outgoing.send(message(ToAgent::Answer(answer))).await;
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            },
        }
    }
}
