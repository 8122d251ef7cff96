//! Nodes: machines that run the agent, and how their services stand.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use rollcall_ident::{
    BootId, Fence, GroupName, NodeId, NodeName, PeerId, ReleaseIdent, Revision, SessionEpoch, WallTime,
};

use crate::{Actor, Stamp, WarningPolicy};

/// A registered machine. It leaves the registry only by `node remove`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Node {
    /// The identity on its disk.
    pub id: NodeId,
    /// Its name, for people; unique.
    pub name: NodeName,
    /// Where its identity lies.
    pub identity_locus: String,
    /// The machine.
    pub machine_id: String,
    /// The peer on this machine, by id or address, where its config names one: machine ids don't count then.
    pub hosts_peer: Option<String>,
    /// Its current or last boot.
    pub boot_id: BootId,
    /// Version of its agent.
    pub agent_version: String,
    /// Where it connected from.
    pub address: String,
    /// Free labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it is there.
    pub presence: Presence,
    /// The highest fence it has said to have stored.
    pub highest_fence: Fence,
    /// The revision that changed it last: its sessions, and what operators say of it.
    pub modified_revision: Revision,
    /// Set where an operator keeps it from being updated.
    pub hold: Option<Hold>,
    /// Set where an operator knows better than its health checks.
    pub health_override: Option<HealthOverride>,
    /// Its services by group.
    pub services: BTreeMap<GroupName, Service>,
}

/// An operator's word that a node isn't updated.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Hold {
    /// Who said so.
    pub by: Actor,
    /// When.
    pub at: Stamp,
    /// Why.
    pub reason: Option<String>,
    /// Until when; none: until it is released.
    pub until: Option<WallTime>,
}

/// An operator's word on the health of a node's services.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct HealthOverride {
    /// What counts, whatever the checks say.
    pub is_healthy: bool,
    /// Who said so.
    pub by: Actor,
    /// When.
    pub at: Stamp,
    /// Why.
    pub reason: Option<String>,
}

/// Whether a node is there. Departed is a state, not an absence.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Presence {
    /// It has a session.
    Present(Session),
    /// It had one, not long ago.
    Away {
        /// When it was heard of last.
        since: Stamp,
    },
    /// It has been away for longer than `lost_after`.
    Departed {
        /// When it was heard of last.
        since: Stamp,
    },
}

/// An open session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Session {
    /// The peer that hosts it.
    pub host: PeerId,
    /// Which session of the node it is.
    pub epoch: SessionEpoch,
    /// When it was opened.
    pub opened_at: Stamp,
}

impl Node {
    /// Its open session.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        match &self.presence {
            Presence::Present(session) => Some(session),
            Presence::Away { .. } | Presence::Departed { .. } => None,
        }
    }

    /// The health that counts: an operator's word, or else what was reported.
    #[must_use]
    pub fn health_of(&self, service: &Service) -> Health {
        match (&self.health_override, service.health) {
            (None, reported) | (Some(_), reported @ Health::Unprovisioned) => reported,
            (Some(word), _) if word.is_healthy => Health::Healthy,
            (Some(_), _) => Health::Critical,
        }
    }

    /// Whether its service of `group` is known not to be well: it is there, it ran once, and says so.
    #[must_use]
    pub fn is_broken(&self, group: &GroupName, on_warning: WarningPolicy) -> bool {
        self.session().is_some()
            && self
                .services
                .get(group)
                .is_some_and(|service| service.release.is_some() && !self.health_of(service).is_good(on_warning))
    }

    /// Whether its service of `group` is known not to run: it was stopped, or has crashed.
    #[must_use]
    pub fn is_down(&self, group: &GroupName) -> bool {
        self.session().is_some()
            && self.services.get(group).is_some_and(|service| {
                service.release.is_some()
                    && service.instance.is_none()
                    && !self.health_of(service).is_good(WarningPolicy::Pass)
            })
    }

    /// Whether its service of `group` uses the budget: it ran once and isn't known to be healthy, or an operator holds
    /// it. Unknown is not absent, and what a node said before its session broke isn't known any more when it comes to
    /// taking the next one down, however short the while.
    #[must_use]
    pub fn is_unavailable(&self, group: &GroupName, on_warning: WarningPolicy) -> bool {
        self.services.get(group).is_some_and(|service| service.release.is_some())
            && (self.session().is_none() || self.hold.is_some() || self.is_broken(group, on_warning))
    }

    /// Whether it has been away for so long that it counts as departed.
    #[must_use]
    pub fn is_departed(&self) -> bool {
        matches!(self.presence, Presence::Departed { .. })
    }
}

/// How one service of a node stands.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Service {
    /// What runs or would be started; none: the node never ran it and costs no budget.
    pub release: Option<ReleaseIdent>,
    /// The process that runs.
    pub instance: Option<Instance>,
    /// Its health.
    pub health: Health,
    /// The health check's words.
    pub health_detail: String,
    /// Since when.
    pub health_since: Stamp,
    /// Whether it calls itself primary.
    pub primary: bool,
    /// What its suitability hook says.
    pub priority: Option<u64>,
    /// The last release that it was told to fetch, and what came of it.
    pub prefetch: Option<Prefetch>,
}

/// What came of fetching a release.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Prefetch {
    /// The release.
    pub release: ReleaseIdent,
    /// What was wrong, if anything.
    pub outcome: Result<(), String>,
    /// Whether a node that runs it may go back to an earlier one.
    pub rollback: bool,
}

impl Service {
    /// A service that has never run.
    pub(crate) fn unprovisioned(at: Stamp) -> Self {
        Self {
            release: None,
            instance: None,
            health: Health::Unprovisioned,
            health_detail: String::new(),
            health_since: at,
            primary: false,
            priority: None,
            prefetch: None,
        }
    }
}

/// One running process: no two are ever equal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Instance {
    /// Process id.
    pub pid: u32,
    /// Clock ticks after boot.
    pub start_time: u64,
    /// Of which boot.
    pub boot_id: BootId,
    /// What it was started from.
    pub release: ReleaseIdent,
}

/// A service's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Health {
    /// All is well.
    Healthy,
    /// It works, and something is amiss.
    Warning,
    /// It doesn't work.
    Critical,
    /// Nobody knows.
    Unknown,
    /// The node never ran it.
    Unprovisioned,
}

impl Health {
    /// Whether it counts as healthy.
    #[must_use]
    pub fn is_good(self, on_warning: WarningPolicy) -> bool {
        match self {
            Self::Healthy => true,
            Self::Warning => on_warning == WarningPolicy::Pass,
            Self::Critical | Self::Unknown | Self::Unprovisioned => false,
        }
    }
}
