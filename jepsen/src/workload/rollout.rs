//! Rollouts: an operator who starts one after the other, and pauses, resumes, stops, aborts and retries as it comes to
//! mind. The hooks of a small service tell the witness what really happens on the nodes.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rollcall_proto::ShortName;
use rollcall_proto::v1;
use rollcall_proto::v1::RolloutStatus;
use rollcall_proto::v1::group_service_client::GroupServiceClient;
use rollcall_proto::v1::rollout_service_client::RolloutServiceClient;
use rollcall_proto::v1::token_service_client::TokenServiceClient;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::depot::Depot;
use crate::hosts::door::{Door, within};
use crate::ops::Kind;
use crate::ops::book::{Book, Entry};
use crate::ops::outcome;
use crate::sample;

/// What this workload asks; the other verbs come by chance.
pub const DEEDS: [&str; 5] = ["start", "pause", "resume", "abort", "look"];

/// All that its operator does.
pub const VERBS: [&str; 8] = ["start", "pause", "resume", "stop", "abort", "retry", "revoke", "look"];

/// Of a hundred releases so many can't be installed everywhere.
const BROKEN: u32 = 10;

/// BOUND: one try.
const TRY_FOR: Duration = Duration::from_secs(2);

/// BOUND: tries of one request, all with the same id.
const TRIES: usize = 3;

/// BOUND: until all nodes are there.
const MEMBERS_WITHIN: Duration = Duration::from_secs(60);

/// BOUND: once everything is healed, what is under way comes to its end, and one more rollout goes through.
pub const ENDS_WITHIN: Duration = Duration::from_secs(120);

/// Between two looks, in milliseconds.
const LOOKS_MS: std::ops::Range<u64> = 100..700;

/// Arguments and answer of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steered {
    /// Which rollout.
    #[serde(default)]
    pub rollout: String,
    /// Where it goes to.
    #[serde(default)]
    pub target: String,
    /// The revision of the write, or of the state that was read.
    #[serde(default)]
    pub revision: Option<u64>,
    /// How it stands.
    #[serde(default)]
    pub status: String,
    /// Why it is paused.
    #[serde(default)]
    pub causes: Vec<String>,
    /// Whose token is taken away.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// A write's request id; the log carries it too.
    #[serde(default)]
    pub request_id: String,
}

/// The one who rolls.
pub struct Operator {
    doors: Vec<Door>,
    book: Book,
    random: StdRng,
    process: u64,
    depot: Depot,
    releases: usize,
    requests: u64,
}

impl Operator {
    /// For the nodes of a run.
    pub fn new(doors: &[Door], book: &Book, depot: Depot, seed: u64) -> Self {
        Self {
            doors: doors.to_vec(),
            book: book.clone(),
            random: StdRng::seed_from_u64(seed ^ 0x0072_6f6c_6c65),
            process: book.new_process(),
            depot,
            releases: 0,
            requests: 0,
        }
    }

    /// Declares the group, waits for its nodes and brings them to a first release.
    pub async fn prepare(&mut self, nodes: usize) -> Result<()> {
        let deadline = Instant::now() + MEMBERS_WITHIN;
        loop {
            let door = self.any_door();
            let mut groups = GroupServiceClient::new(door.channel.clone());
            let request = v1::ApplyGroupRequest { spec: Some(group()), options: None };
            let answer = groups.apply(within(TRY_FOR, request)).await;
            let members = answer.ok().and_then(|answer| answer.into_inner().group).unwrap_or_default().members;
            if members.iter().filter(|member| member.presence == "present").count() == nodes {
                break;
            }
            if Instant::now() > deadline {
                bail!("after {MEMBERS_WITHIN:?} {} of {nodes} nodes have joined", members.len());
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        self.roll("succeeded", false).await
    }

    /// Works until it is told to stop.
    pub async fn work(mut self, stop: watch::Receiver<bool>) -> Self {
        while !*stop.borrow() {
            if let Some(seen) = self.look().await {
                self.act(&seen).await;
            }
            let rest = Duration::from_millis(self.random.random_range(LOOKS_MS));
            tokio::time::sleep(rest).await;
        }
        self
    }

    /// The end of a run: what is under way is brought to its end, a release that can't be installed everywhere is taken
    /// back, and one more rollout goes through.
    pub async fn finish(&mut self) -> Result<()> {
        self.bring_to_an_end().await?;
        self.roll("rolled_back", true).await?;
        self.roll("succeeded", false).await
    }

    async fn act(&mut self, seen: &Steered) {
        let under_way = matches!(seen.status.as_str(), "running" | "paused" | "rolling_back" | "awaiting_promotion");
        if !under_way {
            let is_broken = self.random.random_ratio(BROKEN, 100);
            self.start(is_broken).await;
            return;
        }
        let verb = match (seen.status.as_str(), self.random.random_range(0..100)) {
            ("paused", 0..55) => "resume",
            ("paused", 55..75) => "retry",
            ("paused", 75..80) => "abort",
            ("running", 0..30) => "pause",
            ("running" | "rolling_back", 94..97) => return self.revoke().await,
            (_, 97..99) => "stop",
            (_, 99) => "abort",
            _ => return,
        };
        self.steer(verb, &seen.rollout).await;
    }

    /// How the group's rollout stands, with everything that was acknowledged.
    async fn look(&mut self) -> Option<Steered> {
        let door = self.any_door();
        self.note(Kind::Invoke, "look", &Steered::default(), &door, None);
        let request =
            v1::GetRolloutRequest { rollout_id: String::new(), group: sample::GROUP.to_owned(), options: None };
        let call = within_try(RolloutServiceClient::new(door.channel.clone()).get(within(TRY_FOR, request))).await;
        match call {
            Ok(answer) => {
                let rollout = answer.rollout.unwrap_or_default();
                let seen = steered(&rollout, Some(answer.revision));
                self.note(Kind::Ok, "look", &seen, &door, None);
                Some(seen)
            }
            Err(status) => {
                self.note(Kind::Fail, "look", &Steered::default(), &door, Some(outcome::name(&status)));
                // Before the first one.
                (status.code() == Code::NotFound).then(Steered::default)
            }
        }
    }

    async fn start(&mut self, is_broken: bool) -> Option<String> {
        self.releases += 1;
        let add = if is_broken { sample::add_broken_release } else { sample::add_release };
        let target = add(&self.depot, self.releases).ok()?;
        let asked = Steered { target, request_id: self.request_id(), ..Steered::default() };
        self.write("start", asked).await.map(|rollout| rollout.rollout_id)
    }

    async fn steer(&mut self, verb: &str, rollout_id: &str) -> Option<v1::Rollout> {
        let asked = Steered { rollout: rollout_id.to_owned(), request_id: self.request_id(), ..Steered::default() };
        self.write(verb, asked).await
    }

    /// Takes the token from whoever has it.
    async fn revoke(&mut self) {
        let door = self.any_door();
        let request = within(TRY_FOR, v1::ListTokensRequest { options: None });
        let Ok(answer) = within_try(TokenServiceClient::new(door.channel.clone()).list(request)).await else { return };
        let Some(token) = answer.tokens.into_iter().next() else { return };
        let asked = Steered {
            rollout: token.rollout_id,
            node: token.node_name,
            request_id: self.request_id(),
            ..Steered::default()
        };
        self.write("revoke", asked).await;
    }

    /// Sends it, again with the same request id where nobody knows what came of it.
    async fn write(&mut self, f: &str, asked: Steered) -> Option<v1::Rollout> {
        let mut door = self.any_door();
        self.note(Kind::Invoke, f, &asked, &door, None);
        let mut doubt = None;
        for _ in 0..TRIES {
            match send(&door, f, &asked).await {
                Ok((revision, rollout)) => {
                    let mut done = steered(&rollout, Some(revision));
                    done.request_id = asked.request_id;
                    self.note(Kind::Ok, f, &done, &door, None);
                    return Some(rollout);
                }
                Err(status) => {
                    let is_decided = outcome::is_the_logs_word(&status);
                    match outcome::of_write(&status) {
                        Kind::Fail if doubt.is_none() || is_decided => {
                            self.note(Kind::Fail, f, &asked, &door, Some(outcome::name(&status)));
                            return None;
                        }
                        Kind::Fail => {}
                        _ => doubt = Some(outcome::name(&status)),
                    }
                }
            }
            door = self.any_door();
        }
        self.note(Kind::Info, f, &asked, &door, doubt);
        self.process = self.book.new_process();
        None
    }

    /// Rolls until a rollout ends as it should.
    async fn roll(&mut self, end: &str, is_broken: bool) -> Result<()> {
        let deadline = Instant::now() + ENDS_WITHIN;
        loop {
            let started = self.start(is_broken).await;
            self.bring_to_an_end().await?;
            let seen = self.look().await;
            match (started, seen) {
                (Some(id), Some(seen)) if seen.rollout == id && seen.status == end => return Ok(()),
                _ if Instant::now() > deadline => bail!("no rollout has {end} within {ENDS_WITHIN:?}"),
                _ => tokio::time::sleep(Duration::from_millis(500)).await,
            }
        }
    }

    /// Resumes and retries until the rollout is at its end; what can't be installed is taken back.
    async fn bring_to_an_end(&mut self) -> Result<()> {
        let deadline = Instant::now() + ENDS_WITHIN;
        let mut latest = Steered::default();
        while Instant::now() < deadline {
            if let Some(seen) = self.look().await {
                match seen.status.as_str() {
                    "paused" => {
                        let has_failed = seen.causes.iter().any(|cause| cause.contains("failed"));
                        let goes_back = has_failed
                            && sample::is_broken(&seen.target)
                            && self.steer("abort", &seen.rollout).await.is_some();
                        if !goes_back {
                            self.steer(if has_failed { "retry" } else { "resume" }, &seen.rollout).await;
                            self.steer("resume", &seen.rollout).await;
                        }
                    }
                    "running" | "rolling_back" | "awaiting_promotion" => {}
                    _ => return Ok(()),
                }
                latest = seen;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        bail!("rollout {} is {} {:?} after {ENDS_WITHIN:?}", latest.rollout, latest.status, latest.causes)
    }

    fn request_id(&mut self) -> String {
        self.requests += 1;
        format!("roll-{}", self.requests)
    }

    fn note(&self, kind: Kind, f: &str, steered: &Steered, door: &Door, error: Option<String>) {
        let value = serde_json::to_value(steered).unwrap_or_default();
        let (process, peer) = (Some(self.process), Some(door.name.clone()));
        self.book.add(Entry { process, kind, f: f.to_owned(), value, peer, error });
    }

    fn any_door(&mut self) -> Door {
        self.doors.choose(&mut self.random).cloned().expect("a run has peers")
    }
}

/// One try of a request; the revision of its entry, and the rollout.
async fn send(door: &Door, f: &str, asked: &Steered) -> Result<(u64, v1::Rollout), Status> {
    let options = Some(options(&asked.request_id));
    let mut client = RolloutServiceClient::new(door.channel.clone());
    if f == "start" {
        let (group, target) = (sample::GROUP.to_owned(), asked.target.clone());
        let request = v1::StartRolloutRequest { group, target, digest: String::new(), options };
        let answer = within_try(client.start(within(TRY_FOR, request))).await?;
        return Ok((answer.revision, answer.rollout.unwrap_or_default()));
    }
    if f == "revoke" {
        let request = v1::RevokeTokenRequest { node: asked.node.clone(), force: true, options };
        let answer = within_try(TokenServiceClient::new(door.channel.clone()).revoke(within(TRY_FOR, request))).await?;
        return Ok((answer.revision, v1::Rollout { rollout_id: answer.rollout_id, ..Default::default() }));
    }
    let request = v1::RolloutVerbRequest { rollout_id: asked.rollout.clone(), options, ..Default::default() };
    let request = within(TRY_FOR, request);
    let answer = match f {
        "pause" => within_try(client.pause(request)).await?,
        "resume" => within_try(client.resume(request)).await?,
        "stop" => within_try(client.stop(request)).await?,
        "retry" => within_try(client.retry(request)).await?,
        _ => within_try(client.abort(request)).await?,
    };
    Ok((answer.revision, answer.rollout.unwrap_or_default()))
}

/// What a node shows of its service: the release of the process that says it is up, and lives.
pub fn runs(host: &crate::hosts::host::Host) -> Result<String> {
    let first = host.machine.first().context("it has no power")?;
    let text = std::fs::read_to_string(host.machine.disk().join("state/up")).context("its service isn't up")?;
    let (pid, release) = text.trim().split_once(' ').context("its service says nothing of itself")?;
    // As the machine itself numbers its processes.
    let lives = std::path::Path::new(&format!("/proc/{first}/root")).join(format!("proc/{pid}/stat")).exists();
    anyhow::ensure!(lives, "the process of its service is gone");
    Ok(release.to_owned())
}

fn steered(rollout: &v1::Rollout, revision: Option<u64>) -> Steered {
    let status = rollout.status();
    Steered {
        rollout: rollout.rollout_id.clone(),
        target: rollout.target.clone(),
        revision,
        status: if status == RolloutStatus::Unspecified { String::new() } else { status.short_name() },
        causes: rollout.pause_causes.clone(),
        node: String::new(),
        request_id: String::new(),
    }
}

fn options(request_id: &str) -> v1::WriteOptions {
    let (reason, request_id) = (request_id.to_owned(), request_id.to_owned());
    v1::WriteOptions { reason, request_id, expected_revision: 0, actor: "operator".to_owned() }
}

async fn within_try<T>(call: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(TRY_FOR, call).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => Err(Status::deadline_exceeded("no answer in time")),
    }
}

fn group() -> v1::GroupSpec {
    let policy = v1::Policy {
        min_healthy_time_ms: Some(300),
        healthy_deadline_ms: Some(60_000),
        progress_deadline_ms: Some(180_000),
        // A hook that hangs.
        ready_timeout_ms: Some(15_000),
        drain_timeout_ms: Some(15_000),
        max_reboots: Some(50),
        ..Default::default()
    };
    v1::GroupSpec {
        name: sample::GROUP.to_owned(),
        package: Some(sample::PACKAGE.to_owned()),
        policy: Some(policy),
        ..Default::default()
    }
}
