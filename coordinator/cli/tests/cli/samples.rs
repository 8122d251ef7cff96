//! One cluster in the middle of a rollout, as every test sees it.

use prost_types::Timestamp;
use rollcall_proto::v1::{
    AuditHead, AuditRecord, Channel, ChannelRelease, Event, Explanation, Finding, Freeze, Group, GroupSpec,
    GroupWindows, Health, HealthOverride, Hold, Instance, Member, Moment, Node, NodeServiceState, Peer, Phase,
    PhaseTime, PlanRolloutResponse, PlannedRound, PlannedStep, Policy, QuarantinedRelease, Rollout, RolloutStatus,
    Step, StepFailure, StepTimings, Token, WaitingOn, Window, WindowFit, WindowList,
};

pub const OLD: &str = "acme/redis/7.2.0/20261101000000";
pub const NEW: &str = "acme/redis/7.2.1/20261130101500";
/// Cluster time of all answers.
pub const NOW_MS: u64 = 600_000;
pub const REVISION: u64 = 1042;

/// A moment so many milliseconds before now.
pub fn ago(ms: u64) -> Option<Moment> {
    let cluster_time_ms = NOW_MS - ms;
    let seconds = 1_796_047_452 + i64::try_from(cluster_time_ms / 1000).unwrap();
    let nanos = i32::try_from(cluster_time_ms % 1000).unwrap() * 1_000_000;
    Some(Moment { cluster_time_ms, wall_time: Some(Timestamp { seconds, nanos }) })
}

/// A time of the wall clock so many seconds after now.
pub fn in_seconds(seconds: i64) -> Option<Timestamp> {
    ago(0).and_then(|now| now.wall_time).map(|now| Timestamp { seconds: now.seconds + seconds, ..now })
}

pub fn waiting(reason: &str, detail: &str, nodes: &[&str], ms: u64) -> WaitingOn {
    let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
    WaitingOn { reason: reason.to_owned(), detail: detail.to_owned(), nodes, since: ago(ms) }
}

pub fn node_id(name: &str) -> String {
    format!("6f1c0d2e-0000-4000-8000-0000000000{:0>2}", &name[name.len() - 1..])
}

pub fn member(name: &str, release: &str, health: Health, primary: bool) -> Member {
    Member {
        node_id: node_id(name),
        node_name: name.to_owned(),
        presence: "present".to_owned(),
        release: release.to_owned(),
        health: health.into(),
        health_since: ago(300_000),
        primary,
        instance: Some(Instance {
            pid: 4711,
            start_time: 123_456,
            boot_id: "0b000000-0000-4000-8000-000000000001".to_owned(),
            release: release.to_owned(),
        }),
        ..Member::default()
    }
}

pub fn group() -> Group {
    Group {
        spec: Some(GroupSpec {
            config: Some(String::new()),
            name: "redis.default".to_owned(),
            package: Some("acme/redis".to_owned()),
            channel: Some("stable".to_owned()),
            update_condition: Some("latest".to_owned()),
            policy: Some(Policy {
                mode: Some("auto".to_owned()),
                max_parallel: Some("1".to_owned()),
                max_unavailable: Some("25%".to_owned()),
                min_healthy_time_ms: Some(10_000),
                max_failure_permille: Some(0),
                ..Policy::default()
            }),
            windows: Some(WindowList { values: vec![window("w1", &["mon", "tue"], "02:00", 7_200_000, "UTC")] }),
        }),
        target: NEW.to_owned(),
        active_rollout_id: "r1000".to_owned(),
        members: vec![
            member("redis-1", OLD, Health::Healthy, true),
            member("redis-2", NEW, Health::Healthy, false),
            member("redis-3", NEW, Health::Unknown, false),
        ],
        modified_revision: 900,
        waiting_on: Some(waiting("soak", "redis-3 to stay healthy for its min_healthy_time", &["redis-3"], 4_000)),
        left_out_nodes: vec!["redis-4".to_owned()],
        typical_step_ms: Some(20_000),
    }
}

pub fn window(id: &str, days: &[&str], start_time: &str, length_ms: u64, time_zone: &str) -> Window {
    Window {
        window_id: id.to_owned(),
        days: days.iter().map(|day| (*day).to_owned()).collect(),
        start_time: start_time.to_owned(),
        length_ms,
        time_zone: time_zone.to_owned(),
    }
}

/// An open group, a closed one, and one that only a freeze closes.
pub fn group_windows() -> Vec<GroupWindows> {
    let group =
        |name: &str, open, changes_at, windows| GroupWindows { group: name.to_owned(), windows, open, changes_at };
    let nightly = window("w2", &[], "23:30", 5_400_000, "Europe/Berlin");
    vec![
        group(
            "redis.default",
            true,
            in_seconds(3_600),
            vec![window("w1", &["mon", "tue"], "14:00", 7_200_000, "UTC"), nightly],
        ),
        group("web.default", false, in_seconds(7_200), vec![window("w1", &["sat"], "02:00", 3_600_000, "UTC")]),
        group("db.default", false, None, Vec::new()),
    ]
}

pub fn freezes() -> Vec<Freeze> {
    vec![
        Freeze {
            freeze_id: "f990".to_owned(),
            groups: vec!["redis.default".to_owned(), "web.default".to_owned()],
            from: in_seconds(86_400),
            until: in_seconds(864_000),
            by: "ops@bastion".to_owned(),
            reason: "holidays: only those who must are here, and nobody wants to be called".to_owned(),
        },
        Freeze {
            freeze_id: "f1001".to_owned(),
            from: in_seconds(-60),
            by: "ops@bastion".to_owned(),
            ..Freeze::default()
        },
    ]
}

pub fn quarantine() -> Vec<QuarantinedRelease> {
    vec![QuarantinedRelease {
        ident: NEW.to_owned(),
        by: "rollcall".to_owned(),
        reason: "a step of r1000 failed, and it went back".to_owned(),
        since: ago(60_000),
        modified_revision: REVISION - 20,
    }]
}

pub fn findings() -> Vec<Finding> {
    let finding = |severity: &str, check: &str, subject: &str, text: &str, advice: &str| Finding {
        severity: severity.to_owned(),
        check: check.to_owned(),
        subject: subject.to_owned(),
        text: text.to_owned(),
        advice: advice.to_owned(),
    };
    vec![
        finding(
            "error",
            "stuck_token",
            "node redis-3",
            "It has held its token for 3h and is away.",
            "`rollcall explain redis-3`",
        ),
        finding(
            "warning",
            "disk_low",
            "peer 2",
            "5 % of its disk is left: 812 MiB on /var/lib/rollcall-coordinator.",
            "",
        ),
    ]
}

fn phase_time(phase: Phase, ms: u64) -> PhaseTime {
    PhaseTime { phase: phase.into(), attempt: 1, entered_at: ago(ms) }
}

pub fn step(name: &str, phase: Phase, ms: u64) -> Step {
    Step {
        node_id: node_id(name),
        node_name: name.to_owned(),
        phase: phase.into(),
        phase_since: ago(ms),
        attempt: 1,
        from: OLD.to_owned(),
        to: NEW.to_owned(),
        ..Step::default()
    }
}

/// One step done, one verifying, one queued.
pub fn rollout() -> Rollout {
    let done = Step {
        fence: 1001,
        history: vec![
            phase_time(Phase::Queued, 90_000),
            phase_time(Phase::Granted, 80_000),
            phase_time(Phase::Verifying, 70_000),
            phase_time(Phase::Succeeded, 60_000),
        ],
        timings: Some(StepTimings {
            total_us: 19_980_500,
            hooks_us: 9_000_000,
            service_us: 900_000,
            soak_us: 10_000_000,
        }),
        member: Some(member("redis-2", NEW, Health::Healthy, false)),
        ..step("redis-2", Phase::Succeeded, 60_000)
    };
    let verifying = Step {
        fence: 1020,
        holds_token: true,
        history: vec![
            phase_time(Phase::Queued, 90_000),
            phase_time(Phase::Granted, 59_000),
            phase_time(Phase::Verifying, 6_000),
        ],
        soaked_ms: 4_000,
        soak_needed_ms: 10_000,
        member: Some(member("redis-3", NEW, Health::Healthy, false)),
        ..step("redis-3", Phase::Verifying, 6_000)
    };
    let queued = Step {
        waiting_on: Some(waiting(
            "budget_exhausted",
            "redis-3 not known healthy; max_unavailable is 1",
            &["redis-3"],
            59_000,
        )),
        member: Some(member("redis-1", OLD, Health::Healthy, true)),
        history: vec![phase_time(Phase::Queued, 90_000)],
        ..step("redis-1", Phase::Queued, 90_000)
    };
    Rollout {
        rollout_id: "r1000".to_owned(),
        group: "redis.default".to_owned(),
        target: NEW.to_owned(),
        status: RolloutStatus::Running.into(),
        kind: "update".to_owned(),
        source: "channel stable".to_owned(),
        started_by: "ops@bastion".to_owned(),
        reason: "CVE-2026-1234".to_owned(),
        started_at: ago(90_000),
        steps: vec![done, verifying, queued],
        waiting_on: Some(waiting("soak", "redis-3 to stay healthy for its min_healthy_time", &["redis-3"], 4_000)),
        modified_revision: 1040,
        ..Rollout::default()
    }
}

/// The same, stopped by a failed step.
pub fn paused_rollout() -> Rollout {
    let mut rollout = rollout();
    rollout.status = RolloutStatus::Paused.into();
    rollout.pause_causes = vec!["step_failed".to_owned()];
    rollout.waiting_on = None;
    rollout.steps[1].phase = Phase::Failed.into();
    rollout.steps[1].failure = Some(StepFailure {
        phase: Phase::Verifying.into(),
        reason: "healthy_deadline".to_owned(),
        detail: "never healthy within 5m".to_owned(),
        output: "PING: connection refused\n".to_owned(),
    });
    rollout
}

/// The same on its way back: one step is back, one is on its way, one had not begun.
pub fn rolling_back_rollout() -> Rollout {
    let mut rollout = rollout();
    rollout.status = RolloutStatus::RollingBack.into();
    rollout.going_back_why = "aborted: loses writes".to_owned();
    rollout.going_back_since = ago(20_000);
    rollout.approved_by = "boss@bastion".to_owned();
    let [first, second, third] = &mut rollout.steps[..] else { panic!("there are three steps") };
    for step in [&mut *first, &mut *second] {
        step.way = "back".to_owned();
        (step.from, step.to) = (NEW.to_owned(), OLD.to_owned());
    }
    third.phase = Phase::Skipped.into();
    third.skipped = "not_begun".to_owned();
    third.waiting_on = None;
    rollout
}

/// The same, waiting for what only a person can say.
pub fn waiting_rollout(status: RolloutStatus, reason: &str, detail: &str) -> Rollout {
    let mut rollout = rollout();
    rollout.status = status.into();
    rollout.batch = 1;
    rollout.waiting_on = Some(waiting(reason, detail, &[], 4_000));
    rollout
}

/// The same at its end.
pub fn succeeded_rollout() -> Rollout {
    let mut rollout = rollout();
    rollout.status = RolloutStatus::Succeeded.into();
    rollout.ended_at = ago(0);
    rollout.waiting_on = None;
    for step in &mut rollout.steps {
        step.phase = Phase::Succeeded.into();
        step.phase_since = ago(0);
        step.waiting_on = None;
        step.history.push(phase_time(Phase::Succeeded, 0));
    }
    rollout
}

pub fn node() -> Node {
    Node {
        node_id: node_id("redis-3"),
        name: "redis-3".to_owned(),
        presence: "present".to_owned(),
        presence_since: ago(300_000),
        host_peer_id: 2,
        session_epoch: 17,
        address: "10.0.1.3".to_owned(),
        boot_id: "0b000000-0000-4000-8000-000000000001".to_owned(),
        agent_version: "0.1.0".to_owned(),
        labels: [("zone".to_owned(), "a".to_owned())].into(),
        services: vec![NodeServiceState {
            group: "redis.default".to_owned(),
            member: Some(member("redis-3", NEW, Health::Healthy, false)),
        }],
        highest_fence: 1020,
        hold: Some(Hold {
            by: "ops@bastion".to_owned(),
            reason: "memory is being replaced".to_owned(),
            since: ago(60_000),
            until: in_seconds(7_200),
        }),
        health_override: Some(HealthOverride {
            health: "unhealthy".to_owned(),
            by: "ops@bastion".to_owned(),
            reason: "answers with old data".to_owned(),
            since: ago(30_000),
        }),
        ..Node::default()
    }
}

pub fn token() -> Token {
    Token {
        node_id: node_id("redis-3"),
        node_name: "redis-3".to_owned(),
        group: "redis.default".to_owned(),
        rollout_id: "r1000".to_owned(),
        fence: 1020,
        granted_at: ago(59_000),
        phase: Phase::Verifying.into(),
        next_deadline: "healthy_deadline".to_owned(),
        next_deadline_in_ms: 294_000,
    }
}

pub fn channel() -> Channel {
    let release = |ident: &str, digest: &str, ms| ChannelRelease {
        ident: ident.to_owned(),
        digest: digest.to_owned(),
        promoted_at: ago(ms),
    };
    Channel {
        name: "stable".to_owned(),
        modified_revision: REVISION - 30,
        releases: vec![release(NEW, &"ab".repeat(32), 90_000), release(OLD, "", 500_000)],
    }
}

pub fn events() -> Vec<Event> {
    let event = |revision, kind: &str, ms, message: &str, actor: &str, reason: &str| Event {
        revision,
        at: ago(ms),
        kind: kind.to_owned(),
        group: "redis.default".to_owned(),
        rollout_id: "r1000".to_owned(),
        message: message.to_owned(),
        actor: actor.to_owned(),
        reason: reason.to_owned(),
        ..Event::default()
    };
    vec![
        event(
            1000,
            "rollout_started",
            90_000,
            &format!("r1000 of redis.default to {NEW} started"),
            "ops@bastion",
            "CVE-2026-1234",
        ),
        event(1020, "token_granted", 59_000, "redis-3 may be down (fence 1020)", "", ""),
        event(1042, "step_failed", 0, "redis-3 failed: healthy_deadline while verifying", "", ""),
    ]
}

pub fn explanations() -> Vec<Explanation> {
    let link = |subject: &str, reason: &str, text: &str, ms, released_by: &str, depth| Explanation {
        subject: subject.to_owned(),
        reason: reason.to_owned(),
        text: text.to_owned(),
        since: ago(ms),
        released_by: released_by.to_owned(),
        depth,
    };
    vec![
        link(
            "rollout r1000",
            "step_failed",
            "The step of redis-3 failed, and the group's failure_action is pause.",
            4_000,
            "rollcall rollout retry r1000",
            0,
        ),
        link("node redis-3", "healthy_deadline", "It was never healthy within 5m.", 4_000, "", 1),
    ]
}

pub fn plan() -> PlanRolloutResponse {
    let step = |name: &str, placed_by: &str| PlannedStep {
        node_name: name.to_owned(),
        from: OLD.to_owned(),
        to: NEW.to_owned(),
        placed_by: placed_by.to_owned(),
    };
    PlanRolloutResponse {
        revision: REVISION,
        group: "redis.default".to_owned(),
        target: NEW.to_owned(),
        rounds: vec![
            PlannedRound { steps: vec![step("redis-3", "by_order")], batch: 0, awaits_promotion: false },
            PlannedRound {
                steps: vec![step("redis-4", "by_order"), step("redis-5", "by_order")],
                batch: 1,
                awaits_promotion: true,
            },
            PlannedRound { steps: vec![step("redis-1", "primary_last")], batch: 1, awaits_promotion: false },
        ],
        unchanged_nodes: vec!["redis-2".to_owned()],
        blockers: vec![waiting("budget_exhausted", "redis-3 is not healthy", &["redis-3"], 4_000)],
        takes_ms: Some(185_000),
        window: Some(WindowFit { opens_at: in_seconds(3_600), closes_at: in_seconds(10_800), fits: Some(true) }),
    }
}

pub fn peers() -> Vec<Peer> {
    let peer = |peer_id, leader, reachable| Peer {
        peer_id,
        address: format!("10.0.0.{peer_id}:7400"),
        voter: true,
        leader,
        reachable,
        matched_revision: Some(REVISION),
        last_heard_ms: (!leader).then_some(40),
        version: "0.1.0".to_owned(),
        feature_level: 1,
    };
    vec![peer(1, true, true), peer(2, false, true), peer(3, false, false)]
}

/// Records of an audit trail whose older part is gone.
pub fn audit() -> Vec<AuditRecord> {
    let mut previous = AuditHead { revision: 990, hash: vec![0x5a; 32] };
    let mut records = Vec::new();
    for event in events() {
        let record = event.message.clone().into_bytes();
        let hash = blake3::Hasher::new().update(&previous.hash).update(&record).finalize().as_bytes().to_vec();
        let head = AuditHead { revision: event.revision, hash: hash.clone() };
        records.push(AuditRecord {
            revision: event.revision,
            at: event.at,
            actor: event.actor.clone(),
            reason: event.reason.clone(),
            events: vec![event],
            record,
            previous: Some(previous),
            hash,
        });
        previous = head;
    }
    records
}
