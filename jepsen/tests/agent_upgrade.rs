//! The agents are upgraded as a package that they roll themselves, one after the other, there and back; what they look after
//! goes on.

#![allow(clippy::unwrap_used, reason = "a test that can't go on, fails")]

mod peer_care;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use peer_care::{Peers, done, eventually};
use rollcall_jepsen::agent::{Agent, AgentConfig, ServiceConfig};

const NODES: [&str; 2] = ["node-1", "node-2"];

/// The depot, the machines, and whoever starts an agent again that has ended.
struct Site {
    peers: Peers,
    depot: PathBuf,
    agents: Vec<Agent>,
    restarts: usize,
}

impl Site {
    fn set(depot: PathBuf, former: &str) -> Self {
        let peers = Peers::of(3);
        peers.await_leader();
        let endpoints: Vec<_> = peers.machines.iter().map(|machine| machine.grpc.clone()).collect();
        let agents = NODES.map(|name| {
            let folder = peers.path().join(name);
            let program = folder.join("rollcall-node");
            fs::create_dir_all(&folder).unwrap();
            fs::copy(binary_of(&depot, former), &program).unwrap();
            let path = BTreeMap::from([("path".to_owned(), program.to_str().unwrap().into())]);
            let service = |group: &str, config| ServiceConfig {
                group: group.to_owned(),
                source: format!("dir:{}", depot.display()),
                health_check_interval: "1s".to_owned(),
                config,
            };
            let config = AgentConfig {
                name: name.to_owned(),
                endpoints: endpoints.clone(),
                service: vec![service("agent.default", path), service("web.default", BTreeMap::new())],
                ..AgentConfig::default()
            };
            let mut agent = Agent::create(folder, program, config).unwrap();
            agent.start().unwrap();
            agent
        });
        Self { peers, depot, agents: agents.into(), restarts: 0 }
    }

    fn declare(&self, group: &str, package: &str) {
        let file = self.peers.path().join(format!("{group}.toml"));
        let text =
            format!("[group]\nname = \"{group}\"\npackage = \"{package}\"\n[policy]\nmin_healthy_time = \"500ms\"\n");
        fs::write(&file, text).unwrap();
        done(&self.peers.rollcall(&["group", "apply", "-f", file.to_str().unwrap()]));
    }

    /// Rolls `group` to `ident`, and sees it succeed.
    fn roll(&mut self, group: &str, ident: &str) {
        done(&self.peers.rollcall(&["rollout", "start", group, "--to", ident]));
        let (peers, agents, restarts) = (&self.peers, &mut self.agents, &mut self.restarts);
        eventually("the rollout ends", || {
            *restarts +=
                agents.iter_mut().filter_map(|agent| agent.start_again_if_ended().unwrap().then_some(())).count();
            let status = peers.ask(&["rollout", "status", group]);
            let is_over = status["status"] == "succeeded";
            assert!(is_over || status["status"] == "running", "{status}");
            is_over.then_some(())
        });
    }

    /// Which process of the web service each node has.
    fn web(&self) -> Vec<u64> {
        let pid = |name: &&str| fs::read_to_string(self.peers.path().join(name).join("data/svc/web.default/data/pid"));
        NODES.iter().map(|name| pid(name).unwrap().trim().parse().unwrap()).collect()
    }

    /// Which program each agent runs.
    fn running(&self) -> Vec<Vec<u8>> {
        let exe = |agent: &Agent| fs::read(format!("/proc/{}/exe", agent.id().unwrap())).unwrap();
        self.agents.iter().map(exe).collect()
    }
}

fn binary_of(depot: &Path, ident: &str) -> PathBuf {
    depot.join(ident).join("bin/rollcall-node")
}

/// A release of the agent, made as the README says.
fn package(binary: &Path, depot: &Path, version: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/agent-package");
    let output = Command::new(script).arg(binary).arg(depot).arg(version).output().unwrap();
    done(&output).trim().to_owned()
}

/// A service that notes its process, and does nothing.
fn web_release(depot: &Path) -> String {
    let ident = "acme/web/1/20260101000000";
    let hooks = depot.join(ident).join("hooks");
    fs::create_dir_all(&hooks).unwrap();
    fs::write(depot.join(ident).join("rollcall.toml"), format!("ident = \"{ident}\"\n")).unwrap();
    let run = hooks.join("run");
    fs::write(&run, "#!/bin/sh\necho $$ > \"$ROLLCALL_DATA_DIR/pid\"\nexec sleep infinity\n").unwrap();
    done(&Command::new("chmod").arg("+x").arg(&run).output().unwrap());
    fs::write(hooks.join("health-check"), "#!/bin/sh\n").unwrap();
    done(&Command::new("chmod").arg("+x").arg(hooks.join("health-check")).output().unwrap());
    ident.to_owned()
}

#[test]
fn agents_are_rolled_like_any_package_and_their_services_go_on() {
    let folder = tempfile::tempdir().unwrap();
    // Two releases of one build: what stands behind the end of a program changes nothing of what it does.
    let built = rollcall_jepsen::binaries::Binaries::find().unwrap().node;
    let other = folder.path().join("rollcall-node");
    let mut bytes = fs::read(&built).unwrap();
    bytes.push(0);
    fs::copy(&built, &other).unwrap();
    fs::write(&other, &bytes).unwrap();
    let depot = folder.path().join("depot");
    let (former, next) = (package(&built, &depot, "0.1.0"), package(&other, &depot, "0.2.0"));
    let web = web_release(&depot);

    let mut site = Site::set(depot, &former);
    site.declare("web.default", "acme/web");
    site.declare("agent.default", "rollcall/agent");
    site.roll("web.default", &web);
    let services = site.web();
    site.roll("agent.default", &former);
    assert_eq!(site.restarts, 0, "they run that release already");
    for (ident, restarts) in [(&next, 2), (&former, 4)] {
        site.roll("agent.default", ident);
        let wanted = fs::read(binary_of(&site.depot, ident)).unwrap();
        assert!(site.running().iter().all(|running| *running == wanted), "an agent runs another release");
        assert_eq!(site.restarts, restarts);
    }
    assert_eq!(site.web(), services, "a service was restarted");
}
