//! What hooks tell: each says when it begins and when it has ended, and goes on only once that was heard.
//!
//! "At most" is judged by what nodes really did, with the knowledge that the log can have had: a machine that has just died is
//! known to be unavailable a moment later, so only what was planned to be down counts.

use std::collections::{BTreeMap, BTreeSet};

use rollcall_ident::{BootId, Fence, ReleaseIdent, RolloutId};
use rollcall_rollout::State;
use rollcall_steps::{Hook, Milestone, StepOpened};

use super::Violation;

/// For so long a node must have been well, and in a session, for the log to know it.
const KNOWN_AFTER_MS: u64 = 5_000;

/// A hook is about to do what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// On which node.
    pub node: String,
    /// In which rollout.
    pub rollout: RolloutId,
    /// By which grant.
    pub fence: Fence,
    /// In which try.
    pub attempt: u32,
    /// Which hook.
    pub hook: Hook,
    /// To which release.
    pub release: ReleaseIdent,
    /// In which boot.
    pub boot_id: BootId,
}

/// How often a hook of one attempt was begun, and how often that is excused.
#[derive(Debug, Default)]
struct Starts {
    begun: u32,
    /// It said "call me again", it failed and is retried, or its agent or machine died and its policy lets it run again.
    excused: u32,
}

type Attempt = (String, RolloutId, Fence, u32, Hook);

/// What a node that is told nothing new may still begin under a token that the log has ended: these ask, or undo.
const HARMLESS: [Hook; 2] = [Hook::ReadyToUpdate, Hook::Undrain];

/// What the hooks have told so far.
pub struct Witness {
    max_unavailable: usize,
    fences: BTreeMap<String, Fence>,
    granted: BTreeMap<String, BTreeSet<Fence>>,
    /// Fences that the log has taken back from their nodes, or that these have given back.
    given_back: BTreeSet<Fence>,
    /// What each node has said of its step under each fence, heard or not.
    told: BTreeMap<(String, Fence), BTreeSet<&'static str>>,
    /// The step in which each node has begun to do something, and which it hasn't ended.
    open: BTreeMap<String, (RolloutId, Fence)>,
    /// The epoch of each node's latest session.
    epochs: BTreeMap<String, u64>,
    starts: BTreeMap<Attempt, Starts>,
    installed: BTreeSet<(String, ReleaseIdent)>,
    /// Since when each node is well; absent: it isn't.
    well_since: BTreeMap<String, u64>,
    /// Nodes that a step takes down, and that weren't well since; true: it is down already.
    taken_down: BTreeMap<String, bool>,
    /// When the log last let each node take its service down.
    let_go: BTreeMap<String, u64>,
    /// Who has begun what since somebody asked.
    fresh: Vec<(String, Hook)>,
    /// Between these revisions nothing was granted in this rollout: it stood still by an operator's word.
    standstills: BTreeMap<RolloutId, Vec<(u64, Option<u64>)>>,
}

impl Witness {
    /// So many members may be down at once.
    pub(super) fn new(max_unavailable: usize) -> Self {
        Self {
            max_unavailable,
            fences: BTreeMap::new(),
            granted: BTreeMap::new(),
            given_back: BTreeSet::new(),
            told: BTreeMap::new(),
            open: BTreeMap::new(),
            epochs: BTreeMap::new(),
            starts: BTreeMap::new(),
            installed: BTreeSet::new(),
            well_since: BTreeMap::new(),
            taken_down: BTreeMap::new(),
            let_go: BTreeMap::new(),
            fresh: Vec::new(),
            standstills: BTreeMap::new(),
        }
    }

    /// A peer has applied this: its steps carry the fences that the log has granted.
    pub(super) fn granted(&mut self, state: &State) {
        for rollout in state.rollouts().values() {
            for step in rollout.steps.values() {
                let Some(node) = state.nodes().get(&step.node) else { continue };
                if let Some(fence) = step.fence {
                    self.granted.entry(node.name.to_string()).or_default().insert(fence);
                }
            }
        }
    }

    /// By the log, this token has ended by what its node has said, and not by anybody's force.
    pub(super) fn given_back(&mut self, fence: Fence) {
        self.given_back.insert(fence);
    }

    /// A node has something to say of its step.
    pub fn tells(&mut self, node: &str, fence: Fence, milestone: &Milestone) {
        let what = match milestone {
            Milestone::Accepted => "accepted",
            Milestone::Prepared => "prepared",
            Milestone::Drained => "drained",
            Milestone::Stopped { .. } => "stopped",
            Milestone::Installed { .. } => "installed",
            Milestone::RebootBegun { .. } => "reboot_begun",
            Milestone::Started(_) => "started",
            Milestone::Finished(_) => "finished",
            Milestone::TurnedBack => "turned_back",
            Milestone::Failed { .. } => "failed",
        };
        self.told.entry((node.to_owned(), fence)).or_default().insert(what);
    }

    /// Whether a node has said one of these under this fence.
    #[must_use]
    pub fn has_told(&self, node: &str, fence: Fence, one_of: &[&str]) -> bool {
        let told = self.told.get(&(node.to_owned(), fence));
        told.is_some_and(|told| one_of.iter().any(|what| told.contains(what)))
    }

    /// A node is welcomed to a session.
    pub fn session(&mut self, node: &str, epoch: u64) -> Option<Violation> {
        let before = self.epochs.insert(node.to_owned(), epoch).unwrap_or_default();
        (epoch <= before).then(|| {
            Violation::new("I-22", format_args!("{node} is welcomed to session {epoch}, after session {before}"))
        })
    }

    /// A hook begins.
    pub fn begin(&mut self, begin: &Begin) -> Option<Violation> {
        let Begin { node, rollout, fence, attempt, hook, release, .. } = begin;
        self.fresh.push((node.clone(), *hook));
        let what = format!("{node} begins {} in {rollout} with fence {fence}, attempt {attempt}", hook.name());
        let highest = self.fences.entry(node.clone()).or_default();
        if *fence < *highest {
            return Some(Violation::new("R2", format_args!("{what}, after {highest}")));
        }
        *highest = *fence;
        if !self.granted.get(node).is_some_and(|granted| granted.contains(fence)) {
            return Some(Violation::new("R3", format_args!("{what}, which no log has granted")));
        }
        let stands = self.standstills.get(rollout).into_iter().flatten();
        if let Some((from, _)) = stands.clone().find(|(from, to)| fence.0 > *from && to.is_none_or(|to| fence.0 < to)) {
            return Some(Violation::new(
                "R8",
                format_args!("{what}, granted after it was acknowledged to stand at {from}"),
            ));
        }
        if !HARMLESS.contains(hook) {
            if self.given_back.contains(fence) {
                return Some(Violation::new("R3", format_args!("{what}, which was given back")));
            }
            let open = self.open.insert(node.clone(), (*rollout, *fence));
            if let Some((other, of)) = open.filter(|open| *open != (*rollout, *fence)) {
                return Some(Violation::new("R11", format_args!("{what}, in the middle of {other} with {of}")));
            }
        }
        if *hook == Hook::Install && self.installed.contains(&(node.clone(), release.clone())) {
            return Some(Violation::new("R6", format_args!("{what}, though {release} was installed on record")));
        }
        let starts = self.starts.entry((node.clone(), *rollout, *fence, *attempt, *hook)).or_default();
        starts.begun += 1;
        let repeats = !matches!(hook, Hook::ReadyToUpdate) && starts.begun > 1 + starts.excused;
        repeats.then(|| Violation::new("R6", format_args!("{what}, for the {}th time", starts.begun)))
    }

    /// Who has begun what since this was asked last.
    pub fn take_fresh(&mut self) -> Vec<(String, Hook)> {
        std::mem::take(&mut self.fresh)
    }

    /// A hook has ended; it may be begun again if it said so, or failed.
    pub fn end(&mut self, begin: &Begin, may_repeat: bool) {
        let key = (begin.node.clone(), begin.rollout, begin.fence, begin.attempt, begin.hook);
        if let Some(starts) = self.starts.get_mut(&key) {
            starts.excused += u32::from(may_repeat);
        }
    }

    /// An agent, or its machine, has died: hooks whose end it can't have recorded may be settled by their policy. What must not
    /// be done twice has another one.
    pub fn died(&mut self, node: &str) {
        for ((of, _, _, _, hook), starts) in &mut self.starts {
            if of == node && !matches!(hook, Hook::PreStop | Hook::PostStop) && starts.begun > 0 {
                starts.excused = starts.excused.max(starts.begun);
            }
        }
    }

    /// The end of an installation is durable on the node.
    pub fn installed(&mut self, node: &str, release: &ReleaseIdent) {
        self.installed.insert((node.to_owned(), release.bare()));
    }

    /// The log lets a node take its service down. It counts one that is broken as down already, and what recovers by itself
    /// after this point is taken down all the same.
    pub fn let_go(&mut self, node: &str, at_ms: u64) {
        self.let_go.insert(node.to_owned(), at_ms);
    }

    /// A step takes the service of a node down, now.
    pub fn taken_down(&mut self, node: &str, at_ms: u64, has_session: bool) -> Option<Violation> {
        let others: Vec<_> = self.taken_down.keys().filter(|other| *other != node).cloned().collect();
        let since = self.well_since.get(node).copied();
        let let_go = self.let_go.get(node).copied().unwrap_or(at_ms);
        let was_well = has_session && since.is_some_and(|since| let_go.saturating_sub(since) >= KNOWN_AFTER_MS);
        self.taken_down.insert(node.to_owned(), false);
        (was_well && others.len() >= self.max_unavailable)
            .then(|| Violation::new("R1", format_args!("{node} is taken down while {others:?} are")))
    }

    /// Whether a node's service is well, as it really is.
    pub fn is_well(&mut self, node: &str, is_well: bool, at_ms: u64) {
        if !is_well {
            self.well_since.remove(node);
            self.taken_down.entry(node.to_owned()).and_modify(|is_down| *is_down = true);
            return;
        }
        if self.taken_down.get(node) == Some(&true) {
            self.taken_down.remove(node);
        }
        self.well_since.entry(node.to_owned()).or_insert(at_ms);
    }

    /// The journal of a node says that it has ended a step: its agent may have died before it could tell anybody.
    pub fn found_closed(&mut self, node: &str, opened: &StepOpened) {
        if self.open.get(node) == Some(&(opened.rollout, opened.fence)) {
            self.open.remove(node);
        }
        if self.taken_down.get(node) == Some(&false) {
            self.taken_down.remove(node);
        }
    }

    /// A node has ended a step; this runs on it. One that claims to have succeeded runs its target.
    pub fn closed(
        &mut self,
        node: &str,
        is_finished: bool,
        opened: &StepOpened,
        runs: Option<&ReleaseIdent>,
    ) -> Option<Violation> {
        self.found_closed(node, opened);
        let has_begun = |hook| {
            let key = (node.to_owned(), opened.rollout, opened.fence, opened.attempt, hook);
            self.starts.contains_key(&key)
        };
        let is_installed = self.installed.contains(&(node.to_owned(), opened.to.bare()));
        // Who was sent to its step while its process was down, or runs the target already, has no `init` to run.
        let is_done = is_installed && has_begun(Hook::PostStop) && runs.is_none_or(|release| *release == opened.to);
        (is_finished && !is_done).then(|| {
            Violation::new(
                "R5",
                format_args!("{node} has finished {} to {}, and runs {runs:?}", opened.rollout, opened.to),
            )
        })
    }

    /// An operator was told at this revision that the rollout stands still, or has ended.
    pub fn stands_still(&mut self, rollout: RolloutId, from: u64) {
        self.standstills.entry(rollout).or_default().push((from, None));
    }

    /// An operator wants it to go on. Until there is an answer nobody knows from when on.
    pub fn may_go_on(&mut self, rollout: RolloutId) {
        for standstill in self.standstills.entry(rollout).or_default() {
            if standstill.1.is_none() {
                standstill.1 = Some(standstill.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(hook: Hook, rollout: u64, fence: u64) -> Begin {
        Begin {
            node: "n1".to_owned(),
            rollout: RolloutId(rollout),
            fence: Fence(fence),
            attempt: 1,
            hook,
            release: "acme/app/2.0.0/20260201000000".parse().unwrap(),
            boot_id: BootId([1; 16]),
        }
    }

    /// Of a node that the log has granted these.
    fn witness(granted: &[u64]) -> Witness {
        let mut witness = Witness::new(1);
        witness.granted.insert("n1".to_owned(), granted.iter().copied().map(Fence).collect());
        witness
    }

    fn rule(found: Option<Violation>) -> Option<String> {
        found.map(|violation| violation.rule)
    }

    #[test]
    fn nothing_is_done_under_a_token_that_was_given_back() {
        let mut witness = witness(&[5]);
        witness.given_back(Fence(5));
        assert_eq!(rule(witness.begin(&begin(Hook::ReadyToUpdate, 3, 5))), None, "it asks, and does nothing");
        assert_eq!(rule(witness.begin(&begin(Hook::Drain, 3, 5))).as_deref(), Some("R3"));
    }

    #[test]
    fn two_rollouts_never_interleave_on_a_node() {
        let mut witness = witness(&[5, 9]);
        assert_eq!(rule(witness.begin(&begin(Hook::PreStop, 3, 5))), None);
        assert_eq!(rule(witness.begin(&begin(Hook::PreStop, 8, 9))).as_deref(), Some("R11"));
    }

    #[test]
    fn each_session_is_welcomed_under_a_higher_epoch() {
        let mut witness = witness(&[]);
        assert_eq!(rule(witness.session("n1", 4)), None);
        assert_eq!(rule(witness.session("n1", 7)), None);
        assert_eq!(rule(witness.session("n1", 7)).as_deref(), Some("I-22"));
    }

    #[test]
    fn what_a_node_has_told_is_of_its_fence() {
        let mut witness = witness(&[]);
        witness.tells("n1", Fence(5), &Milestone::Drained);
        assert!(witness.has_told("n1", Fence(5), &["drained"]));
        assert!(!witness.has_told("n1", Fence(6), &["drained"]));
        assert!(!witness.has_told("n2", Fence(5), &["drained"]));
    }
}
