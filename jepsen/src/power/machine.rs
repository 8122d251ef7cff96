//! One machine: namespaces for processes, mounts, names and network, a boot id and a disk of its own, and one program
//! that starts with it.
//!
//! Its first process is [`first`](crate::power::first); the machine lives as long as that does. Losing power has an
//! order: first the cable is dead and the disk silent, so that nobody hears of anything that comes later; then every
//! process gets its SIGKILL; then what was not synced is gone; then the machine may start again, with a new boot id.

use std::fs::OpenOptions;
use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};

use crate::power::ailment::Ailment;
use crate::power::disk::{Durability, Loss};
use crate::power::mount::PoweredDisk;
use crate::power::network::{self, Cable};
use crate::procfs;

/// BOUND: what takes a kernel milliseconds may take so long on a busy machine.
const DONE_WITHIN: Duration = Duration::from_secs(20);

/// What a machine is made of.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name, also as the machine itself knows it.
    pub name: String,
    /// Its place in the network, from 1 on.
    pub number: u8,
    /// How its disk keeps what is synced.
    pub durability: Durability,
    /// The program with `first-process` and `reboot`: see [`crate::power::first`].
    pub launcher: PathBuf,
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    plan: Plan,
    folder: PathBuf,
    disk: PoweredDisk,
    command: Vec<String>,
    boot: u32,
    running: Option<Running>,
    ends: mpsc::UnboundedSender<End>,
}

/// A machine's first process ended, in one of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Which machine, by its number.
    pub number: u8,
    /// In which of its lives, from 1 on.
    pub boot: u32,
    /// It asked the kernel to reboot; otherwise it was killed, or its program ended.
    pub rebooted: bool,
}

#[derive(Debug)]
struct Running {
    /// As we see it.
    first: Pid,
    /// Which processes are the machine's.
    namespace: PathBuf,
    cable: Cable,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl Machine {
    /// A machine below `folder`, switched off. `ends` hears of each end of its first process.
    pub fn create(folder: PathBuf, plan: Plan, ends: mpsc::UnboundedSender<End>) -> Result<Self> {
        std::fs::create_dir_all(&folder)?;
        let machine_id = format!("{:032x}\n", rand::random::<u128>());
        std::fs::write(folder.join("machine-id"), machine_id)?;
        let disk = PoweredDisk::new(folder.join("disk"), plan.durability);
        Ok(Self { plan, folder, disk, command: Vec::new(), boot: 0, running: None, ends })
    }

    /// A folder on its disk that was there before its first boot, as its installation leaves one.
    pub fn lay_folder(&self, name: &str) -> Result<()> {
        self.disk.lay_folder(name)
    }

    /// What it starts when it boots: a program and its arguments.
    pub fn set_command(&mut self, command: Vec<String>) {
        self.command = command;
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// Its address.
    pub fn address(&self) -> Ipv4Addr {
        network::address_of(self.plan.number)
    }

    /// Its number.
    pub fn number(&self) -> u8 {
        self.plan.number
    }

    /// What outlives every power cut: config and log, and no program's data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where its disk is mounted while it has power.
    pub fn disk(&self) -> &Path {
        self.disk.place()
    }

    /// Copies what is on its disk now beside it, to be looked at after the run.
    pub fn keep_copy_of_disk(&self) -> Result<()> {
        let copy = self.folder.join("disk-at-the-end");
        let status = std::process::Command::new("cp").arg("-a").arg(self.disk()).arg(&copy).status()?;
        if !status.success() {
            bail!("can't copy the disk of {} to {}", self.plan.name, copy.display());
        }
        Ok(())
    }

    /// Where what its program says is kept.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// How often it was started.
    pub fn boot_count(&self) -> u32 {
        self.boot
    }

    /// Whether it has power.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Its first process as we see it, while it has power: the door to its namespaces.
    pub fn first(&self) -> Option<Pid> {
        self.running.as_ref().map(|running| running.first)
    }

    /// All processes in it, as we see them.
    pub fn processes(&self) -> Vec<Pid> {
        self.running.as_ref().map(|running| processes_of(&running.namespace)).unwrap_or_default()
    }

    /// The id of its present boot; empty before the first one.
    pub fn boot_id(&self) -> String {
        std::fs::read_to_string(self.folder.join("boot-id")).unwrap_or_default().trim().to_owned()
    }

    /// What its disk refuses from here on, and how often it did.
    pub fn ailment(&self) -> &Ailment {
        self.disk.ailment()
    }

    /// Some of what waits for a sync gets to its disk by itself, by `is_written` for each sector; how many bytes that were.
    pub fn write_back(&self, is_written: impl FnMut() -> bool) -> usize {
        self.disk.write_back(is_written)
    }

    /// Switches it on: a new boot id, its disk as it was kept, then its program.
    pub async fn switch_on(&mut self) -> Result<()> {
        if self.is_running() {
            bail!("{} has power already", self.plan.name);
        }
        self.boot += 1;
        std::fs::write(self.folder.join("boot-id"), new_boot_id())?;
        self.disk.power_on()?;
        let mut child = self.spawn()?;
        let first = first_child_of(&child).await.with_context(|| format!("{} doesn't start", self.plan.name))?;
        let cable = Cable::plug(self.plan.number, self.boot, first)?;
        let go = child.stdin.take().context("the first process has no standard input")?;
        let namespace = namespace_of(first).context("the first process has no namespace")?;
        let (sender, ended) = watch::channel(None);
        let (ends, number, boot) = (self.ends.clone(), self.plan.number, self.boot);
        tokio::spawn(async move {
            let Ok(status) = child.wait().await else { return };
            // The kernel ends the first process of a namespace that asked for a reboot in just this way (reboot(2)).
            let rebooted = status.signal() == Some(Signal::SIGHUP as i32);
            sender.send_replace(Some(status));
            // Where nobody listens any more, the run is over.
            let _ = ends.send(End { number, boot, rebooted });
        });
        self.running = Some(Running { first, namespace, cable, ended });
        // Its network is there: it may go on. It reads until the end of this.
        drop(go);
        Ok(())
    }

    /// The power goes. Returns what was lost once nothing of the machine is left.
    pub async fn cut_power(&mut self) -> Result<Loss> {
        let running = self.running.take().with_context(|| format!("{} has no power", self.plan.name))?;
        // A machine that has just ended by itself has no cable any more.
        let _ = running.cable.unplug();
        self.disk.silence();
        // It may have ended by itself.
        let _ = kill(running.first, Signal::SIGKILL);
        wait_until_dying(&running.namespace).await?;
        self.lose(running).await
    }

    /// After its first process ended by itself: what was lost with it.
    pub async fn clean_up(&mut self) -> Result<Loss> {
        let running = self.running.take().with_context(|| format!("{} has no power", self.plan.name))?;
        self.lose(running).await
    }

    async fn lose(&mut self, mut running: Running) -> Result<Loss> {
        let loss = self.disk.lose();
        tokio::time::timeout(DONE_WITHIN, running.ended.wait_for(Option::is_some))
            .await
            .with_context(|| format!("{} outlives its power", self.plan.name))??;
        self.disk.unmount()?;
        Ok(loss)
    }

    fn spawn(&self) -> Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(self.log())?;
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "slave", "--uts", "--net", "--pid", "--fork", "--kill-child=KILL"])
            .arg("--mount-proc")
            .arg(&self.plan.launcher)
            .args(["first-process", "--name", &self.plan.name, "--address", &format!("{}/16", self.address())])
            .arg("--folder")
            .arg(&self.folder)
            .arg("--")
            .args(&self.command)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true);
        command.spawn().context("can't start unshare (Debian's package util-linux brings it)")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let Some(running) = &self.running else { return };
        // It may have ended by itself.
        let _ = kill(running.first, Signal::SIGKILL);
        self.disk.lose();
        // Until then its mounts are in use. Whatever outlives this is ended with the run's namespace.
        let begun = std::time::Instant::now();
        while !processes_of(&running.namespace).is_empty() && begun.elapsed() < DONE_WITHIN {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// As the kernel writes it.
fn new_boot_id() -> String {
    let id = format!("{:032x}", rand::random::<u128>());
    format!("{}-{}-4{}-8{}-{}\n", &id[..8], &id[8..12], &id[13..16], &id[17..20], &id[20..])
}

fn namespace_of(process: Pid) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}

/// The first process in the namespace that `unshare` makes, once it is there.
async fn first_child_of(unshare: &Child) -> Result<Pid> {
    let parent = unshare.id().context("unshare ended at once")?;
    until(|| procfs::children_of(parent).first().map(|child| Ok(*child))).await
}

/// Until each process of a namespace has ended or its SIGKILL waits for it: not one of them runs another line of its own.
async fn wait_until_dying(namespace: &Path) -> Result<()> {
    until(|| processes_of(namespace).into_iter().all(procfs::is_dying).then_some(Ok(()))).await
}

fn processes_of(namespace: &Path) -> Vec<Pid> {
    procfs::all_processes().into_iter().filter(|process| namespace_of(*process).as_deref() == Some(namespace)).collect()
}

/// Looks each millisecond: neither of these can be waited for.
async fn until<T>(mut look: impl FnMut() -> Option<Result<T>>) -> Result<T> {
    let deadline = tokio::time::Instant::now() + DONE_WITHIN;
    loop {
        if let Some(found) = look() {
            return found;
        }
        if tokio::time::Instant::now() > deadline {
            bail!("not after {DONE_WITHIN:?}");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_looks_like_the_kernels_and_is_new_each_time() {
        let (one, other) = (new_boot_id(), new_boot_id());
        assert_ne!(one, other);
        let lengths: Vec<usize> = one.trim().split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
    }
}
