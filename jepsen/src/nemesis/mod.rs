//! Faults, one kind per file. Each begins, lasts, and ends; several may last at once. What is asked for is one thing, what
//! came of it another: a fault that could not be made is skipped, and one that nobody saw bite is indeterminate.

pub mod clock;
pub mod conductor;
pub mod disk;
pub mod hook;
pub mod kill;
pub mod late;
pub mod link;
pub mod member;
pub mod partition;
pub mod pause;
pub mod power;
pub mod reboot;
pub mod rot;
pub mod schedule;
pub mod transfer;
pub mod upgrade;
mod wire;

use anyhow::Result;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};

use crate::hosts::Hosts;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// SIGKILL of a peer or an agent
    Kill,
    /// SIGSTOP, for shorter and longer than an election takes
    Pause,
    /// Networks that are split, or let through one way only
    Partition,
    /// Slow, lossy and late links, and connections of which one end is gone
    Link,
    /// Power cuts: of one, of all peers at once, of a quorum that must remember
    Power,
    /// A full disk, or one that fails to write and sync; sometimes the power goes then
    Disk,
    /// One bit flips in a stopped peer's files
    Rot,
    /// The wall clock jumps; the monotonic one doesn't
    Clock,
    /// A peer is removed or loses its disk, and comes back as a new one
    Member,
    /// Leadership is handed over
    Transfer,
    /// A machine reboots itself
    Reboot,
    /// Hooks hang, leave processes behind, fill the disk, or take a healthy service for a sick one
    Hook,
    /// A program is replaced by the next release
    Upgrade,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Kill,
        Self::Pause,
        Self::Partition,
        Self::Link,
        Self::Power,
        Self::Disk,
        Self::Rot,
        Self::Clock,
        Self::Member,
        Self::Transfer,
        Self::Reboot,
        Self::Hook,
        Self::Upgrade,
    ];

    /// How long it has to last to be seen, in milliseconds: as long as whoever it hits may be silent anyway.
    pub fn least_ms(self) -> u64 {
        match self {
            Self::Hook => 3_000,
            Self::Link | Self::Clock => 1_500,
            Self::Partition | Self::Disk => 700,
            Self::Kill
            | Self::Pause
            | Self::Power
            | Self::Rot
            | Self::Member
            | Self::Transfer
            | Self::Reboot
            | Self::Upgrade => 0,
        }
    }

    /// Whether it hurts nodes only.
    pub fn needs_nodes(self) -> bool {
        self == Self::Hook
    }

    /// As it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Partition => "partition",
            Self::Link => "link",
            Self::Power => "power",
            Self::Disk => "disk",
            Self::Rot => "rot",
            Self::Clock => "clock",
            Self::Member => "member",
            Self::Transfer => "transfer",
            Self::Reboot => "reboot",
            Self::Hook => "hook",
            Self::Upgrade => "upgrade",
        }
    }
}

/// What came of a beginning.
#[derive(Debug)]
pub enum Begun {
    /// It lasts.
    Installed(Wound),
    /// It could not be made; why.
    Skipped(String),
    /// Nobody can tell; why.
    Indeterminate(String),
}

/// A fault that lasts.
#[derive(Debug)]
pub struct Wound {
    /// What was done, for people.
    pub what: String,
    /// To which hosts.
    pub targets: Vec<String>,
    /// What its end needs.
    pub active: Active,
}

/// What is needed to end a fault.
#[derive(Debug)]
pub enum Active {
    /// See [`kill`].
    Kill(kill::Killed),
    /// See [`pause`].
    Pause(pause::Paused),
    /// See [`partition`].
    Partition(partition::Parted),
    /// See [`link`].
    Link(link::Bad),
    /// See [`power`].
    Power(power::Cut),
    /// See [`disk`].
    Disk(disk::Ill),
    /// See [`rot`].
    Rot(rot::Flipped),
    /// See [`clock`].
    Clock(clock::Jumped),
    /// See [`member`].
    Member(member::Gone),
    /// See [`transfer`].
    Transfer(transfer::Moved),
    /// See [`reboot`].
    Reboot(reboot::Rebooting),
    /// See [`hook`].
    Hook(hook::Misbehaving),
    /// See [`upgrade`].
    Upgrade(upgrade::Upgraded),
}

/// What was seen of a fault by its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bite {
    /// Whether it did anything.
    pub bit: bool,
    /// What shows it: counters, ids, states.
    pub evidence: String,
}

impl Bite {
    /// It did something.
    pub fn seen(evidence: impl Into<String>) -> Self {
        Self { bit: true, evidence: evidence.into() }
    }

    /// Nothing shows that it did anything.
    pub fn unseen(evidence: impl Into<String>) -> Self {
        Self { bit: false, evidence: evidence.into() }
    }
}

/// Begins a fault; `number` is its own in this run. An error is a failure of the harness.
pub async fn begin(fault: Fault, number: usize, hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    match fault {
        Fault::Kill => kill::begin(hosts, random).await,
        Fault::Pause => pause::begin(hosts, random).await,
        Fault::Partition => partition::begin(number, hosts, random),
        Fault::Link => link::begin(number, hosts, random).await,
        Fault::Power => power::begin(hosts, random).await,
        Fault::Disk => disk::begin(hosts, random),
        Fault::Rot => rot::begin(hosts, random).await,
        Fault::Clock => clock::begin(hosts, random),
        Fault::Member => member::begin(hosts, random).await,
        Fault::Transfer => transfer::begin(hosts, random).await,
        Fault::Reboot => reboot::begin(hosts, random).await,
        Fault::Hook => hook::begin(hosts, random),
        Fault::Upgrade => upgrade::begin(hosts, random).await,
    }
}

/// Ends a fault; what was seen of it. An error is a failure of the harness.
pub async fn end(active: Active, hosts: &mut Hosts) -> Result<Bite> {
    match active {
        Active::Kill(it) => it.end(hosts),
        Active::Pause(it) => it.end(hosts),
        Active::Partition(it) => Ok(it.end(hosts)),
        Active::Link(it) => it.end(hosts),
        Active::Power(it) => it.end(hosts).await,
        Active::Disk(it) => it.end(hosts).await,
        Active::Rot(it) => it.end(hosts).await,
        Active::Clock(it) => it.end(hosts).await,
        Active::Member(it) => it.end(hosts).await,
        Active::Transfer(it) => Ok(it.end(hosts)),
        Active::Reboot(it) => it.end(hosts).await,
        Active::Hook(it) => it.end(hosts),
        Active::Upgrade(it) => it.end(hosts).await,
    }
}
