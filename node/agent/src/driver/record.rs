//! Which process is the service: a record on the disk, and a mark in the process's environment.
//!
//! A record is only believed within the boot that wrote it and for a process with the same pid and start time, so it
//! needs no sync: a power cut ends the process too. The mark closes the gap between the start and the record.

use std::fs;
use std::path::PathBuf;

use rollcall_ident::{BootId, GroupName, NodeId, ReleaseIdent};
use rollcall_steps::Instance;
use serde::{Deserialize, Serialize};

use crate::config::parsed;
use crate::disk::{ServiceLayout, write_volatile};
use crate::process::{Process, find_by_environment, read_stat};

/// In the environment of the service: whose it is.
pub(super) const INSTANCE_MARK: &str = "ROLLCALL_INSTANCE";

#[derive(Debug, Serialize)]
struct Written {
    pid: u32,
    start_time: u64,
    boot_id: String,
    release: String,
}

#[derive(Debug, Deserialize)]
struct Read {
    pid: u32,
    start_time: u64,
    #[serde(deserialize_with = "parsed")]
    boot_id: BootId,
    #[serde(deserialize_with = "parsed")]
    release: ReleaseIdent,
}

/// The mark of this node's processes of a group, up to the release.
pub(super) fn mark_prefix(node_id: NodeId, group: &GroupName) -> String {
    format!("{node_id}/{group}/")
}

/// Records the process. A disk that refuses is logged: the mark still finds the process.
pub(super) fn store_record(layout: &ServiceLayout, instance: &Instance) {
    let written = Written {
        pid: instance.pid,
        start_time: instance.start_time,
        boot_id: instance.boot_id.to_string(),
        release: instance.release.to_string(),
    };
    let text = toml::to_string(&written).expect("numbers and strings always serialise");
    for path in layout.instance() {
        if let Err(error) = write_volatile(&path, text.as_bytes()) {
            tracing::warn!(%error, "the running process isn't recorded");
        }
    }
}

fn load_record(path: &PathBuf) -> Option<Instance> {
    let Read { pid, start_time, boot_id, release } = toml::from_str(&fs::read_to_string(path).ok()?).ok()?;
    Some(Instance { pid, start_time, boot_id, release })
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
) -> Option<(Process, Instance)> {
    let recorded = layout.instance().iter().filter_map(load_record).chain(last_known).find_map(|instance| {
        let process = (instance.boot_id == boot_id).then(|| Process::adopt(instance.pid, instance.start_time))??;
        Some((process, instance))
    });
    recorded.or_else(|| find_marked(node_id, group, boot_id))
}

fn find_marked(node_id: NodeId, group: &GroupName, boot_id: BootId) -> Option<(Process, Instance)> {
    find_by_environment(INSTANCE_MARK, &mark_prefix(node_id, group)).into_iter().find_map(|(pid, release)| {
        let release = release.parse().ok()?;
        // Its children carry the mark too; the process itself leads its group.
        let stat = read_stat(pid).filter(|stat| stat.group == pid)?;
        let process = Process::adopt(pid, stat.start_time)?;
        Some((process, Instance { pid, start_time: stat.start_time, boot_id, release }))
    })
}
