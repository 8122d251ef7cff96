//! The hooks of the demo's Redis package against real Redis servers, without Rollcall: what an agent does with them is
//! done by hand here. Needs `redis-server` (apt-get install redis-server).

#![allow(clippy::unwrap_used, reason = "a test that can't go on, fails")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rollcall_jepsen::availability::SharedAvailability;
use rollcall_jepsen::check::{Outcome, installs, lost_writes, order, runs, serial, width};
use rollcall_jepsen::clock::Clock;
use rollcall_jepsen::depot::Depot;
use rollcall_jepsen::ports::free_redis_port;
use rollcall_jepsen::procfs;
use rollcall_jepsen::redis::form;
use rollcall_jepsen::redis::ledger::Ledger;
use rollcall_jepsen::redis::load::Load;
use rollcall_jepsen::redis::read_back::read_back;
use rollcall_jepsen::redis::releases::Releases;
use rollcall_jepsen::redis::sampler::{Member, Samplers};
use rollcall_jepsen::redis::topology::Topology;
use rollcall_jepsen::run_dir::RunDir;
use rollcall_jepsen::witness::Witness;

/// Stands in for the agents of six machines.
struct Hands {
    run: RunDir,
    witness: Witness,
    releases: Releases,
    members: Vec<Member>,
    seen: SharedAvailability,
}

impl Hands {
    async fn new(clock: Clock) -> Self {
        let run = RunDir::create("rollcall-hooks-").unwrap();
        let depot = Depot::create(run.path().join("depot")).unwrap();
        let templates = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scripts/demo.d");
        let releases = Releases::lay_out(&depot, &templates, None).unwrap();
        let witness = Witness::start(&run.path().join("witness.jsonl"), clock).await.unwrap();
        let members = (1..=6)
            .map(|number| Member {
                name: format!("redis-{number}"),
                address: ([127, 0, 0, 1], free_redis_port().unwrap()).into(),
            })
            .collect();
        Self { run, witness, releases, members, seen: SharedAvailability::default() }
    }

    fn command(&self, member: &Member, release: &str, from: &str, hook: &str) -> Command {
        let package = self.run.path().join("depot").join(release);
        let data = self.run.folder(&member.name).unwrap();
        let mut command = Command::new(package.join("hooks").join(hook));
        command
            .env("ROLLCALL_PKG_PATH", &package)
            .env("ROLLCALL_DATA_DIR", &data)
            .env("ROLLCALL_STATUS_FILE", data.join("status"))
            .env("ROLLCALL_CONFIG_PORT", member.address.port().to_string())
            .env("ROLLCALL_CONFIG_WITNESS", self.witness.address())
            .env("ROLLCALL_NODE", &member.name)
            .env("ROLLCALL_GROUP", "redis.default")
            .env("ROLLCALL_ROLLOUT", "by-hand")
            .env("ROLLCALL_FROM", from)
            .env("ROLLCALL_TO", release)
            .env("ROLLCALL_ATTEMPT", "1")
            .stdin(Stdio::null());
        command
    }

    async fn hook(&self, member: &Member, release: &str, from: &str, hook: &str) -> (i32, String) {
        let mut command = self.command(member, release, from, hook);
        // The witness answers on this runtime: its threads must not be blocked.
        let output: Output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap(), text)
    }

    async fn must(&self, member: &Member, release: &str, from: &str, hook: &str) {
        let (code, text) = self.hook(member, release, from, hook).await;
        assert_eq!(code, 0, "{hook} of {}: {text}", member.name);
    }

    /// Calls a hook until it ends with 0; any other code than `again` is a failure.
    async fn until_done(&self, member: &Member, release: &str, from: &str, hook: &str, again: &[i32]) -> String {
        let begun = Instant::now();
        loop {
            let (code, text) = self.hook(member, release, from, hook).await;
            if code == 0 {
                return text;
            }
            assert!(again.contains(&code), "{hook} of {} ended with {code}: {text}", member.name);
            assert!(begun.elapsed() < Duration::from_secs(20), "{hook} of {} again and again: {text}", member.name);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Looks at the health until it is critical for the reason that `why` is part of.
    async fn until_critical(&self, member: &Member, release: &str, from: &str, why: &str) {
        let begun = Instant::now();
        loop {
            let (code, text) = self.hook(member, release, from, "health-check").await;
            if code == 2 && text.contains(why) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{} says {code}: {text}", member.name);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn start(&self, member: &Member, release: &str, from: &str) {
        self.must(member, release, from, "install").await;
        self.must(member, release, from, "init").await;
        let mut child =
            self.command(member, release, from, "run").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::spawn(move || child.wait());
        self.until_done(member, release, from, "post-run", &[1]).await;
    }

    /// What an agent does in one step.
    async fn step(&self, member: &Member, release: &str, from: &str) {
        self.until_done(member, release, from, "ready-to-update", &[75]).await;
        self.until_done(member, release, from, "drain", &[75]).await;
        self.must(member, release, from, "pre-stop").await;
        self.stop(member).await;
        self.must(member, release, from, "post-stop").await;
        self.start(member, release, from).await;
    }

    async fn stop(&self, member: &Member) {
        let pid = self.seen.ask(|seen| seen.latest[&member.name].pid).unwrap();
        let raw = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
        nix::sys::signal::kill(raw, nix::sys::signal::Signal::SIGTERM).unwrap();
        while procfs::is_alive(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Which replica a primary has: `redis-cli` pairs servers of one machine as it likes.
    fn replica_of(&self, primary: &Member) -> &Member {
        let asked =
            Command::new("redis-cli").args(["-p", &primary.address.port().to_string(), "INFO", "replication"]).output();
        let answer = String::from_utf8(asked.unwrap().stdout).unwrap();
        let replica =
            answer.lines().find_map(|line| line.strip_prefix("slave0:")).unwrap_or_else(|| panic!("{answer}"));
        let port = replica.split(',').find_map(|field| field.strip_prefix("port=")).unwrap();
        self.members.iter().find(|member| member.address.port().to_string() == port).unwrap()
    }

    fn status(&self, member: &Member) -> String {
        std::fs::read_to_string(self.run.path().join(&member.name).join("status")).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_is_moved_to_release_two_by_its_hooks_and_loses_nothing() {
    let clock = Clock::start();
    let hands = Hands::new(clock).await;
    let Releases { first, second, failing } = hands.releases.clone();

    for member in &hands.members {
        hands.start(member, &first, "").await;
        let (code, text) = hands.hook(member, &first, "", "health-check").await;
        assert_eq!((code, text.trim()), (0, "alone: no cluster has been formed yet"));
    }
    let members: Vec<SocketAddr> = hands.members.iter().map(|member| member.address).collect();
    form::form(&form::arguments(&members)).await.unwrap();
    let _samplers = Samplers::start(&hands.members, &hands.seen, clock);
    form::wait_until_healthy(&hands.seen, 6).await.unwrap();

    let topology = Topology::new(members);
    let ledger = Ledger::default();
    let load = Load::start(&topology, &ledger, clock).await.unwrap();
    let begun_at = clock.now();
    let primary = &hands.members[0];
    let replica = hands.replica_of(primary);
    hands.must(primary, &first, "", "health-check").await;
    assert_eq!(hands.status(primary), "primary = true\n");
    hands.must(replica, &first, "", "health-check").await;
    assert_eq!(hands.status(replica), "primary = false\n");

    for member in [replica, primary] {
        hands.step(member, &second, &first).await;
        hands.until_done(member, &second, &first, "health-check", &[2, 3]).await;
        hands.must(member, &second, &first, "undrain").await;
        form::wait_until_healthy(&hands.seen, 6).await.unwrap();
    }
    assert_eq!(hands.seen.ask(|seen| seen.latest[&replica.name].primary), Some(true), "the drain handed the role over");

    // The bad release: alive, and never healthy.
    let above = &hands.members[1];
    let victim = hands.replica_of(above);
    hands.step(victim, &failing, &first).await;
    hands.until_critical(victim, &failing, &first, "link is down").await;
    assert_eq!(hands.hook(above, &first, "", "health-check").await.0, 1, "its primary warns only");

    load.stop().await;
    let writes = ledger.writes();
    let found = read_back(&topology, &writes).await.unwrap();
    let history = hands.witness.history();
    let names = [primary.name.clone(), replica.name.clone()];
    let turns = order::turns(&history, &second, |node, at| hands.seen.ask(|seen| seen.was_primary(node, at)));
    for verdict in [
        lost_writes::check(&writes, &found, &ledger.missed()),
        width::check(&hands.seen.ask(|seen| seen.outages_since(begun_at)), 100, 1),
        installs::check(&history, &second, &names),
        runs::check(&history, &second, &names),
        serial::check(&history, &second),
        order::check(&turns),
    ] {
        assert_eq!(verdict.outcome, Outcome::Held, "{verdict:?}");
    }
}
