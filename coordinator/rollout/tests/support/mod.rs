//! A world around the pure state machine: a log that is applied, nodes that behave, and a clock that is moved by hand.
//!
//! The golden scripts and the property tests talk to it in the same words.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::collections::BTreeMap;

use rollcall_ident::{
    BootId, ClusterId, ClusterTime, Digest, GroupName, Millis, NodeId, NodeName, PeerId, ReleaseIdent, Revision,
    SessionEpoch, WallTime,
};
use rollcall_rollout::{
    Actor, Applied, Command, Go, GroupOrders, Health, Hello, Instance, LogEntry, NodeReport, PrefetchReport, Proposal,
    Rejection, Reply, Report, RolloutKind, ServiceStatus, Stamp, State, StepEvent, StepReport, orders_for, plan,
};

pub const GROUP: &str = "redis.default";

pub fn group() -> GroupName {
    GROUP.parse().unwrap()
}

/// `2` is `acme/redis/2/20260101000000`.
pub fn release(version: &str) -> ReleaseIdent {
    format!("acme/redis/{version}/20260101000000").parse().unwrap()
}

/// One machine, as it really is; the state knows only what was reported.
#[derive(Debug, Clone)]
pub struct Machine {
    pub id: NodeId,
    pub epoch: SessionEpoch,
    pub boot: u8,
    pub release: Option<ReleaseIdent>,
    pub instance: Option<Instance>,
    pub health: Health,
    pub primary: bool,
    pub priority: Option<u64>,
    pub zone: Option<String>,
    pub connected: bool,
    pub can_prefetch: bool,
    next_pid: u32,
}

pub struct World {
    pub state: State,
    pub clock: ClusterTime,
    pub log: Vec<(Revision, LogEntry)>,
    pub machines: BTreeMap<String, Machine>,
}

impl World {
    /// A cluster with one peer and no group.
    pub fn new() -> Self {
        let mut world =
            Self { state: State::default(), clock: ClusterTime(0), log: Vec::new(), machines: BTreeMap::new() };
        world.propose(Command::InitCluster { cluster_id: ClusterId([7; 16]) });
        world.propose(Command::AddPeer { address: "127.0.0.1:7400".to_owned() });
        world
    }

    pub fn propose(&mut self, command: Command) -> Applied {
        self.propose_as(Proposal {
            actor: Actor("tester".to_owned()),
            reason: None,
            request_id: None,
            expected_revision: None,
            command,
        })
    }

    pub fn propose_as(&mut self, proposal: Proposal) -> Applied {
        let stamp = Stamp { cluster_time: self.clock, wall_time: WallTime(self.clock.0) };
        let entry = LogEntry { stamp, proposal };
        let revision = Revision(self.state.revision().0 + 1);
        self.log.push((revision, entry.clone()));
        self.state.apply(revision, &entry)
    }

    pub fn advance(&mut self, by: Millis) -> Applied {
        self.clock = self.clock + by;
        self.propose(Command::AdvanceClock)
    }

    /// What the leader's planner proposes, until it has nothing more to say.
    pub fn plan(&mut self) -> Vec<Applied> {
        let mut done = Vec::new();
        loop {
            let commands = plan(&self.state);
            if commands.is_empty() {
                return done;
            }
            for command in commands {
                let applied = self.propose(command);
                assert!(applied.outcome.is_ok(), "the planner's choice was refused: {:?}", applied.outcome);
                done.push(applied);
            }
            assert!(done.len() < 1000, "the planner never ends");
        }
    }

    /// A machine joins, or comes back.
    pub fn connect(&mut self, name: &str) -> Applied {
        let fresh = u8::try_from(self.machines.len() + 1).unwrap();
        let machine = self.machines.entry(name.to_owned()).or_insert_with(|| Machine {
            id: NodeId([fresh; 16]),
            epoch: SessionEpoch(0),
            boot: 1,
            release: None,
            instance: None,
            health: Health::Unprovisioned,
            primary: false,
            priority: None,
            zone: None,
            connected: false,
            can_prefetch: true,
            next_pid: 100,
        });
        machine.connected = true;
        let hello = self.hello(name);
        let applied = self.propose(Command::OpenSession { host: PeerId(1), hello });
        if let Ok(Reply::SessionOpened(epoch)) = applied.outcome {
            self.machine(name).epoch = epoch;
        }
        applied
    }

    pub fn hello(&mut self, name: &str) -> Hello {
        let status = self.status_of(name);
        let machine = self.machine(name);
        Hello {
            node: machine.id,
            name: name.parse().unwrap(),
            identity_locus: format!("disk of {name}"),
            machine_id: format!("machine of {name}"),
            boot_id: BootId([machine.boot; 16]),
            agent_version: "0.1.0".to_owned(),
            address: format!("{name}:1"),
            labels: machine.zone.iter().map(|zone| ("zone".to_owned(), zone.clone())).collect(),
            services: vec![status],
            highest_fence: Default::default(),
        }
    }

    pub fn disconnect(&mut self, name: &str, silent_for: Millis) -> Applied {
        let machine = self.machine(name);
        machine.connected = false;
        let (node, epoch) = (machine.id, machine.epoch);
        self.propose(Command::CloseSession { node, epoch, silent_for })
    }

    pub fn machine(&mut self, name: &str) -> &mut Machine {
        self.machines.get_mut(name).unwrap_or_else(|| panic!("no machine {name}"))
    }

    pub fn id(&self, name: &str) -> NodeId {
        self.state
            .node_named(&name.parse::<NodeName>().unwrap())
            .map_or_else(|| self.machines.get(name).unwrap_or_else(|| panic!("no machine {name}")).id, |node| node.id)
    }

    fn status_of(&self, name: &str) -> ServiceStatus {
        let machine = &self.machines[name];
        ServiceStatus {
            group: group(),
            release: machine.release.clone(),
            instance: machine.instance.clone(),
            health: machine.health,
            health_detail: String::new(),
            primary: machine.primary,
            priority: machine.priority,
        }
    }

    /// The machine says how its service stands.
    pub fn report_status(&mut self, name: &str) -> Result<(), Rejection> {
        let status = self.status_of(name);
        self.report(name, Report::Status(status))
    }

    pub fn report(&mut self, name: &str, report: Report) -> Result<(), Rejection> {
        let machine = self.machine(name);
        let report = NodeReport { node: machine.id, epoch: machine.epoch, report };
        match self.propose(Command::Reports { reports: vec![report] }).outcome {
            Ok(Reply::Reported(answers)) => answers.into_iter().next().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub fn orders(&self, name: &str) -> Option<GroupOrders> {
        let id = self.machines.get(name)?.id;
        orders_for(&self.state, id)?.groups.into_iter().find(|orders| orders.group == group())
    }

    /// Reports `event` for the step that the machine is ordered to take.
    pub fn report_step(&mut self, name: &str, event: StepEvent) -> Result<(), Rejection> {
        let order = self.orders(name).and_then(|orders| orders.step).unwrap_or_else(|| panic!("{name} has no step"));
        let report =
            StepReport { group: group(), rollout: order.rollout, fence: order.fence, attempt: order.attempt, event };
        self.report(name, Report::Step(report))
    }

    /// The machine fetches what it is told to.
    pub fn prefetch(&mut self, name: &str) -> bool {
        let Some((wanted, _)) = self.orders(name).and_then(|orders| orders.prefetch) else { return false };
        let known = self.state.nodes().get(&self.id(name)).and_then(|node| node.services.get(&group()).cloned());
        let is_known = known.and_then(|service| service.prefetch).is_some_and(|done| done.release == wanted);
        if is_known || !self.machines[name].connected {
            return false;
        }
        let outcome = if self.machines[name].can_prefetch {
            Ok(Digest([1; 32]))
        } else {
            Err(("not_found".to_owned(), "no such release".to_owned()))
        };
        self.report(
            name,
            Report::Prefetch(PrefetchReport { group: group(), release: wanted, outcome, rollback: true }),
        )
        .unwrap();
        true
    }

    /// A good agent takes the next thing that its orders and the log's phase let it do; `is_good` is how the new process
    /// turns out. False where there is nothing for it to do.
    pub fn act(&mut self, name: &str, is_good: bool) -> bool {
        use rollcall_rollout::Phase;
        if !self.machines[name].connected {
            return false;
        }
        let Some(order) = self.orders(name).and_then(|orders| orders.step) else { return false };
        let done = match (order.go, order.phase) {
            (Go::TurnBack, _) => self.report_step(name, StepEvent::TurnedBack),
            (_, Phase::Granted) => self.report_step(name, StepEvent::Accepted),
            (_, Phase::Preparing) => self.report_step(name, StepEvent::Prepared),
            (Go::Drain, _) => self.report_step(name, StepEvent::Drained),
            (Go::Finish, _) => self.report_step(name, StepEvent::Finished { timings: Default::default() }),
            (_, Phase::Stopping) => {
                let machine = self.machine(name);
                machine.instance = None;
                if machine.release.is_some() {
                    machine.health = Health::Critical;
                    self.report_status(name).unwrap();
                }
                self.report_step(name, StepEvent::Stopped { killed: false })
            }
            (_, Phase::Installing | Phase::Rebooting) => {
                self.report_step(name, StepEvent::Installed { hook_ran: true })
            }
            (_, Phase::Starting) => {
                let instance = self.start_process(name, &order.to);
                self.report_step(name, StepEvent::Started { instance })
            }
            (_, Phase::Verifying) => {
                let wanted = if is_good { Health::Healthy } else { Health::Critical };
                if self.machines[name].health == wanted {
                    return false;
                }
                self.machine(name).health = wanted;
                self.report_status(name)
            }
            (Go::Prepare | Go::Replace, phase) => panic!("{name}: an order in phase {phase}"),
        };
        done.unwrap();
        true
    }

    /// A new process of `release`, whose health isn't known yet.
    pub fn start_process(&mut self, name: &str, release: &ReleaseIdent) -> Instance {
        let machine = self.machine(name);
        machine.next_pid += 1;
        let instance = Instance {
            pid: machine.next_pid,
            start_time: u64::from(machine.next_pid),
            boot_id: BootId([machine.boot; 16]),
            release: release.clone(),
        };
        machine.release = Some(release.clone());
        machine.instance = Some(instance.clone());
        machine.health = Health::Unknown;
        self.report_status(name).unwrap();
        instance
    }

    /// Everybody does what there is to do, the planner too, until nobody has anything left to do now.
    pub fn run(&mut self, is_good: bool) {
        for _ in 0..10_000 {
            let names: Vec<String> = self.machines.keys().cloned().collect();
            let mut is_busy = !self.plan().is_empty();
            for name in &names {
                is_busy |= self.prefetch(name);
                is_busy |= self.act(name, is_good);
            }
            if !is_busy {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// Like [`run`](Self::run), and time passes to each next deadline until nothing changes any more.
    pub fn run_to_end(&mut self, is_good: bool) {
        for _ in 0..1_000 {
            self.run(is_good);
            let is_active = self
                .state
                .active_rollout(&group())
                .is_some_and(|rollout| rollout.status == rollcall_rollout::RolloutStatus::Running);
            match self.state.next_deadline().filter(|_| is_active) {
                Some(at) => {
                    self.advance(at.since(self.clock));
                }
                None => return,
            }
        }
        panic!("it never ends");
    }

    pub fn start(&mut self, version: &str) -> Applied {
        let command =
            Command::StartRollout { group: group(), target: release(version), digest: None, kind: RolloutKind::Update };
        self.propose(command)
    }
}
