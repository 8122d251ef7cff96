//! The sample: configs of the peers and agents, a service group, and a package with three releases.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::folder::{io_failure, write_file};
use crate::client::PeerAddress;
use crate::failure::Failure;

pub const GROUP: &str = "hello.default";
pub const CHANNEL: &str = "stable";
/// What runs when `dev` is ready.
pub const FIRST: &str = "demo/hello/1.0.0/20260101000000";
/// What to try a rollout with.
pub const SECOND: &str = "demo/hello/1.1.0/20260201000000";
/// Never becomes healthy: what to see a rollout halt with.
pub const BROKEN: &str = "demo/hello/1.2.0/20260301000000";

pub const GROUP_FILE: &str = include_str!("hello.toml");

const RUN: &str = include_str!("run.sh");
const HEALTH_CHECK: &str = include_str!("health-check.sh");
const BROKEN_HEALTH_CHECK: &str = "#!/bin/sh\necho 'release 1.2.0 is broken on purpose'\nexit 2\n";
const DRAIN: &str = "#!/bin/sh\n# Lets the requests in flight end.\nsleep 1\n";
const INSTALL: &str = "#!/bin/sh\necho \"installing $ROLLCALL_TO on $ROLLCALL_NODE\"\n";

/// Writes the group file and the depot.
pub fn write(path: &Path) -> Result<(), Failure> {
    let group_file = path.join("hello.toml");
    if !group_file.exists() {
        write_file(&group_file, GROUP_FILE.as_bytes())?;
    }
    for (ident, health_check) in [(FIRST, HEALTH_CHECK), (SECOND, HEALTH_CHECK), (BROKEN, BROKEN_HEALTH_CHECK)] {
        let release = path.join("depot").join(ident);
        // A release never changes: one that is there stays as it is.
        if release.join("rollcall.toml").exists() {
            continue;
        }
        let hooks = release.join("hooks");
        fs::create_dir_all(&hooks).map_err(|error| io_failure(&hooks, error))?;
        for (name, script) in [("run", RUN), ("health-check", health_check), ("drain", DRAIN), ("install", INSTALL)] {
            let hook = hooks.join(name);
            write_file(&hook, script.as_bytes())?;
            fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).map_err(|error| io_failure(&hook, error))?;
        }
        let manifest = format!("ident = \"{ident}\"\n\n[service]\nstop_timeout = \"5s\"\n");
        write_file(&release.join("rollcall.toml"), manifest.as_bytes())?;
    }
    Ok(())
}

/// A peer's config.
pub fn peer_config(data: &Path, grpc: SocketAddr, http: SocketAddr) -> String {
    format!("data_dir = {}\ngrpc = \"{grpc}\"\nhttp = \"{http}\"\n", quoted(data))
}

/// An agent's config. Each has a machine id of its own, for they play machines; and none may reboot this one.
pub fn node_config(name: &str, data: &Path, http: SocketAddr, endpoints: &[PeerAddress], path: &Path) -> String {
    let endpoints: Vec<_> = endpoints.iter().map(|endpoint| format!("\"{endpoint}\"")).collect();
    let depot = path.join("depot");
    format!(
        "name = \"{name}\"\n\
         endpoints = [{}]\n\
         data_dir = {}\n\
         http = \"{http}\"\n\
         machine_id = \"dev-{name}\"\n\
         reboot_command = [\"sh\", \"-c\", \"echo rollcall dev reboots no machine >&2; exit 1\"]\n\
         \n\
         [[service]]\n\
         group = \"{GROUP}\"\n\
         driver = \"supervise\"\n\
         source = {}\n\
         health_check_interval = \"1s\"\n",
        endpoints.join(", "),
        quoted(data),
        quoted(Path::new(&format!("dir:{}", depot.display()))),
    )
}

/// A path as a TOML string.
fn quoted(path: &Path) -> String {
    toml::Value::String(path.display().to_string()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_s_group_file_is_one() {
        let spec = crate::group_file::parse(Path::new("hello.toml"), GROUP_FILE).unwrap();
        assert_eq!(spec.name, GROUP);
        assert_eq!(spec.channel.as_deref(), Some(CHANNEL));
    }

    #[test]
    fn releases_lie_where_their_idents_say() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        for ident in [FIRST, SECOND, BROKEN] {
            assert!(ident.parse::<rollcall_ident::ReleaseIdent>().is_ok());
            assert!(dir.path().join("depot").join(ident).join("hooks/run").exists());
        }
    }

    #[test]
    fn configs_are_toml_whatever_the_path() {
        let address = "127.0.0.1:1".parse().unwrap();
        let odd = Path::new("/tmp/a \"quoted\" \\ path");
        toml::from_str::<toml::Table>(&peer_config(odd, address, address)).unwrap();
        toml::from_str::<toml::Table>(&node_config("node-1", odd, address, &[address.into()], odd)).unwrap();
    }
}
