//! What happens in a run, as data: so that it can be shown, and taken out one by one while the run still fails.

use std::fmt;

use rollcall_steps::Hook;

/// A kind of fault, of which a seed draws whether it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are told apart in `Setup::draw_fault`")]
pub enum Kind {
    PeerCrash,
    PeerPower,
    AgentCrash,
    NodePower,
    Service,
    Partition,
    OneWay,
    Stall,
    Slow,
    Loss,
    Disk,
    Clock,
    Hooks,
    Repeats,
    Planner,
    Amnesia,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::PeerCrash,
        Self::PeerPower,
        Self::AgentCrash,
        Self::NodePower,
        Self::Service,
        Self::Partition,
        Self::OneWay,
        Self::Stall,
        Self::Slow,
        Self::Loss,
        Self::Disk,
        Self::Clock,
        Self::Hooks,
        Self::Repeats,
        Self::Planner,
        Self::Amnesia,
    ];
}

/// Something that happens at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number in the whole schedule: what is left keeps its own.
    pub number: usize,
    /// When, from the moment at which the cluster is there.
    pub at_ms: u64,
    /// What.
    pub fault: Fault,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.at_ms / 1000, self.at_ms % 1000);
        write!(f, "#{} at {seconds}.{rest:03}: {:?}", self.number, self.fault)
    }
}

/// What goes wrong, or is said. Peers and nodes are counted together where both may be meant: peers first.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are which one, and for how long")]
pub enum Fault {
    /// A peer's process dies, and is started again after a while.
    KillPeer { peer: usize, for_ms: u64 },
    /// A peer's machine loses its power. Silently: its connections are half-open then.
    CutPeerPower { peer: usize, for_ms: u64, is_silent: bool },
    /// An agent dies; its hooks and its service live on.
    KillAgent { node: usize, for_ms: u64 },
    /// A node's machine loses its power.
    CutNodePower { node: usize, for_ms: u64, is_silent: bool },
    /// The next node that begins this hook loses its power so long after that; or only its agent dies.
    DieInHook { hook: Hook, after_ms: u64, for_ms: u64, is_power: bool },
    /// A service ends by itself.
    CrashService { node: usize },
    /// A service isn't well for a while.
    Sicken { node: usize, for_ms: u64 },
    /// While the next node that begins this hook runs it, another one's service isn't well.
    UpsetOther { hook: Hook, after_ms: u64, for_ms: u64 },
    /// The leader's planner chooses a node whose turn it isn't.
    ErrInPlanning { node: usize },
    /// With a bare majority alive, a peer's disk hangs, its process dies with writes on their way, comes back and takes part with
    /// what it finds; then its power is cut, the leader dies, and those who were away come back.
    AmnesiaQuorum { follower: usize, before_ms: u64, after_ms: u64 },
    /// These are cut off from all others: what is on its way is lost, and so are connections.
    Partition { side: Vec<usize>, for_ms: u64 },
    /// Nothing gets from the one to the other.
    CutOneWay { from: usize, to: usize, for_ms: u64 },
    /// What goes between these and all others comes late.
    Stall { side: Vec<usize>, for_ms: u64 },
    /// Messages take so long at most.
    SlowNetwork { latency_ms: u64, for_ms: u64 },
    /// Of a thousand messages so many are lost; what was to follow them on their connection never comes.
    LoseMessages { permille: u32, for_ms: u64 },
    /// A peer's disk is full.
    FillDisk { peer: usize, for_ms: u64 },
    /// The next sync on a peer's disk fails.
    FailSync { peer: usize },
    /// A peer's disk is slow.
    SlowDisk { peer: usize, for_ms: u64 },
    /// A peer's wall clock jumps.
    JumpClock { peer: usize, by_ms: i64 },
    /// An operator says something.
    Say(Verb),
}

/// What operators say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the API's verbs; releases, nodes and peers by number")]
pub enum Verb {
    Start(usize),
    Pause,
    Resume,
    Stop,
    Abort,
    Retry,
    Undo,
    Skip(usize),
    Hold(usize),
    Release(usize),
    Revoke(usize),
    Promote,
    TransferLeader(usize),
    ReplacePeer(usize),
    /// Sends the last but so many of the earlier writes again.
    Repeat(usize),
}
