//! The quorum guard over random histories: three peers on the machines of three of the nodes, which fall silent, lag behind
//! and lead by turns.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod history;
mod support;

use history::{Action, NAMES, action, perform, settled_world};
use proptest::prelude::*;
use rollcall_ident::{GroupName, Millis, NodeId, PeerId};
use rollcall_rollout::{
    Command, GroupPatch, Node, PeerFacts, PeerStanding, Phase, PolicyPatch, Reply, RolloutStatus, State, plan,
    plan_ahead,
};
use support::{World, release};

/// What may happen, with what may happen to peers.
#[derive(Debug, Clone)]
enum Event {
    Any(Action),
    /// Who leads, and how the others do.
    Peers(usize, [PeerStanding; 3]),
}

fn event() -> impl Strategy<Value = Event> {
    let standing = || {
        prop_oneof![
            4 => Just(PeerStanding::CaughtUp),
            1 => Just(PeerStanding::Lagging),
            1 => Just(PeerStanding::Silent),
        ]
    };
    prop_oneof![
        12 => action().prop_map(Event::Any),
        1 => (0..3usize, [standing(), standing(), standing()]).prop_map(|(leader, all)| Event::Peers(leader, all)),
    ]
}

/// All nodes on release 1, and a peer on each of the machines of a, b and c.
fn world_with_peers() -> (World, [PeerId; 3]) {
    let mut world = settled_world(3, 3);
    let mut peers = [PeerId(1); 3];
    for (peer, address) in peers[1..].iter_mut().zip(["p2", "p3"]) {
        match world.propose(Command::AddPeer { address: address.to_owned() }).outcome {
            Ok(Reply::PeerAdded(id)) => *peer = id,
            other => panic!("{other:?}"),
        }
    }
    for (peer, name) in peers.into_iter().zip(NAMES) {
        let facts =
            PeerFacts { machine_id: format!("machine of {name}"), version: "0.1.0".to_owned(), feature_level: 1 };
        world.propose(Command::DescribePeer { peer, facts }).outcome.unwrap();
    }
    note(&mut world, peers, 0, [PeerStanding::CaughtUp; 3]);
    (world, peers)
}

/// The leader is caught up with itself.
fn note(world: &mut World, peers: [PeerId; 3], leader: usize, mut standings: [PeerStanding; 3]) {
    standings[leader] = PeerStanding::CaughtUp;
    let standings = peers.into_iter().zip(standings).collect();
    world.propose(Command::NotePeers { leader: peers[leader], standings }).outcome.unwrap();
}

/// Who passes commit point B on a peer's machine must leave two of the three peers, and isn't the leader's machine.
fn assert_quorum_kept(before: &State, after: &State, machines: &[(NodeId, PeerId)]) {
    for (node, own) in machines {
        let Some(token) = after.tokens().get(node) else { continue };
        let phase = |state: &State| Some(state.rollouts().get(&token.rollout)?.steps.get(node)?.phase);
        if (phase(before), phase(after)) != (Some(Phase::Draining), Some(Phase::Stopping)) {
            continue;
        }
        let stays = |(other, peer): &&(NodeId, PeerId)| {
            peer != own
                && !after.tokens().contains_key(other)
                && after.peers().get(peer).is_some_and(|peer| peer.standing == PeerStanding::CaughtUp)
        };
        assert!(machines.iter().filter(stays).count() >= 2, "peer {own} went down, and the others are no majority");
        assert_ne!(after.leader(), Some(*own), "the leader's machine went down");
    }
}

/// Both groups may have the next machine of a peer, and only one of them gets it: the other isn't proposed in vain.
#[test]
fn what_one_group_gets_is_what_another_waits_for() {
    let (mut world, _) = world_with_peers();
    let other: GroupName = "cache.default".parse().unwrap();
    let patch = GroupPatch {
        name: other.clone(),
        package: Some("acme/redis".parse().unwrap()),
        channel: None,
        update_condition: None,
        policy: PolicyPatch::default(),
        config: None,
        windows: None,
    };
    world.propose(Command::ApplyGroup { patch }).outcome.unwrap();
    world.disconnect("c", Millis(0)).outcome.unwrap();
    world.configure("c", &other, true);
    world.connect("c").outcome.unwrap();
    world.within(&other, |world| world.start("1").outcome.unwrap());
    world.within(&other, |world| world.prefetch("c"));
    world.start("2").outcome.unwrap();
    for name in NAMES {
        world.prefetch(name);
    }
    let nodes = |commands: Vec<Command>| -> Vec<NodeId> {
        let granted = commands.into_iter().map(|command| match command {
            Command::GrantToken { node, .. } => node,
            other => panic!("{other:?}"),
        });
        granted.collect()
    };
    assert_eq!(nodes(plan(&world.state)), [world.id("c"), world.id("b")], "each alone may");
    let ahead = plan_ahead(&world.state);
    assert_eq!(nodes(ahead.clone()), [world.id("c")]);
    for command in ahead {
        world.propose(command).outcome.unwrap();
    }
    assert_eq!(plan(&world.state), [], "whose turn it is waits for the quorum guard");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn the_peers_stay_a_majority(events in prop::collection::vec(event(), 1..150)) {
        let (mut world, peers) = world_with_peers();
        let machines: Vec<(NodeId, PeerId)> = NAMES.iter().map(|name| world.id(name)).zip(peers).collect();
        world.start("2").outcome.unwrap();
        let mut state = world.state.clone();
        for event in &events {
            let from = world.log.len();
            match event {
                Event::Any(action) => perform(&mut world, action),
                Event::Peers(leader, standings) => note(&mut world, peers, *leader, *standings),
            }
            for (revision, entry) in &world.log[from..] {
                let before = state.clone();
                state.apply(*revision, entry);
                assert_quorum_kept(&before, &state, &machines);
            }
        }
    }

    /// However the peers did meanwhile: once all are well the rollout ends, and leadership has moved out of its way.
    #[test]
    fn the_guard_holds_nobody_for_good(leaders in prop::collection::vec((0..3usize, 0..3usize), 0..12)) {
        let (mut world, peers) = world_with_peers();
        world.start("2").outcome.unwrap();
        for (leader, silent) in leaders {
            let mut standings = [PeerStanding::CaughtUp; 3];
            standings[silent] = PeerStanding::Silent;
            note(&mut world, peers, leader, standings);
            world.run(true);
        }
        let leader = peers.iter().position(|peer| world.state.leader() == Some(*peer)).unwrap();
        note(&mut world, peers, leader, [PeerStanding::CaughtUp; 3]);
        world.run_to_end(true);
        let rollout = world.state.latest_rollout(&support::group()).unwrap();
        prop_assert_eq!(rollout.status, RolloutStatus::Succeeded);
        let is_there = |node: &Node| node.services[&support::group()].release == Some(release("2"));
        prop_assert!(world.state.nodes().values().all(is_there));
    }
}
