//! Partitions between peers, and of a node from all peers. Clients still reach everybody.

use anyhow::Result;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use crate::hosts::Hosts;
use crate::nemesis::wire::{Chain, DROP, Sees, from};
use crate::nemesis::{Active, Begun, Bite, Wound};

/// How a network is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The leader alone, or with the fewer.
    LeaderInMinority,
    /// The leader with the more.
    LeaderInMajority,
    /// One, whoever it is.
    Alone,
    /// Two halves that see one peer in common.
    Bridge,
    /// Each sees its two neighbours only.
    Ring,
    /// One hears nobody, and is heard.
    Deaf,
    /// One is heard by nobody, and hears.
    Mute,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::LeaderInMinority, Self::LeaderInMajority, Self::Alone, Self::Bridge, Self::Ring, Self::Deaf, Self::Mute];

    /// Who doesn't hear whom any more, by places in `count` peers of which the leader has place 0.
    pub fn edges(self, count: usize) -> Vec<(usize, usize)> {
        let fewer = count.saturating_sub(1) / 2;
        let cut = |is_cut: &dyn Fn(usize, usize) -> bool| {
            let all = (0..count).flat_map(|to| (0..count).map(move |from| (to, from)));
            all.filter(|(to, from)| to != from && is_cut(*to, *from)).collect()
        };
        match self {
            Self::LeaderInMinority => cut(&|to, from| (to < fewer) != (from < fewer)),
            Self::LeaderInMajority => cut(&|to, from| (to > fewer) != (from > fewer)),
            Self::Alone => cut(&|to, from| (to == count - 1) != (from == count - 1)),
            // The bridge is the one in the middle.
            Self::Bridge => cut(&|to, from| (to < fewer && from > fewer) || (to > fewer && from < fewer)),
            Self::Ring => cut(&|to, from| {
                let apart = to.abs_diff(from);
                apart != 1 && apart != count - 1
            }),
            Self::Deaf => cut(&|to, _| to == 0),
            Self::Mute => cut(&|_, from| from == 0),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::LeaderInMinority => "the leader is with the fewer",
            Self::LeaderInMajority => "the leader is with the more",
            Self::Alone => "one is alone",
            Self::Bridge => "two halves see one in common",
            Self::Ring => "each sees its neighbours only",
            Self::Deaf => "one hears nobody",
            Self::Mute => "nobody hears one",
        }
    }
}

/// A network that is split.
#[derive(Debug)]
pub struct Parted {
    chains: Vec<Chain>,
}

/// Splits the peers in some shape, or cuts a node off.
pub fn begin(number: usize, hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    if !hosts.nodes.is_empty() && random.random_bool(0.25) {
        return cut_off_a_node(number, hosts, random);
    }
    let shape = *Shape::ALL.choose(random).unwrap_or(&Shape::Alone);
    let leader = hosts.leader().map(|host| host.name().to_owned());
    let mut names: Vec<String> = hosts.peers.iter().map(|peer| peer.name().to_owned()).collect();
    names.shuffle(random);
    match &leader {
        // Some of the shapes are about the leader; the others are about anybody.
        Some(leader) => names.sort_by_key(|name| name != leader),
        None if matches!(shape, Shape::LeaderInMinority | Shape::LeaderInMajority) => {
            return Ok(Begun::Skipped("nobody leads".into()));
        }
        None => {}
    }
    let edges = shape.edges(names.len());
    if edges.is_empty() {
        return Ok(Begun::Skipped(format!("with {} peers there is no such partition: {}", names.len(), shape.name())));
    }
    let mut chains = Vec::new();
    let mut targets = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let mut rules = Vec::new();
        for (_, other) in edges.iter().filter(|(to, _)| *to == place) {
            rules.push(from(hosts.named(&names[*other])?.machine.address()));
        }
        if rules.is_empty() || !hosts.named(name)?.machine.is_running() {
            continue;
        }
        chains.push(Chain::put(number, hosts, name, Sees::Incoming, &rules, DROP)?);
        targets.push(name.clone());
    }
    let order = names.join(", ");
    let what = format!("partition: {} ({order})", shape.name());
    Ok(Begun::Installed(Wound { what, targets, active: Active::Partition(Parted { chains }) }))
}

fn cut_off_a_node(number: usize, hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let Some(node) = hosts.nodes.choose(random).map(|node| node.name().to_owned()) else {
        return Ok(Begun::Skipped("there is no node".into()));
    };
    if !hosts.named(&node)?.machine.is_running() {
        return Ok(Begun::Skipped(format!("{node} has no power")));
    }
    let rules: Vec<Vec<String>> = hosts.peers.iter().map(|peer| from(peer.machine.address())).collect();
    let chains = vec![Chain::put(number, hosts, &node, Sees::Incoming, &rules, DROP)?];
    let what = format!("partition: {node} hears no peer");
    Ok(Begun::Installed(Wound { what, targets: vec![node], active: Active::Partition(Parted { chains }) }))
}

impl Parted {
    /// The network is whole again.
    pub fn end(self, hosts: &mut Hosts) -> Bite {
        let counts: Vec<(&str, u64)> = self.chains.iter().map(|chain| (chain.host(), chain.take_out(hosts))).collect();
        let all: u64 = counts.iter().map(|(_, count)| count).sum();
        let listed: Vec<String> = counts.iter().map(|(host, count)| format!("{host} {count}")).collect();
        let evidence = format!("packets dropped: {}", listed.join(", "));
        Bite { bit: all > 0, evidence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_cuts_what_it_says() {
        assert_eq!(Shape::LeaderInMinority.edges(3), [(0, 1), (0, 2), (1, 0), (2, 0)]);
        assert_eq!(Shape::LeaderInMajority.edges(3), [(0, 2), (1, 2), (2, 0), (2, 1)]);
        assert_eq!(Shape::Bridge.edges(3), [(0, 2), (2, 0)]);
        assert_eq!(Shape::Ring.edges(3), [], "of three each is the others' neighbour");
        assert_eq!(Shape::Ring.edges(5).len(), 10);
        assert_eq!(Shape::Deaf.edges(3), [(0, 1), (0, 2)]);
        assert_eq!(Shape::Mute.edges(3), [(1, 0), (2, 0)]);
        let bridge = Shape::Bridge.edges(5);
        assert!(bridge.iter().all(|(to, from)| *to != 2 && *from != 2), "all see the one in the middle");
        assert_eq!(bridge.len(), 8);
    }
}
