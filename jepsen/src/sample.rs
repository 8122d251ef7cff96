//! A sample service without any dependency, for tests that are about Rollcall and not about a service.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinHandle;

use crate::agent::{AgentConfig, ServiceConfig};
use crate::availability::{Look, SharedAvailability};
use crate::clock::Clock;
use crate::depot::Depot;
use crate::procfs;
use crate::witness::Witness;

/// The group it belongs to.
pub const GROUP: &str = "sample.default";

/// Its package.
pub const PACKAGE: &str = "acme/sample";

/// How often each member is looked at.
const EVERY: Duration = Duration::from_millis(10);

/// The folder with all templates of this repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The version of releases that can't be installed on each node.
const BROKEN: &str = "1.0-broken";

/// A service that is stopped within seconds, and hooks that are ended where they hang.
const MANIFEST: &str = r#"
[service]
stop_timeout = "3s"

[hooks.pre-stop]
timeout = "8s"

[hooks.post-stop]
timeout = "8s"

[hooks.install]
timeout = "8s"

[hooks.undrain]
timeout = "8s"
"#;

/// Adds its n-th release to a depot; the ident.
pub fn add_release(depot: &Depot, number: usize) -> Result<String> {
    add(depot, "1.0", number, &[])
}

/// The same, of which the second node's install fails.
pub fn add_broken_release(depot: &Depot, number: usize) -> Result<String> {
    add(depot, BROKEN, number, &["broken"])
}

/// Whether a release can't be installed everywhere.
pub fn is_broken(ident: &str) -> bool {
    ident.split('/').any(|part| part == BROKEN)
}

fn add(depot: &Depot, version: &str, number: usize, more: &[&str]) -> Result<String> {
    let ident = format!("{PACKAGE}/{version}/202601010{number:05}");
    let packages = repository().join("jepsen/packages");
    let mut layers = vec![repository().join("scripts/demo.d/witness"), packages.join("sample")];
    layers.extend(more.iter().map(|layer| packages.join(layer)));
    let layers: Vec<&Path> = layers.iter().map(PathBuf::as_path).collect();
    depot.add(&ident, &layers, MANIFEST)?;
    Ok(ident)
}

/// The config of a node that runs it; what can be seen from outside lies in `state`.
pub fn agent_config(name: &str, endpoints: &[String], depot: &Depot, witness: &Witness, state: &Path) -> AgentConfig {
    let config = BTreeMap::from([
        ("state".to_owned(), toml::Value::String(state.display().to_string())),
        ("witness".to_owned(), toml::Value::String(witness.address().to_owned())),
    ]);
    let service = ServiceConfig {
        group: GROUP.to_owned(),
        source: depot.source(),
        health_check_interval: "500ms".to_owned(),
        config,
    };
    AgentConfig {
        hosts_peer: None,
        name: name.to_owned(),
        endpoints: endpoints.to_vec(),
        data_dir: PathBuf::new(),
        reboot_command: Vec::new(),
        service: vec![service],
    }
}

/// Running samplers. Dropping it stops them.
#[derive(Debug)]
pub struct Samplers {
    tasks: Vec<JoinHandle<()>>,
}

impl Samplers {
    /// Starts to look at all members: name and state folder.
    pub fn start(members: &[(String, PathBuf)], seen: &SharedAvailability, clock: Clock) -> Self {
        let watch = |(name, state): &(String, PathBuf)| {
            let (name, state, seen) = (name.clone(), state.clone(), seen.clone());
            tokio::spawn(async move {
                let mut ticks = tokio::time::interval(EVERY);
                loop {
                    ticks.tick().await;
                    seen.add(clock.now(), &name, look_at(&state));
                }
            })
        };
        Self { tasks: members.iter().map(watch).collect() }
    }
}

impl Drop for Samplers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Healthy is a member whose process says that it is up, and is.
fn look_at(state: &Path) -> Look {
    let text = std::fs::read_to_string(state.join("up")).unwrap_or_default();
    let mut words = text.split_whitespace();
    let pid = words.next().and_then(|word| word.parse().ok());
    let release = words.next().and_then(|ident| ident.rsplit('/').next()).map(str::to_owned);
    let alive = pid.is_some_and(procfs::is_alive);
    Look { ailment: (!alive).then(|| "not up".to_owned()), primary: None, release, pid }
}
