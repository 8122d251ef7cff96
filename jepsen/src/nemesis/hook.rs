//! Hooks that misbehave, as scripts of strangers do: they hang until they are ended, leave processes behind, fill the
//! disk, or take a healthy service for a sick one. The sample service's hooks look for a file that asks them to.

use std::path::PathBuf;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::hosts::Hosts;
use crate::nemesis::{Active, Begun, Bite, Wound};
use crate::power::ailment::Illness;

/// What a hook does, by the name that it knows it under.
const MOODS: [(&str, &str); 4] = [
    ("hang", "hooks hang until they are ended"),
    ("fork", "hooks leave processes behind"),
    ("fill", "hooks fill the disk"),
    ("sick", "the health check fails"),
];

/// Hooks that misbehave.
#[derive(Debug)]
pub struct Misbehaving {
    host: String,
    mood: &'static str,
    boot: String,
    refused_before: u64,
}

/// Those of one node begin to.
pub fn begin(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let Some(host) = hosts.nodes.choose(random) else {
        return Ok(Begun::Skipped("there is no node: --workload rollout".into()));
    };
    let (name, (mood, what)) = (host.name().to_owned(), *MOODS.choose(random).unwrap_or(&MOODS[0]));
    if !host.machine.is_running() {
        return Ok(Begun::Skipped(format!("{name} has no power")));
    }
    let place = state(host).join("mood");
    if place.exists() {
        return Ok(Begun::Skipped(format!("the hooks of {name} misbehave already")));
    }
    // What was seen of an earlier one.
    let _ = std::fs::remove_file(seen(host));
    if let Err(error) = std::fs::write(&place, format!("{mood}\n")) {
        return Ok(Begun::Skipped(format!("the disk of {name} takes nothing: {error}")));
    }
    let refused_before = host.machine.ailment().refused_count();
    if mood == "fill" {
        host.machine.ailment().set(Some(Illness::FullDisk));
    }
    let active = Active::Hook(Misbehaving { host: name.clone(), mood, boot: host.machine.boot_id(), refused_before });
    Ok(Begun::Installed(Wound { what: format!("{name}: {what}"), targets: vec![name], active }))
}

impl Misbehaving {
    /// They behave again.
    pub fn end(self, hosts: &mut Hosts) -> Result<Bite> {
        let host = hosts.named(&self.host)?;
        if self.mood == "fill" {
            host.machine.ailment().set(None);
        }
        if !host.machine.is_running() || host.machine.boot_id() != self.boot {
            return Ok(Bite::unseen(format!("{} lost its power meanwhile", self.host)));
        }
        // A disk that is ill just now keeps the file; it is gone with the next boot then, as nobody syncs it.
        let _ = std::fs::remove_file(state(host).join("mood"));
        if self.mood == "fill" {
            let refused = host.machine.ailment().refused_count() - self.refused_before;
            return Ok(Bite { bit: refused > 0, evidence: format!("calls refused: {refused}") });
        }
        let hooks = std::fs::read_to_string(seen(host)).unwrap_or_default();
        let hooks: Vec<&str> = hooks.lines().collect();
        let evidence = match hooks.as_slice() {
            [] => "no hook ran meanwhile".to_owned(),
            [first, ..] => format!("{} hooks, {first} first", hooks.len()),
        };
        Ok(Bite { bit: !hooks.is_empty(), evidence })
    }
}

/// What the service shows of itself, and is asked to do.
fn state(host: &crate::hosts::host::Host) -> PathBuf {
    host.machine.disk().join("state")
}

fn seen(host: &crate::hosts::host::Host) -> PathBuf {
    state(host).join("mood.seen")
}
