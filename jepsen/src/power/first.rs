//! The first process of a machine, and the one that reboots it.
//!
//! A program that makes machines has to offer both as subcommands ([`FirstProcess`], `reboot`): it is its own launcher.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot as ask_to_reboot};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{sethostname, setsid};

use crate::power::network::bring_up_machine_end;

/// What the first process has to know.
#[derive(Debug, Args)]
pub struct FirstProcess {
    /// The machine's name
    #[arg(long)]
    name: String,
    /// Its address with the length of the network's prefix
    #[arg(long)]
    address: String,
    /// Where `boot-id` and `machine-id` lie
    #[arg(long)]
    folder: PathBuf,
    /// The program that starts with the machine, and its arguments
    #[arg(required = true, last = true)]
    command: Vec<String>,
}

/// Boots the machine: name, ids, network, then its program. Takes care of orphans until the program ends, which is an
/// error: a machine ends by losing its power, or by a reboot.
pub fn first_process(machine: &FirstProcess) -> Result<()> {
    // The cable is plugged in from outside; the end of this says that it was.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    sethostname(&machine.name)?;
    put_over(&machine.folder.join("boot-id"), Path::new("/proc/sys/kernel/random/boot_id"))?;
    let machine_id = Path::new("/etc/machine-id");
    if machine_id.exists() {
        put_over(&machine.folder.join("machine-id"), machine_id)?;
    }
    bring_up_machine_end(&machine.address)?;
    let (program, arguments) = machine.command.split_first().context("no program")?;
    // A session of the machine's own, and as services have it a group for the program: those we come from are outside.
    setsid()?;
    let child = Command::new(program)
        .args(arguments)
        .process_group(0)
        .spawn()
        .with_context(|| format!("can't start {program}"))?;
    loop {
        match wait()? {
            WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)
                if u32::try_from(pid.as_raw()).is_ok_and(|pid| pid == child.id()) =>
            {
                bail!("{program} ended by itself")
            }
            _orphan => {}
        }
    }
}

/// Reboots the machine at once, without a sync, from any process in it.
pub fn reboot() -> Result<()> {
    match ask_to_reboot(RebootMode::RB_AUTOBOOT)? {}
}

fn put_over(file: &Path, place: &Path) -> Result<()> {
    mount(Some(file), place, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("can't put {} over {}", file.display(), place.display()))
}
