//! A watch that nobody looks at live: a line per change, for logs and pipes.

use std::collections::BTreeMap;

use crate::failure::Failure;
use crate::output::Output;
use crate::table::{phase_text, rollout_header};
use crate::view::{RolloutView, StepView, WaitingOnView};

/// Prints what has changed since the last answer.
pub struct Lines<'a> {
    output: &'a Output,
    /// Phases that have been printed of each node's step.
    printed: BTreeMap<String, usize>,
    /// What each node, and under the empty name the rollout, was last said to wait on.
    waiting: BTreeMap<String, String>,
    header: String,
    asked: Option<String>,
    is_connected: bool,
}

impl<'a> Lines<'a> {
    pub fn new(output: &'a Output) -> Self {
        Self {
            output,
            printed: BTreeMap::new(),
            waiting: BTreeMap::new(),
            header: String::new(),
            asked: None,
            is_connected: true,
        }
    }

    /// Prints what an answer changes.
    pub fn update(&mut self, rollout: &RolloutView) -> Result<(), Failure> {
        let is_first = self.header.is_empty();
        if is_first {
            self.output.line(&format!("{}  {} to {}", rollout.rollout_id, rollout.group, rollout.target))?;
        }
        if !self.is_connected {
            self.is_connected = true;
            self.output.note("connected again");
        }
        for step in &rollout.steps {
            self.step(step, is_first)?;
            self.step_waits(rollout, step)?;
        }
        self.waits("", &rollout.rollout_id, rollout.now_at.as_deref(), rollout.waiting_on.as_ref())?;
        let header = rollout_header(rollout).join(", ");
        if header != self.header {
            self.output.line(&format!("{}  {}  {header}", clock(rollout.now_at.as_deref()), rollout.rollout_id))?;
            self.header = header;
        }
        let ask = rollout.asks_for();
        if let Some(ask) = ask.as_ref().filter(|ask| self.asked.as_ref() != Some(*ask)) {
            self.output.note(ask);
        }
        self.asked = ask;
        Ok(())
    }

    /// Says once that nothing is heard.
    pub fn reconnecting(&mut self) {
        if std::mem::replace(&mut self.is_connected, false) {
            self.output.note("the connection broke; trying the other peers");
        }
    }

    fn step(&mut self, step: &StepView, is_first: bool) -> Result<(), Failure> {
        let mut phases: Vec<_> =
            step.history.iter().map(|time| (time.phase.as_str(), time.entered_at.as_deref())).collect();
        if phases.last().is_none_or(|(phase, _)| *phase != step.phase) {
            phases.push((&step.phase, step.phase_since_at.as_deref()));
        }
        let printed = self.printed.entry(step.node_id.clone()).or_default();
        // What was before the watch began is told by the phase it has led to.
        let from = if is_first { phases.len() - 1 } else { (*printed).min(phases.len()) };
        *printed = phases.len();
        for (index, (phase, at)) in phases.iter().enumerate().skip(from) {
            if *phase == "queued" && is_first {
                continue;
            }
            let is_now = index + 1 == phases.len();
            let why = match *phase {
                "failed" => step.failure.as_ref().map(|failure| failure.text()),
                "skipped" => step.skipped_text(),
                "queued" if is_now && step.is_way_back() => Some("it goes back".to_owned()),
                _ => None,
            };
            let why = why.map(|text| format!(": {text}")).unwrap_or_default();
            let phase = if is_now { phase_text(step) } else { phase };
            self.output.line(&format!("{}  {}  {phase}{why}", clock(*at), step.node_name))?;
        }
        Ok(())
    }

    /// Steps whose turn hasn't come are of no interest here, and neither is what the rollout as a whole waits on too.
    fn step_waits(&mut self, rollout: &RolloutView, step: &StepView) -> Result<(), Failure> {
        let whole = rollout.waiting_on.as_ref().map(WaitingOnView::text);
        let waiting = step.waiting_on.as_ref();
        let waiting = waiting.filter(|waiting| !waiting.is_turn() && Some(waiting.text()) != whole);
        self.waits(&step.node_id, &step.node_name, rollout.now_at.as_deref(), waiting)
    }

    fn waits(
        &mut self,
        key: &str,
        name: &str,
        now: Option<&str>,
        waiting: Option<&WaitingOnView>,
    ) -> Result<(), Failure> {
        let waiting = waiting.filter(|waiting| waiting.is_news());
        // The detail may count; the reason is what changes.
        let reason =
            waiting.map(|waiting| format!("{} {}", waiting.reason, waiting.nodes.join(" "))).unwrap_or_default();
        let before = self.waiting.insert(key.to_owned(), reason.clone()).unwrap_or_default();
        match waiting {
            Some(waiting) if reason != before => {
                self.output.line(&format!("{}  {name}  waits on {}", clock(now), waiting.text()))
            }
            _ => Ok(()),
        }
    }
}

/// `14:04:12` of an RFC 3339 time.
fn clock(time: Option<&str>) -> &str {
    time.and_then(|time| time.get(11..19)).unwrap_or("--:--:--")
}
