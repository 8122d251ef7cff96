//! Which process is the service: a record on the disk, and a mark in the process's environment.
//!
//! A record is only believed within the boot that wrote it and for a process with the same pid and start time, so it
//! needs no sync: a power cut ends the process too. The mark closes the gap between the start and the record. What the
//! service itself has started carries it as well, so each start has a mark of its own: what carries the mark of a process
//! that is gone is what that one has left behind, never the service.

use std::path::Path;

use rollcall_ident::{BootId, GroupName, NodeId, ReleaseIdent};
use rollcall_steps::{Instance, RunToken};
use serde::{Deserialize, Serialize};

use crate::config::parsed;
use crate::disk::{ServiceLayout, read_sealed_text, seal_text, write_volatile};
use crate::process::{Process, environment_value, find_by_environment, read_stat};

/// In the environment of the service: whose it is.
pub(super) const INSTANCE_MARK: &str = "ROLLCALL_INSTANCE";

#[derive(Debug, Serialize)]
struct Written {
    pid: u32,
    start_time: u64,
    boot_id: String,
    release: String,
    start: String,
}

#[derive(Debug, Deserialize)]
struct Read {
    pid: u32,
    start_time: u64,
    #[serde(deserialize_with = "parsed")]
    boot_id: BootId,
    #[serde(deserialize_with = "parsed")]
    release: ReleaseIdent,
    #[serde(default)]
    start: String,
}

/// A process on record.
struct Record {
    instance: Instance,
    /// Of which start; empty: not known.
    start: String,
}

/// A process that was started by an earlier life of the agent.
#[derive(Debug)]
pub struct Found {
    /// The process.
    pub process: Process,
    /// What it is.
    pub instance: Instance,
    /// The start in its mark; empty: not known.
    pub start: String,
}

/// The mark of this node's processes of a group, up to the release.
pub(super) fn mark_prefix(node_id: NodeId, group: &GroupName) -> String {
    format!("{node_id}/{group}/")
}

/// The mark of one start of a release.
pub(super) fn mark_of(prefix: &str, release: &ReleaseIdent, start: RunToken) -> String {
    format!("{prefix}{release}#{start}")
}

/// Records the process. A disk that refuses is logged: the mark still finds the process.
pub(super) fn store_record(layout: &ServiceLayout, instance: &Instance, start: &str) {
    let written = Written {
        pid: instance.pid,
        start_time: instance.start_time,
        boot_id: instance.boot_id.to_string(),
        release: instance.release.to_string(),
        start: start.to_owned(),
    };
    let text = toml::to_string(&written).expect("numbers and strings always serialise");
    for path in layout.instance() {
        if let Err(error) = write_volatile(&path, seal_text(&text).as_bytes()) {
            tracing::warn!(%error, "the running process isn't recorded");
        }
    }
}

fn load_record(path: &Path) -> Option<Record> {
    let Read { pid, start_time, boot_id, release, start } = toml::from_str(&read_sealed_text(path).ok()??).ok()?;
    Some(Record { instance: Instance { pid, start_time, boot_id, release }, start })
}

/// The service's process of an earlier life of the agent, where one runs: from the record, its copy, what the journal
/// knows (`last_known`), or the mark.
#[must_use]
pub fn find_running(
    layout: &ServiceLayout,
    node_id: NodeId,
    group: &GroupName,
    boot_id: BootId,
    last_known: Option<Instance>,
) -> Option<Found> {
    let known = last_known.map(|instance| Record { instance, start: String::new() });
    let records: Vec<Record> = layout.instance().iter().filter_map(|path| load_record(path)).chain(known).collect();
    let of_this_boot = records.into_iter().filter(|record| record.instance.boot_id == boot_id);
    let mut gone = Vec::new();
    for Record { instance, start } in of_this_boot {
        match Process::adopt(instance.pid, instance.start_time) {
            Some(process) => {
                let start = if start.is_empty() { start_in_mark(instance.pid) } else { start };
                return Some(Found { process, instance, start });
            }
            None => gone.push(start),
        }
    }
    gone.retain(|start| !start.is_empty());
    find_marked(node_id, group, boot_id, &gone)
}

/// Of a process that only the journal knows; empty: it has no mark.
fn start_in_mark(pid: u32) -> String {
    let mark = environment_value(pid, INSTANCE_MARK).unwrap_or_default();
    mark.rsplit_once('#').map(|(_, start)| start.to_owned()).unwrap_or_default()
}

/// A process whose start isn't on record: the agent died in between, or the records were lost.
fn find_marked(node_id: NodeId, group: &GroupName, boot_id: BootId, gone: &[String]) -> Option<Found> {
    let marked = find_by_environment(INSTANCE_MARK, &mark_prefix(node_id, group));
    let leaders = marked.into_iter().filter_map(|(pid, rest)| {
        let (release, start) = rest.split_once('#').unwrap_or((&rest, ""));
        if gone.iter().any(|gone| gone == start) {
            return None;
        }
        // Its children carry the mark too. The process itself leads its group, but no session: a daemon does.
        let stat = read_stat(pid).filter(|stat| stat.group == pid && stat.session != pid && !stat.is_zombie)?;
        Some((stat.start_time, pid, release.parse().ok()?, start.to_owned()))
    });
    // Of those that are left it is the first that was started.
    let (start_time, pid, release, start) =
        leaders.min_by_key(|(start_time, pid, _, _): &(u64, u32, ReleaseIdent, String)| (*start_time, *pid))?;
    let process = Process::adopt(pid, start_time)?;
    Some(Found { process, instance: Instance { pid, start_time, boot_id, release }, start })
}
