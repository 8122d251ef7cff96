//! A world around the pure state machine: a log that is applied, nodes that behave, and a clock that is moved by hand.
//!
//! The golden scripts and the property tests talk to it in the same words.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

pub mod docs;

use std::collections::BTreeMap;

use rollcall_ident::{
    BootId, ClusterId, ClusterTime, Digest, Fence, GroupName, Millis, NodeId, NodeName, PeerId, ReleaseIdent, Revision,
    SessionEpoch, WallTime,
};
use rollcall_rollout::{
    Actor, Applied, Command, Go, GroupOrders, Health, Hello, Instance, LogEntry, NodeReport, PrefetchReport, Proposal,
    Rejection, Reply, Report, RolloutKind, RolloutVerb, ServiceStatus, Stamp, State, StepEvent, StepReport,
    next_leaders, orders_for, plan,
};

pub const GROUP: &str = "redis.default";

pub fn group() -> GroupName {
    GROUP.parse().unwrap()
}

/// `2` is `acme/redis/2/20260101000000`.
pub fn release(version: &str) -> ReleaseIdent {
    let (version, config) = version.split_once('@').map_or((version, String::new()), |(v, c)| (v, format!("@{c}")));
    format!("acme/redis/{version}/20260101000000{config}").parse().unwrap()
}

/// The wall clock when cluster time begins: Monday, 2026-11-30T00:00:00Z.
pub const MIDNIGHT: u64 = 1_795_996_800_000;

/// One machine, as it really is; the state knows only what was reported.
#[derive(Debug, Clone)]
pub struct Machine {
    pub id: NodeId,
    pub epoch: SessionEpoch,
    pub boot: u8,
    pub zone: Option<String>,
    pub hosts_peer: Option<String>,
    pub connected: bool,
    pub services: BTreeMap<GroupName, Service>,
    next_pid: u32,
    /// The step whose last hook has ended.
    pub finished: Option<Fence>,
}

/// One service of a machine.
#[derive(Debug, Clone)]
pub struct Service {
    pub release: Option<ReleaseIdent>,
    pub instance: Option<Instance>,
    pub health: Health,
    pub primary: bool,
    pub priority: Option<u64>,
    pub can_prefetch: bool,
}

impl Service {
    fn fresh() -> Self {
        Self {
            release: None,
            instance: None,
            health: Health::Unprovisioned,
            primary: false,
            priority: None,
            can_prefetch: true,
        }
    }
}

#[derive(Clone)]
pub struct World {
    pub state: State,
    pub clock: ClusterTime,
    pub log: Vec<(Revision, LogEntry)>,
    pub machines: BTreeMap<String, Machine>,
    /// The group that is spoken of.
    pub group: GroupName,
    /// Who speaks.
    pub actor: String,
    /// The revision that they have seen, where they say.
    pub expected_revision: Option<Revision>,
    /// Releases whose nodes can't go back.
    pub one_way: Vec<ReleaseIdent>,
}

impl World {
    /// A cluster with one peer and no group.
    pub fn new() -> Self {
        let mut world = Self {
            state: State::default(),
            clock: ClusterTime(0),
            log: Vec::new(),
            machines: BTreeMap::new(),
            group: group(),
            actor: "tester".to_owned(),
            expected_revision: None,
            one_way: Vec::new(),
        };
        world.propose(Command::InitCluster { cluster_id: ClusterId([7; 16]) });
        world.propose(Command::AddPeer { address: "127.0.0.1:7400".to_owned() });
        world
    }

    pub fn propose(&mut self, command: Command) -> Applied {
        self.propose_as(Proposal {
            actor: Actor(self.actor.clone()),
            reason: None,
            request_id: None,
            expected_revision: self.expected_revision,
            command,
        })
    }

    pub fn propose_as(&mut self, proposal: Proposal) -> Applied {
        let stamp = Stamp { cluster_time: self.clock, wall_time: self.wall_time() };
        let entry = LogEntry { stamp, proposal };
        let revision = Revision(self.state.revision().0 + 1);
        self.log.push((revision, entry.clone()));
        self.state.apply(revision, &entry)
    }

    pub fn wall_time(&self) -> WallTime {
        WallTime(MIDNIGHT + self.clock.0)
    }

    pub fn advance(&mut self, by: Millis) -> Applied {
        self.clock = self.clock + by;
        self.propose(Command::AdvanceClock)
    }

    /// What the leader's planner proposes, until it has nothing more to say.
    pub fn plan(&mut self) -> Vec<Applied> {
        let mut done = Vec::new();
        loop {
            let mut commands = plan(&self.state);
            // Leadership is handed over at once; the new leader says so.
            commands.extend(next_leaders(&self.state).first().map(|leader| self.led_by(*leader)));
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

    /// What a new leader says, to whom all do as they did.
    fn led_by(&self, leader: PeerId) -> Command {
        let standings = self.state.peers().values().map(|peer| (peer.id, peer.standing)).collect();
        Command::NotePeers { leader, standings }
    }

    /// A machine joins, or comes back.
    pub fn connect(&mut self, name: &str) -> Applied {
        let fresh = u8::try_from(self.machines.len() + 1).unwrap();
        let group = self.group.clone();
        let machine = self.machines.entry(name.to_owned()).or_insert_with(|| Machine {
            id: NodeId([fresh; 16]),
            epoch: SessionEpoch(0),
            boot: 1,
            zone: None,
            hosts_peer: None,
            connected: false,
            services: BTreeMap::from([(group, Service::fresh())]),
            next_pid: 100,
            finished: None,
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
        let groups: Vec<GroupName> = self.machine(name).services.keys().cloned().collect();
        let services = groups.iter().map(|group| self.status_of(name, group)).collect();
        let machine = self.machine(name);
        Hello {
            node: machine.id,
            name: name.parse().unwrap(),
            identity_locus: format!("disk of {name}"),
            machine_id: format!("machine of {name}"),
            hosts_peer: machine.hosts_peer.clone(),
            boot_id: BootId([machine.boot; 16]),
            agent_version: "0.1.0".to_owned(),
            address: format!("{name}:1"),
            labels: machine.zone.iter().map(|zone| ("zone".to_owned(), zone.clone())).collect(),
            services,
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

    /// The machine's service of the group that is spoken of.
    pub fn service(&mut self, name: &str) -> &mut Service {
        let group = self.group.clone();
        self.machine(name).services.get_mut(&group).unwrap_or_else(|| panic!("{name} has no service of {group}"))
    }

    /// The machine's configuration names the group from its next hello on, or names it no more.
    pub fn configure(&mut self, name: &str, group: &GroupName, is_member: bool) {
        let services = &mut self.machine(name).services;
        if is_member {
            services.entry(group.clone()).or_insert_with(Service::fresh);
        } else {
            services.remove(group);
        }
    }

    /// Speaks of another group for a while.
    pub fn within<T>(&mut self, group: &GroupName, what: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.group, group.clone());
        let out = what(self);
        self.group = before;
        out
    }

    pub fn id(&self, name: &str) -> NodeId {
        self.state
            .node_named(&name.parse::<NodeName>().unwrap())
            .map_or_else(|| self.machines.get(name).unwrap_or_else(|| panic!("no machine {name}")).id, |node| node.id)
    }

    fn status_of(&self, name: &str, group: &GroupName) -> ServiceStatus {
        let service = &self.machines[name].services[group];
        ServiceStatus {
            group: group.clone(),
            release: service.release.clone(),
            instance: service.instance.clone(),
            health: service.health,
            health_detail: String::new(),
            primary: service.primary,
            priority: service.priority,
        }
    }

    /// The machine says how its service stands.
    pub fn report_status(&mut self, name: &str) -> Result<(), Rejection> {
        let status = self.status_of(name, &self.group);
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
        orders_for(&self.state, id)?.groups.into_iter().find(|orders| orders.group == self.group)
    }

    /// Reports `event` for the step that the machine is ordered to take.
    pub fn report_step(&mut self, name: &str, event: StepEvent) -> Result<(), Rejection> {
        let order = self.orders(name).and_then(|orders| orders.step).unwrap_or_else(|| panic!("{name} has no step"));
        let report = StepReport {
            group: self.group.clone(),
            rollout: order.rollout,
            fence: order.fence,
            attempt: order.attempt,
            event,
        };
        self.report(name, Report::Step(report))
    }

    /// The machine fetches what it is told to.
    pub fn prefetch(&mut self, name: &str) -> bool {
        let Some(wanted) = self.orders(name).and_then(|orders| orders.prefetch) else { return false };
        let wanted = wanted.release;
        let known = self.state.nodes().get(&self.id(name)).and_then(|node| node.services.get(&self.group).cloned());
        let is_known = known.and_then(|service| service.prefetch).is_some_and(|done| done.release == wanted);
        if is_known || !self.machines[name].connected {
            return false;
        }
        let outcome = if self.service(name).can_prefetch {
            Ok(Digest([1; 32]))
        } else {
            Err(("not_found".to_owned(), "no such release".to_owned()))
        };
        self.report(
            name,
            Report::Prefetch(PrefetchReport {
                group: self.group.clone(),
                rollback: !self.one_way.contains(&wanted),
                release: wanted,
                outcome,
            }),
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
        let Some(order) = self.orders(name).and_then(|orders| orders.step) else {
            // Health checks go on without a step.
            let service = self.service(name);
            if !is_good || service.instance.is_none() || service.health != Health::Unknown {
                return false;
            }
            service.health = Health::Healthy;
            return self.report_status(name).is_ok();
        };
        let done = match (order.go, order.phase) {
            (Go::TurnBack, Phase::Stopping) => {
                self.stop_process(name);
                self.report_step(name, StepEvent::Stopped { killed: false })
            }
            (Go::TurnBack, Phase::Installing) => {
                self.report_step(name, StepEvent::Installed { hook_ran: true }).unwrap();
                self.report_step(name, StepEvent::TurnedBack)
            }
            (Go::TurnBack, _) => self.report_step(name, StepEvent::TurnedBack),
            (_, Phase::Granted) => self.report_step(name, StepEvent::Accepted),
            (_, Phase::Preparing) => self.report_step(name, StepEvent::Prepared),
            (Go::Drain, _) => self.report_step(name, StepEvent::Drained),
            // What a crash took down is started again, as it is the step's own release.
            (Go::Finish, _) if self.service(name).instance.is_none() => {
                self.start_process(name, &order.to);
                Ok(())
            }
            (Go::Finish, _) if self.machine(name).finished.replace(order.fence) != Some(order.fence) => {
                self.report_step(name, StepEvent::Finished { timings: Default::default() })
            }
            (_, Phase::Stopping) => {
                self.stop_process(name);
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
                if self.service(name).health == wanted {
                    return false;
                }
                self.service(name).health = wanted;
                self.report_status(name)
            }
            (Go::Prepare | Go::Replace | Go::Finish, phase) => panic!("{name}: an order in phase {phase}"),
        };
        done.unwrap();
        true
    }

    fn stop_process(&mut self, name: &str) {
        let service = self.service(name);
        service.instance = None;
        if service.release.is_some() {
            service.health = Health::Critical;
            self.report_status(name).unwrap();
        }
    }

    /// The machine boots, and its agent connects again.
    pub fn reboot(&mut self, name: &str) -> Applied {
        let machine = self.machine(name);
        machine.boot = machine.boot.wrapping_add(1);
        for service in machine.services.values_mut() {
            service.instance = None;
            if service.release.is_some() {
                service.health = Health::Unknown;
            }
        }
        self.connect(name)
    }

    /// What an operator says to the group's latest rollout.
    pub fn steer(&mut self, verb: RolloutVerb) -> Applied {
        let rollout = self.state.latest_rollout(&self.group).map(|rollout| rollout.id).unwrap_or_default();
        self.propose(Command::Steer { rollout, verb })
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
        let service = self.service(name);
        service.release = Some(release.clone());
        service.instance = Some(instance.clone());
        service.health = Health::Unknown;
        self.report_status(name).unwrap();
        instance
    }

    /// The planner and the machines take so many turns.
    pub fn run_for(&mut self, turns: usize) {
        let names: Vec<String> = self.machines.keys().cloned().collect();
        for name in names.iter().cycle().take(turns) {
            self.plan();
            if self.machine(name).services.contains_key(&group()) {
                let _ = self.prefetch(name) | self.act(name, true);
            }
        }
    }

    /// Everybody does what there is to do, the planner too, until nobody has anything left to do now.
    pub fn run(&mut self, is_good: bool) {
        for _ in 0..10_000 {
            let names: Vec<String> = self.machines.keys().cloned().collect();
            let groups: Vec<GroupName> = self.state.groups().keys().cloned().collect();
            let mut is_busy = !self.plan().is_empty();
            for (name, group) in names.iter().flat_map(|name| groups.iter().map(move |group| (name, group))) {
                if self.machine(name).services.contains_key(group) {
                    is_busy |= self.within(group, |world| world.prefetch(name) | world.act(name, is_good));
                }
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
                .groups()
                .keys()
                .any(|group| self.state.active_rollout(group).is_some_and(|rollout| rollout.status.is_moving()));
            let alarm = self.state.next_alarm().map(|at| ClusterTime(at.0.saturating_sub(MIDNIGHT)));
            match self.state.next_deadline().into_iter().chain(alarm).min().filter(|_| is_active) {
                Some(at) => {
                    self.advance(at.since(self.clock));
                }
                None => return,
            }
        }
        panic!("it never ends");
    }

    pub fn start(&mut self, version: &str) -> Applied {
        let (group, target) = (self.group.clone(), release(version));
        self.propose(Command::StartRollout { group, target, digest: None, kind: RolloutKind::Update })
    }
}
