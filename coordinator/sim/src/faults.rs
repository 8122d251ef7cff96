//! How each fault is done to the system.

use std::time::Duration;

use rollcall_steps::Hook;

use crate::disk::Mood;
use crate::run::{Later, Run, peer_name};
use crate::schedule::Fault;

/// For so long a process is gone that is started again at once.
const KILLED_MS: u64 = 50;

/// For so long those are away who know what others have forgotten: the others elect a leader and go on meanwhile.
const SILENT_MS: u64 = 6_000;

/// Does it, if it can be done now: who is down isn't killed again.
pub(crate) fn inject(run: &mut Run<'_>, fault: Fault) {
    let now_ms = run.judge.now_ms();
    match fault {
        Fault::KillPeer { peer, for_ms } => {
            kill(run, peer_name(peer), for_ms, false, "peers killed");
        }
        Fault::CutPeerPower { peer, for_ms, is_silent } => {
            if kill(run, peer_name(peer), for_ms, is_silent, "peers without power") {
                let lost = run.machines.with(peer, |machine, rng| machine.disk.cut_power(rng));
                run.judge.note(&peer_name(peer), lost.unwrap_or_else(|error| error.to_string()));
            }
        }
        Fault::KillAgent { node, for_ms } => {
            let name = run.nodes[node].borrow().name.clone();
            if kill(run, name.clone(), for_ms, false, "agents killed") {
                tell_of_death(run, &name);
            }
        }
        Fault::CutNodePower { node, for_ms, is_silent } => {
            let name = run.nodes[node].borrow().name.clone();
            if kill(run, name.clone(), for_ms, is_silent, "nodes without power") {
                run.nodes[node].borrow_mut().cut_power();
                tell_of_death(run, &name);
            }
        }
        Fault::DieInHook { hook, after_ms, for_ms, is_power } => {
            // Which node it will be is seen when it begins.
            let fault = match is_power {
                true => Fault::CutNodePower { node: 0, for_ms, is_silent: false },
                false => Fault::KillAgent { node: 0, for_ms },
            };
            run.armed.push((hook, after_ms, fault));
        }
        Fault::CrashService { node } => {
            run.judge.count("services crashed");
            run.nodes[node].borrow_mut().crash_service();
        }
        Fault::Sicken { node, for_ms } => {
            run.judge.count("services sickened");
            run.nodes[node].borrow_mut().sick_until_ms = now_ms + for_ms;
        }
        Fault::UpsetOther { hook, after_ms, for_ms } => {
            // Beside whom is seen when it begins.
            run.armed.push((hook, after_ms, Fault::Sicken { node: 0, for_ms }));
        }
        Fault::ErrInPlanning { node } => {
            let name = run.nodes[node].borrow().name.clone();
            run.machines.err_in_planning(name);
        }
        Fault::AmnesiaQuorum { follower, before_ms, after_ms } => amnesia(run, follower, before_ms, after_ms),
        Fault::Partition { side, for_ms } => {
            let pairs = pairs(run, &side);
            pairs.iter().for_each(|(a, b)| run.sim.partition(a.clone(), b.clone()));
            run.judge.count("partitions");
            run.later.push((now_ms + for_ms, Later::Repair(pairs)));
        }
        Fault::CutOneWay { from, to, for_ms } => {
            let (from, to) = (host(run, from), host(run, to));
            run.sim.partition_oneway(from.clone(), to.clone());
            run.judge.count("one-way cuts");
            run.later.push((now_ms + for_ms, Later::RepairOneWay(from, to)));
        }
        Fault::Stall { side, for_ms } => {
            let pairs = pairs(run, &side);
            pairs.iter().for_each(|(a, b)| run.sim.hold(a.clone(), b.clone()));
            run.judge.count("stalls");
            run.later.push((now_ms + for_ms, Later::Release(pairs)));
        }
        Fault::SlowNetwork { latency_ms, for_ms } => {
            run.sim.set_max_message_latency(Duration::from_millis(latency_ms));
            run.judge.count("slow networks");
            run.later.push((now_ms + for_ms, Later::NormalLatency));
        }
        Fault::LoseMessages { permille, for_ms } => {
            run.sim.set_fail_rate(f64::from(permille) / 1_000.0);
            run.judge.count("lossy networks");
            run.later.push((now_ms + for_ms, Later::NoLoss));
        }
        Fault::FillDisk { peer, for_ms } => disk(run, peer, Mood::Full, for_ms, "full disks"),
        Fault::SlowDisk { peer, for_ms } => disk(run, peer, Mood::Slow, for_ms, "slow disks"),
        Fault::FailSync { peer } => {
            run.machines.with(peer, |machine, _| machine.disk.mood = Mood::Fails);
        }
        Fault::JumpClock { peer, by_ms } => {
            run.judge.count("clocks that jump");
            run.machines.with(peer, |machine, _| machine.wall_offset_ms += by_ms);
        }
        Fault::Say(_) => unreachable!("that is the operator's"),
    }
}

/// A node has begun a hook: whatever waited for that happens to it.
pub(crate) fn spring(run: &mut Run<'_>, name: &str, hook: Hook) {
    let Some(place) = run.armed.iter().position(|(armed, ..)| *armed == hook) else { return };
    let Some(number) = run.nodes.iter().position(|machine| machine.borrow().name == name) else { return };
    let (_, after_ms, mut fault) = run.armed.remove(place);
    match &mut fault {
        Fault::CutNodePower { node, .. } | Fault::KillAgent { node, .. } => {
            *node = number;
            run.judge.count("deaths in a hook");
        }
        Fault::Sicken { node, .. } => *node = (number + 1) % run.nodes.len(),
        _ => unreachable!("nothing else waits for a hook"),
    }
    run.later.push((run.judge.now_ms() + after_ms, Later::Fault(fault)));
}

/// Where nobody leads, there is no majority to be made to forget.
fn amnesia(run: &mut Run<'_>, follower: usize, before_ms: u64, after_ms: u64) {
    let peers = run.setup.peers;
    let leader = (0..peers).find(|peer| run.judge.leader().as_deref() == Some(&*peer_name(*peer)));
    let Some(leader) = leader else { return };
    let follower = if follower == leader { (follower + 1) % peers } else { follower };
    let others: Vec<_> = (0..peers).filter(|peer| *peer != leader && *peer != follower).collect();
    // With the leader and the follower, those who stay are just a majority.
    let (away, stay) = others.split_at(peers / 2);
    let cut_ms = before_ms + KILLED_MS + after_ms;
    for peer in away {
        kill(run, peer_name(*peer), cut_ms, false, "peers killed");
    }
    disk(run, follower, Mood::Hangs, cut_ms, "disks that hang");
    run.judge.count("amnesia quorums");
    let now_ms = run.judge.now_ms();
    let die = Fault::KillPeer { peer: follower, for_ms: KILLED_MS };
    let forget = Fault::CutPeerPower { peer: follower, for_ms: KILLED_MS, is_silent: false };
    run.later.push((now_ms + before_ms, Later::Fault(die)));
    run.later.push((now_ms + cut_ms, Later::Fault(forget)));
    for peer in stay.iter().chain([&leader]) {
        let fall_silent = Fault::KillPeer { peer: *peer, for_ms: SILENT_MS };
        run.later.push((now_ms + cut_ms, Later::Fault(fall_silent)));
    }
}

/// The hooks of a dead agent may be settled by their policy.
fn tell_of_death(run: &Run<'_>, node: &str) {
    run.judge.witness(|witness, _| {
        witness.died(node);
        None
    });
}

/// Ends what runs on a host; false: nothing does. Silently: nobody hears of it, and connections stay half-open.
fn kill(run: &mut Run<'_>, host: String, for_ms: u64, is_silent: bool, what: &'static str) -> bool {
    if run.down.contains(&host) || !run.sim.is_host_running(host.clone()) {
        return false;
    }
    let others: Vec<_> = hosts(run).into_iter().filter(|other| *other != host).collect();
    if is_silent {
        others.iter().for_each(|other| run.sim.partition(host.clone(), other.clone()));
    }
    run.sim.crash(host.clone());
    if is_silent {
        others.iter().for_each(|other| run.sim.repair(host.clone(), other.clone()));
    }
    run.judge.count(what);
    run.start_later(host, for_ms);
    true
}

fn disk(run: &mut Run<'_>, peer: usize, mood: Mood, for_ms: u64, what: &'static str) {
    run.machines.with(peer, |machine, _| machine.disk.mood = mood);
    run.judge.count(what);
    run.later.push((run.judge.now_ms() + for_ms, Later::DiskWell(peer)));
}

/// Peers first, then nodes.
fn host(run: &Run<'_>, number: usize) -> String {
    let peers = run.setup.peers;
    if number < peers { peer_name(number) } else { run.nodes[number - peers].borrow().name.clone() }
}

fn hosts(run: &Run<'_>) -> Vec<String> {
    (0..run.setup.peers + run.setup.nodes).map(|number| host(run, number)).collect()
}

/// Each of these with each of the others.
fn pairs(run: &Run<'_>, side: &[usize]) -> Vec<(String, String)> {
    let all = 0..run.setup.peers + run.setup.nodes;
    let others: Vec<_> = all.filter(|number| !side.contains(number)).collect();
    side.iter().flat_map(|a| others.iter().map(move |b| (*a, *b))).map(|(a, b)| (host(run, a), host(run, b))).collect()
}
