//! Namespaces for the run as a whole: an aborted run leaves no process, no mount and no network behind.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};

/// Set for the process inside.
const INSIDE: &str = "ROLLCALL_APART";

/// Returns in namespaces of this run's own, in which this program was started again with the same arguments; everything
/// that it starts ends with it. Needs root.
pub fn live_apart() -> Result<()> {
    if std::env::var_os(INSIDE).is_some() {
        // Mounts made here reach the machines, and those undone here are gone there; none reaches what is outside.
        return Ok(mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SHARED, None::<&str>)?);
    }
    if !nix::unistd::geteuid().is_root() {
        bail!("only root may cut a machine's power here: start it with sudo");
    }
    let own = std::env::current_exe().context("can't tell where this program is")?;
    let error = Command::new("unshare")
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    Err(error).context("can't start unshare (Debian's package util-linux brings it)")
}
