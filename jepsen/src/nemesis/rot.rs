//! One bit of a stopped peer's files flips. It must never be served: either the peer doesn't start and says what is
//! damaged and what to do (which is then done), or it didn't need the bit, or has it from somewhere else.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::hosts::Hosts;
use crate::hosts::host::Host;
use crate::nemesis::{Active, Begun, Bite, Wound, member};

/// How soon a peer that won't start has said so.
const SAYS_WITHIN: Duration = Duration::from_secs(4);

/// A bit that was flipped.
#[derive(Debug)]
pub struct Flipped {
    host: String,
    peer_id: u64,
    place: String,
    /// How long its log was before.
    log_before: u64,
}

/// Stops a peer that doesn't lead, and flips a bit.
pub async fn begin(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let leader = hosts.leader().map(|host| host.name().to_owned());
    let followers: Vec<&Host> = hosts.peers.iter().filter(|peer| Some(peer.name()) != leader.as_deref()).collect();
    let Some(host) = followers.choose(random) else { return Ok(Begun::Skipped("there is no follower".into())) };
    let name = host.name().to_owned();
    if !hosts.to_rebuild.is_empty() {
        return Ok(Begun::Skipped("another peer has to be rebuilt first".into()));
    }
    let process = match host.living() {
        Ok(process) => process,
        Err(why) => return Ok(Begun::Skipped(why)),
    };
    if host.machine.ailment().is_ill() {
        return Ok(Begun::Skipped(format!("the disk of {name} takes nothing, not even a flipped bit")));
    }
    // Whoever won't start afterwards has to be taken out by it.
    let Some(peer_id) = hosts.peer_id_of(&name) else {
        return Ok(Begun::Skipped(format!("nobody knows the id of {name}")));
    };
    // Without the others it couldn't be.
    if let Some(why) = hosts.unwell() {
        return Ok(Begun::Skipped(format!("{why}: there would be no quorum")));
    }
    // Whoever gives it its power back starts it too, while this fault is still on.
    let log_before = host.log_length();
    host.hold()?;
    host.kill(process).await?;
    let files = files_below(host.data());
    let Some(file) = files.choose(random) else {
        host.release()?;
        return Ok(Begun::Skipped(format!("{name} has no file")));
    };
    let place = flip(file, random)?;
    let place = place.replace(&format!("{}/", host.data().display()), "");
    let active = Active::Rot(Flipped { host: name.clone(), peer_id, place: place.clone(), log_before });
    Ok(Begun::Installed(Wound { what: format!("{name} stops, and a bit flips: {place}"), targets: vec![name], active }))
}

impl Flipped {
    /// It starts again; where it won't, it is rebuilt as it says.
    pub async fn end(self, hosts: &mut Hosts) -> Result<Bite> {
        hosts.named(&self.host)?.release()?;
        let deadline = tokio::time::Instant::now() + SAYS_WITHIN;
        while tokio::time::Instant::now() < deadline {
            let said = hosts.named(&self.host)?.log_since(self.log_before);
            if let Some(line) = said.lines().find(|line| line.contains("damaged") && !line.contains("put aside")) {
                let line: String = line.chars().take(160).collect();
                if hosts.named(&self.host)?.process().is_none() || said.matches("damaged").count() > 1 {
                    let rebuilt = self.rebuild(hosts).await?;
                    return Ok(Bite::seen(format!("{}: detected: {line}; {rebuilt}", self.place)));
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(Bite::seen(format!("{}: the peer starts; what it serves is judged by the workload", self.place)))
    }

    async fn rebuild(&self, hosts: &mut Hosts) -> Result<String> {
        hosts.to_rebuild.push((self.host.clone(), self.peer_id));
        member::rebuild_all(hosts).await
    }
}

/// Files with something in them that the peer reads when it starts.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if entry.metadata().is_ok_and(|metadata| metadata.len() > 0) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn flip(file: &Path, random: &mut StdRng) -> Result<String> {
    let opened = OpenOptions::new().read(true).write(true).open(file);
    let opened = opened.with_context(|| format!("can't open {}", file.display()))?;
    let length = opened.metadata()?.len();
    let (at, bit) = (random.random_range(0..length.max(1)), random.random_range(0..8));
    let mut byte = [0];
    opened.read_exact_at(&mut byte, at)?;
    byte[0] ^= 1 << bit;
    opened.write_all_at(&byte, at)?;
    opened.sync_all()?;
    Ok(format!("{}, byte {at} of {length}, bit {bit}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn exactly_one_bit_flips() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        std::fs::write(&file, [0; 100]).unwrap();
        std::fs::write(folder.path().join("empty"), "").unwrap();
        assert_eq!(files_below(folder.path()), std::slice::from_ref(&file));
        flip(&file, &mut StdRng::seed_from_u64(1)).unwrap();
        let ones: u32 = std::fs::read(&file).unwrap().iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(ones, 1);
    }
}
