//! The real `apply` and `plan` as a model: three nodes, operators, faults, leader changes and a planner that errs, in every
//! order, up to small bounds. What the checks see is what machines really do, beside what the log knows.

use std::fmt;
use std::hash::{Hash, Hasher};

use rollcall_ident::{Millis, NodeId, PeerId, SessionEpoch};
use rollcall_rollout::{
    Command, GroupPatch, Health, PauseCause, Phase, PolicyPatch, RolloutStatus, RolloutVerb, State, StepEvent, Subject,
    check, explain,
};
use stateright::{Model, Property};

use crate::support::{World, group, release};

mod view;

pub const NAMES: [&str; 3] = ["a", "b", "c"];

/// How far the model goes.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// What operators say on one path.
    pub said: u8,
    /// What goes wrong on one path.
    pub faults: u8,
    /// One state of so many is asked for its way forward; that costs as much as a thousand steps.
    pub ask_one_of: u64,
}

pub struct Cluster {
    pub bounds: Bounds,
    pub start: World,
}

/// One thing that may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The planner's choice is proposed.
    Plan,
    /// A planner that errs proposes this node.
    Grant(usize),
    /// Cluster time comes to the next deadline.
    Clock,
    /// The agent does the next thing that its orders say.
    Act(usize),
    /// A report of an attempt long gone arrives.
    Echo(usize),
    Connect(usize),
    Disconnect(usize),
    Reboot(usize),
    Flip(usize),
    Fail(usize),
    /// The leader's sessions are gone with it; agents come back one by one.
    LeaderChange,
    Say(Word),
}

/// What an operator says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    Pause,
    Resume,
    Stop,
    Abort,
    Retry,
    Skip(usize),
    Start(u8),
    Hold(usize),
    Release(usize),
    Revoke(usize),
    Quarantine,
}

/// Where the model stands.
#[derive(Clone)]
pub struct Standing {
    pub world: World,
    said: u8,
    faults: u8,
    /// What has been seen to be wrong on the way here.
    pub wrong: Option<String>,
    view: String,
}

impl Hash for Standing {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.view.hash(hasher);
    }
}

impl PartialEq for Standing {
    fn eq(&self, other: &Self) -> bool {
        self.view == other.view
    }
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.view)
    }
}

impl Cluster {
    /// Three members, well on release 1, and a rollout to release 2 that has just been started.
    pub fn new(bounds: Bounds, policy: PolicyPatch) -> Self {
        let mut world = World::new();
        let policy = PolicyPatch { min_healthy_time: Some(Millis::from_secs(2)), ..policy };
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
        world.propose(Command::ApplyGroup { patch }).outcome.unwrap();
        for name in NAMES {
            world.connect(name).outcome.unwrap();
        }
        world.start("1").outcome.unwrap();
        world.run_to_end(true);
        world.start("2").outcome.unwrap();
        fetch(&mut world);
        world.log.clear();
        Self { bounds, start: world }
    }
}

impl Model for Cluster {
    type State = Standing;
    type Action = Action;

    fn init_states(&self) -> Vec<Standing> {
        vec![Standing::of(self.start.clone(), 0, 0, None)]
    }

    fn actions(&self, state: &Standing, actions: &mut Vec<Action>) {
        let is_up = |node: usize| state.world.machines[NAMES[node]].connected;
        actions.extend([Action::Plan, Action::Clock]);
        for node in 0..NAMES.len() {
            let free = if is_up(node) { Action::Act(node) } else { Action::Connect(node) };
            actions.extend([free, Action::Grant(node), Action::Echo(node)]);
        }
        if state.faults < self.bounds.faults {
            actions.push(Action::LeaderChange);
            for node in (0..NAMES.len()).filter(|node| is_up(*node)) {
                actions.extend([
                    Action::Disconnect(node),
                    Action::Reboot(node),
                    Action::Flip(node),
                    Action::Fail(node),
                ]);
            }
        }
        if state.said < self.bounds.said {
            let everybody = [Word::Pause, Word::Resume, Word::Stop, Word::Abort, Word::Retry, Word::Quarantine];
            actions.extend(everybody.map(Action::Say));
            actions.extend([1, 2, 3].map(|version| Action::Say(Word::Start(version))));
            for node in 0..NAMES.len() {
                let words = [Word::Skip(node), Word::Hold(node), Word::Release(node), Word::Revoke(node)];
                actions.extend(words.map(Action::Say));
            }
        }
    }

    fn next_state(&self, last: &Standing, action: Action) -> Option<Standing> {
        let mut world = last.world.clone();
        let (mut said, mut faults) = (last.said, last.faults);
        match action {
            Action::Say(_) => said += 1,
            Action::Disconnect(_) | Action::Reboot(_) | Action::Flip(_) | Action::Fail(_) | Action::LeaderChange => {
                faults += 1;
            }
            _ => {}
        }
        perform(&mut world, action)?;
        fetch(&mut world);
        let wrong = wrong(&last.world, &world, action);
        world.log.clear();
        let next = Standing::of(world, said, faults, wrong);
        (next.view != last.view).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing is wrong", |_, state: &Standing| state.wrong.is_none()),
            Property::always("explain says something", |_, state: &Standing| {
                explain(&state.world.state, &Subject::Group(group())).is_some_and(|chain| !chain.is_empty())
            }),
            Property::always("there is a way forward", |model: &Self, state: &Standing| {
                !state.is_sampled(model.bounds.ask_one_of) || has_way_forward(state.world.clone())
            }),
        ]
    }
}

impl Standing {
    fn of(world: World, said: u8, faults: u8, wrong: Option<String>) -> Self {
        let view = format!("{said} {faults} {wrong:?}\n{}", view::of(&world));
        Self { world, said, faults, wrong, view }
    }

    fn is_sampled(&self, one_of: u64) -> bool {
        let mut hasher = std::hash::DefaultHasher::new();
        self.view.hash(&mut hasher);
        hasher.finish().is_multiple_of(one_of)
    }
}

/// Machines fetch at once whatever they are told to: when is no part of this model.
fn fetch(world: &mut World) {
    for name in NAMES {
        world.prefetch(name);
    }
}

fn perform(world: &mut World, action: Action) -> Option<()> {
    match action {
        Action::Plan => drop(world.plan()),
        Action::Grant(node) => {
            let rollout = world.state.active_rollout(&group())?.id;
            let (node, based_on) = (world.id(NAMES[node]), world.state.revision());
            world.propose(Command::GrantToken { rollout, node, based_on });
        }
        Action::Clock => {
            let at = world.state.next_deadline()?;
            world.advance(at.since(world.clock));
        }
        Action::Act(node) => {
            world.act(NAMES[node], true).then_some(())?;
        }
        Action::Echo(node) => echo(world, NAMES[node])?,
        Action::Connect(node) => {
            let is_refused = world.connect(NAMES[node]).outcome.is_err();
            world.machine(NAMES[node]).connected = !is_refused;
        }
        Action::Disconnect(node) => drop(world.disconnect(NAMES[node], Millis(0))),
        Action::Reboot(node) => drop(world.reboot(NAMES[node])),
        Action::Flip(node) => {
            let service = world.service(NAMES[node]);
            service.instance.as_ref()?;
            service.health = if service.health == Health::Healthy { Health::Critical } else { Health::Healthy };
            world.report_status(NAMES[node]).ok()?;
        }
        Action::Fail(node) => {
            let phase = world.orders(NAMES[node])?.step?.phase;
            let (reason, detail, output) = ("hook_failed".to_owned(), String::new(), String::new());
            world.report_step(NAMES[node], StepEvent::Failed { phase, reason, detail, output }).ok()?;
        }
        Action::LeaderChange => {
            let up_to = SessionEpoch(world.state.revision().0);
            world.propose(Command::OrphanSessions { host: PeerId(1), silent_for: Millis(0), up_to });
            world.machines.values_mut().for_each(|machine| machine.connected = false);
        }
        Action::Say(word) => say(world, word)?,
    }
    Some(())
}

/// The step's node says under the fence before its own that it has drained; nothing comes of it, as it is refused.
fn echo(world: &mut World, name: &str) -> Option<()> {
    let order = world.orders(name)?.step?;
    let report = rollcall_rollout::StepReport {
        group: group(),
        rollout: order.rollout,
        fence: rollcall_ident::Fence(order.fence.0 - 1),
        attempt: order.attempt,
        event: StepEvent::Drained,
    };
    world.machines[name].connected.then_some(())?;
    world.report(name, rollcall_rollout::Report::Step(report)).ok()
}

fn say(world: &mut World, word: Word) -> Option<()> {
    let node = |world: &World, n: usize| world.id(NAMES[n]);
    let target = world.state.latest_rollout(&group()).map(|rollout| rollout.target.clone())?;
    let applied = match word {
        Word::Pause => world.steer(RolloutVerb::Pause { until: None }),
        Word::Resume => world.steer(RolloutVerb::Resume { until: None }),
        Word::Stop => world.steer(RolloutVerb::Stop),
        Word::Abort => world.steer(RolloutVerb::Abort),
        Word::Retry => world.steer(RolloutVerb::Retry { node: None }),
        Word::Skip(n) => world.steer(RolloutVerb::Skip { node: node(world, n) }),
        Word::Start(version) => world.start(&version.to_string()),
        Word::Hold(n) => world.propose(Command::HoldNode { node: node(world, n), until: None }),
        Word::Release(n) => world.propose(Command::ReleaseNode { node: node(world, n) }),
        Word::Revoke(n) => world.propose(Command::RevokeToken { node: node(world, n), force: true }),
        Word::Quarantine => world.propose(Command::AddQuarantine { release: target }),
    };
    applied.outcome.is_ok().then_some(())
}

/// What is wrong with a move from `before` to `after`.
fn wrong(before: &World, after: &World, action: Action) -> Option<String> {
    if let Some(violation) = check(&after.state).first() {
        return Some(violation.to_string());
    }
    if let Action::Echo(node) = action {
        return Some(format!("{} was believed under a fence long gone", NAMES[node]));
    }
    if after.state.tokens().len() > 1 {
        return Some("two hold a token, and max_parallel is 1".to_owned());
    }
    let granted = after.state.tokens().keys().find(|node| !before.state.tokens().contains_key(node));
    if let Some(node) = granted.and_then(|node| before.state.nodes().get(node)).filter(|node| node.hold.is_some()) {
        return Some(format!("{} got the token, and is held", node.name));
    }
    let stops = NAMES.iter().find(|name| {
        let id = after.id(name);
        phase(&before.state, id) < Some(Phase::Stopping) && phase(&after.state, id) == Some(Phase::Stopping)
    });
    if let Some(name) = stops
        && let Some(wrong) = wrong_stop(before, name)
    {
        return Some(format!("{action:?}: {wrong}"));
    }
    wrong_end(before, after)
}

/// Where the step of a token's holder stands.
fn phase(state: &State, node: NodeId) -> Option<Phase> {
    let token = state.tokens().get(&node)?;
    Some(state.rollouts().get(&token.rollout)?.steps.get(&node)?.phase)
}

/// Whoever goes down must leave all others well, as the machines really are, and nobody may have said no.
fn wrong_stop(before: &World, name: &str) -> Option<String> {
    let token = before.state.tokens().get(&before.id(name))?;
    let rollout = before.state.rollouts().get(&token.rollout)?;
    if !rollout.status.is_moving() {
        return Some(format!("{name} goes down while its rollout is {}", rollout.status));
    }
    let is_well = |name: &str| {
        let machine = &before.machines[name];
        let service = &machine.services[&group()];
        machine.connected && service.instance.is_some() && service.health == Health::Healthy
    };
    let other = NAMES
        .iter()
        .find(|other| **other != name && !is_well(other) && before.state.node_named(&other.parse().unwrap()).is_some());
    other.filter(|_| is_well(name)).map(|other| format!("{name} goes down while {other} isn't well"))
}

/// A step succeeds on a machine that is well and runs its target; no rollout rises from the dead; no token changes hands
/// while its holder may be down.
fn wrong_end(before: &World, after: &World) -> Option<String> {
    for (id, rollout) in after.state.rollouts().iter() {
        let earlier = before.state.rollouts().get(id)?;
        if !earlier.is_active() && earlier.status != rollout.status {
            return Some(format!("{id} was {} and is {}", earlier.status, rollout.status));
        }
        let turned_round = earlier.going_back.is_none()
            && rollout.going_back.is_some()
            && !earlier.pause_causes.contains(&PauseCause::Operator);
        if earlier.status == RolloutStatus::Paused
            && !turned_round
            && rollout.status.is_moving()
            && after
                .log
                .iter()
                .all(|(_, entry)| !matches!(entry.proposal.command, Command::Steer { .. } | Command::AdvanceClock))
        {
            return Some(format!("{id} goes on, and nobody said so"));
        }
        for step in rollout.steps.values() {
            let was = earlier.steps.get(&step.node).map(|step| step.phase);
            if step.phase == Phase::Succeeded && was != Some(Phase::Succeeded) {
                let (name, machine) = after.machines.iter().find(|(_, machine)| machine.id == step.node)?;
                let service = &machine.services[&group()];
                let is_there = service.release.as_ref() == Some(rollout.target_of(step));
                if !is_there || service.health != Health::Healthy {
                    return Some(format!("{name} succeeded, and is {} on {:?}", service.health, service.release));
                }
            }
        }
    }
    for (node, token) in before.state.tokens().iter() {
        let is_silent = before.machines.values().any(|machine| machine.id == *node && !machine.connected);
        let is_asked = after.log.iter().any(|(_, entry)| !matches!(entry.proposal.command, Command::AdvanceClock));
        // Before A nothing is disturbed, and nothing can be without the log's leave.
        let may_be_down = phase(&before.state, *node) >= Some(Phase::Draining);
        if is_silent && may_be_down && !is_asked && after.state.tokens().get(node) != Some(token) {
            return Some(format!("{node} is away, and lost its token to the clock"));
        }
    }
    None
}

/// Once everybody is back and well, people say yes, and a rollout to a good release is started, it gets there.
fn has_way_forward(mut world: World) -> bool {
    world.propose(Command::StartRollout {
        group: group(),
        target: release("9"),
        digest: None,
        kind: rollcall_rollout::RolloutKind::Update,
    });
    for name in NAMES {
        world.connect(name);
        let node = world.id(name);
        world.propose(Command::ReleaseNode { node });
        if let Some(old) =
            world.service(name).release.clone().filter(|_| world.machines[name].services[&group()].instance.is_none())
        {
            world.start_process(name, &old);
        }
        world.service(name).health = Health::Healthy;
        let _ = world.report_status(name);
    }
    for _ in 0..20 {
        world.run_to_end(true);
        let Some(rollout) = world.state.active_rollout(&group()) else { break };
        if rollout.status == RolloutStatus::Paused {
            world.steer(RolloutVerb::Resume { until: None });
            world.steer(RolloutVerb::Retry { node: None });
        }
    }
    let latest = world.state.latest_rollout(&group());
    latest.is_some_and(|rollout| rollout.status == RolloutStatus::Succeeded && rollout.target == release("9"))
}
