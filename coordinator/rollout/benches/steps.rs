//! What a step costs the state machine, and what a look costs the planner, by the size of the group.
//!
//! `cargo bench -p rollcall-rollout` prints it. Goals: the cost of a step grows by less than 1.3 times from 100 nodes to
//! 100,000, and `plan` over 10,000 nodes takes under 20 ms.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark that can't go on panics")]

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rollcall_ident::{
    BootId, ClusterId, ClusterTime, Digest, Fence, GroupName, Millis, NodeId, PeerId, ReleaseIdent, Revision,
    RolloutId, SessionEpoch, WallTime,
};
use rollcall_rollout::{
    Actor, Command, GroupPatch, Health, Hello, Instance, LogEntry, NodeReport, PolicyPatch, PrefetchReport, Proposal,
    Reply, Report, RolloutKind, ServiceStatus, Stamp, State, StepEvent, StepReport, plan, preview,
};

/// What the peer allocates with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SIZES: [u32; 4] = [100, 1_000, 10_000, 100_000];
const STEPS: u32 = 50;
const BOOT: BootId = BootId([1; 16]);

fn group() -> GroupName {
    "redis.default".parse().unwrap()
}

fn release(version: u32) -> ReleaseIdent {
    format!("acme/redis/{version}/20260101000000").parse().unwrap()
}

fn node(n: u32) -> NodeId {
    let mut id = [0; 16];
    id[12..].copy_from_slice(&n.to_be_bytes());
    NodeId(id)
}

/// A cluster whose nodes do what they are told, at once.
#[derive(Clone)]
struct Fleet {
    state: State,
    clock: ClusterTime,
}

impl Fleet {
    /// A rollout to release 2 over `size` healthy nodes that run release 1 and have fetched release 2.
    fn on_the_way(size: u32) -> Self {
        let mut fleet = Self { state: State::default(), clock: ClusterTime(0) };
        fleet.propose(Command::InitCluster { cluster_id: ClusterId([7; 16]) });
        let policy = PolicyPatch { min_healthy_time: Some(Millis(1)), ..PolicyPatch::default() };
        let package = Some("acme/redis".parse().unwrap());
        let patch = GroupPatch {
            name: group(),
            package,
            channel: None,
            update_condition: None,
            policy,
            config: None,
            windows: None,
        };
        fleet.propose(Command::ApplyGroup { patch });
        for n in 0..size {
            let hello = Hello {
                node: node(n),
                name: format!("redis-{n:06}").parse().unwrap(),
                identity_locus: String::new(),
                machine_id: String::new(),
                hosts_peer: None,
                boot_id: BOOT,
                agent_version: String::new(),
                address: String::new(),
                labels: [].into(),
                services: vec![status(1, n, 1, Health::Healthy)],
                highest_fence: Fence(0),
            };
            fleet.propose(Command::OpenSession { host: PeerId(1), hello });
        }
        let kind = RolloutKind::Update;
        fleet.propose(Command::StartRollout { group: group(), target: release(2), digest: None, kind });
        for n in 0..size {
            let outcome = Ok(Digest([1; 32]));
            let report = PrefetchReport { group: group(), release: release(2), outcome, rollback: true };
            fleet.report(n, Report::Prefetch(report));
        }
        fleet
    }

    fn propose(&mut self, command: Command) -> Reply {
        let proposal =
            Proposal { actor: Actor::coordinator(), reason: None, request_id: None, expected_revision: None, command };
        let stamp = Stamp { cluster_time: self.clock, wall_time: WallTime(self.clock.0) };
        let revision = Revision(self.state.revision().0 + 1);
        self.state.apply(revision, &LogEntry { stamp, proposal }).outcome.unwrap()
    }

    fn report(&mut self, n: u32, report: Report) {
        let epoch = self.state.nodes().get(&node(n)).unwrap().session().map_or(SessionEpoch(0), |it| it.epoch);
        let reports = vec![NodeReport { node: node(n), epoch, report }];
        match self.propose(Command::Reports { reports }) {
            Reply::Reported(answers) => answers.into_iter().for_each(|answer| answer.unwrap()),
            other => panic!("{other:?}"),
        }
    }

    /// The planner's next choice, and all that becomes of it: eleven entries.
    fn take_step(&mut self) {
        let grant = plan(&self.state).pop().unwrap();
        let Command::GrantToken { rollout, node: id, .. } = &grant else { panic!("{grant:?}") };
        let (rollout, n) = (*rollout, u32::from_be_bytes(id.0[12..].try_into().unwrap()));
        let Reply::Granted(fence) = self.propose(grant) else { panic!("no fence") };
        let instance = instance(2, n, 2);
        for event in [
            StepEvent::Accepted,
            StepEvent::Prepared,
            StepEvent::Drained,
            StepEvent::Stopped { killed: false },
            StepEvent::Installed { hook_ran: true },
            StepEvent::Started { instance },
        ] {
            self.report_step(n, rollout, fence, event);
        }
        self.report(n, Report::Status(status(2, n, 2, Health::Healthy)));
        self.clock = self.clock + Millis(1);
        self.propose(Command::AdvanceClock);
        self.report_step(n, rollout, fence, StepEvent::Finished { timings: Default::default() });
    }

    fn report_step(&mut self, n: u32, rollout: RolloutId, fence: Fence, event: StepEvent) {
        self.report(n, Report::Step(StepReport { group: group(), rollout, fence, attempt: 1, event }));
    }
}

fn status(version: u32, n: u32, boot: u64, health: Health) -> ServiceStatus {
    ServiceStatus {
        group: group(),
        release: Some(release(version)),
        instance: Some(instance(version, n, boot)),
        health,
        health_detail: String::new(),
        primary: false,
        priority: None,
    }
}

fn instance(version: u32, n: u32, start_time: u64) -> Instance {
    Instance { pid: n + 2, start_time, boot_id: BOOT, release: release(version) }
}

/// The fleets that the chosen benchmarks ask for, each made once.
#[derive(Default)]
struct Fleets(BTreeMap<u32, Fleet>);

impl Fleets {
    fn of(&mut self, size: u32) -> &Fleet {
        self.0.entry(size).or_insert_with(|| Fleet::on_the_way(size))
    }
}

fn steps(c: &mut Criterion) {
    let mut fleets = Fleets::default();
    let mut bench = c.benchmark_group("step");
    bench.sample_size(20).throughput(Throughput::Elements(u64::from(STEPS)));
    for size in SIZES {
        bench.bench_function(BenchmarkId::from_parameter(size), |b| {
            let steps = |mut fleet: Fleet| {
                (0..STEPS).for_each(|_| fleet.take_step());
                fleet
            };
            let fleet = fleets.of(size);
            b.iter_batched(|| fleet.clone(), steps, BatchSize::PerIteration);
        });
    }
    bench.finish();

    let mut bench = c.benchmark_group("plan");
    for size in SIZES {
        bench.bench_function(BenchmarkId::from_parameter(size), |b| {
            let state = &fleets.of(size).state;
            b.iter(|| plan(black_box(state)));
        });
    }
    bench.finish();

    let mut bench = c.benchmark_group("preview");
    bench.sample_size(10);
    for size in SIZES.into_iter().take(3) {
        bench.bench_function(BenchmarkId::from_parameter(size), |b| {
            let (state, target) = (&fleets.of(size).state, release(3));
            b.iter(|| preview(black_box(state), &group(), &target).unwrap());
        });
    }
    bench.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
