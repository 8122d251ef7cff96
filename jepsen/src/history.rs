//! What the witness saw, in its order: the begins and ends of hooks, and our own kills between them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A hook is about to act; it acts only after this was on the recorder's disk.
    Begin,
    /// A hook ended.
    End,
    /// The harness killed something of this node and nothing of it is left; `hook` says what: `agent`, `service`, `all`.
    Killed,
}

/// One record. Fields that the environment did not name are empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When the recorder had it, since the run began.
    pub at: Duration,
    /// What happened.
    pub event: EventKind,
    /// Of which hook.
    pub hook: String,
    /// The hook's process.
    pub pid: u32,
    /// Its exit code; ends only.
    pub exit: Option<i32>,
    /// The release whose hook it is.
    pub ident: String,
    /// As `ROLLCALL_ROLLOUT` and so on say.
    pub rollout: String,
    /// The group.
    pub group: String,
    /// The node.
    pub node: String,
    /// The release that the step leaves.
    pub from: String,
    /// The release that the step goes to.
    pub to: String,
    /// The step's phase.
    pub phase: String,
    /// The step's attempt.
    pub attempt: u32,
    /// The fence of the grant.
    pub fence: u64,
    /// Why the hook runs: `update`, `crash`, …
    pub reason: String,
    /// The boot that it runs in.
    pub boot: String,
}

impl Record {
    /// A record with everything empty but these.
    pub fn new(at: Duration, event: EventKind, node: &str, hook: &str) -> Self {
        Self {
            at,
            event,
            hook: hook.to_owned(),
            pid: 0,
            exit: None,
            ident: String::new(),
            rollout: String::new(),
            group: String::new(),
            node: node.to_owned(),
            from: String::new(),
            to: String::new(),
            phase: String::new(),
            attempt: 0,
            fence: 0,
            reason: String::new(),
            boot: String::new(),
        }
    }

    /// From a hook's line: `key=value` separated by tabs. `None` where it isn't one.
    pub fn parse(at: Duration, line: &str) -> Option<Self> {
        let fields: BTreeMap<&str, &str> =
            line.trim_end_matches(['\n', '\r']).split('\t').filter_map(|field| field.split_once('=')).collect();
        let text = |name: &str| fields.get(name).copied().unwrap_or_default().to_owned();
        let event = match fields.get("event").copied()? {
            "begin" => EventKind::Begin,
            "end" => EventKind::End,
            _ => return None,
        };
        Some(Self {
            at,
            event,
            hook: Some(text("hook")).filter(|hook| !hook.is_empty())?,
            pid: fields.get("pid")?.parse().ok()?,
            exit: fields.get("exit").and_then(|exit| exit.parse().ok()),
            ident: text("ident"),
            rollout: text("rollout"),
            group: text("group"),
            node: Some(text("node")).filter(|node| !node.is_empty())?,
            from: text("from"),
            to: text("to"),
            phase: text("phase"),
            attempt: fields.get("attempt").and_then(|attempt| attempt.parse().ok()).unwrap_or(0),
            fence: fields.get("fence").and_then(|fence| fence.parse().ok()).unwrap_or(0),
            reason: text("reason"),
            boot: text("boot"),
        })
    }
}

/// Records in the order in which the recorder had them.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The records.
    pub records: Vec<Record>,
}

impl History {
    /// Begins of a hook, over all nodes.
    pub fn begins<'a>(&'a self, hook: &'a str) -> impl Iterator<Item = &'a Record> {
        self.records.iter().filter(move |record| record.event == EventKind::Begin && record.hook == hook)
    }

    /// Kills of a node that took its service.
    pub fn service_kills<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Record> {
        self.records.iter().filter(move |record| {
            record.event == EventKind::Killed
                && record.node == node
                && matches!(record.hook.as_str(), "service" | "all")
        })
    }

    /// The end of the hook that began with this record.
    pub fn end_of(&self, begin: &Record) -> Option<&Record> {
        self.records.iter().find(|record| {
            record.event == EventKind::End
                && record.at >= begin.at
                && (record.pid, &record.node, &record.hook) == (begin.pid, &begin.node, &begin.hook)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hooks_line_is_understood() {
        let line = "event=end\thook=install\tpid=77\texit=75\trollout=r2\tnode=redis-1\tattempt=1\tfence=42\n";
        let record = Record::parse(Duration::from_secs(1), line).unwrap();
        assert_eq!((record.event, record.exit, record.attempt, record.fence), (EventKind::End, Some(75), 1, 42));
        assert_eq!(record.rollout, "r2");
    }

    #[test]
    fn a_line_without_its_node_is_refused() {
        assert_eq!(Record::parse(Duration::ZERO, "event=begin\thook=run\tpid=1"), None);
        assert_eq!(Record::parse(Duration::ZERO, "hello"), None);
    }
}
