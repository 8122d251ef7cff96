//! Peers in one process: real storage, real tonic on loopback, each on a runtime of its own that can be killed.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]
// Each test program uses a part of it.
#![allow(dead_code)]

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rollcall_coordinator::raft::{
    Consensus, Leadership, MemberStatus, Observers, Origin, Peer, PeerConfig, ProposeError, Tuning,
};
use rollcall_ident::{ChannelName, PeerId, RequestId};
use rollcall_rollout::{Actor, Applied, Command, Proposal};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tonic::transport::Server;

/// Nothing here takes longer, on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Short elections; small snapshots where a test asks for them.
pub fn quick() -> Tuning {
    Tuning { election_min_ms: 500, election_max_ms: 1_000, heartbeat_ms: 100, ..Tuning::default() }
}

pub fn small_snapshots() -> Tuning {
    Tuning { snapshot_every: 20, keep_entries: 5, purge_batch: 1, ..quick() }
}

/// One peer on a runtime of its own.
pub struct TestPeer {
    runtime: Option<Runtime>,
    pub peer: Peer,
    pub address: String,
    pub dir: PathBuf,
    tuning: Tuning,
}

impl TestPeer {
    /// Starts what is in `dir`, on `address` if it had one.
    pub async fn start(dir: &Path, address: Option<&str>, tuning: Tuning) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (dir, bind) = (dir.to_owned(), address.unwrap_or("127.0.0.1:0").to_owned());
        let data_dir = dir.clone();
        let started = runtime.spawn(async move {
            let listener = bind_soon(&bind).await;
            let address = listener.local_addr().unwrap().to_string();
            let config = PeerConfig { data_dir, address: address.clone(), tuning, observers: Observers::default() };
            let peer = Peer::start(config).await.unwrap();
            let service = peer.peer_service();
            let incoming = tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
            tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
            (peer, address)
        });
        let (peer, address) = started.await.unwrap();
        Self { runtime: Some(runtime), peer, address, dir, tuning }
    }

    /// Stops everything of it at once, as SIGKILL would.
    pub async fn kill(mut self) -> Stopped {
        let runtime = self.runtime.take().unwrap();
        let stopped = Stopped { address: self.address.clone(), dir: self.dir.clone(), tuning: self.tuning };
        drop(self);
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(PATIENCE)).await.unwrap();
        stopped
    }

    /// Stops in order.
    pub async fn stop(self) -> Stopped {
        let peer = self.peer.clone();
        self.spawn(async move { peer.shutdown().await }).await;
        self.kill().await
    }

    pub fn consensus(&self) -> Consensus {
        self.peer.consensus().expect("the peer runs")
    }

    pub fn id(&self) -> PeerId {
        self.consensus().peer_id()
    }

    /// Runs on the peer's own runtime.
    pub async fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.begin(work).await.unwrap()
    }

    /// As [`spawn`](Self::spawn), without waiting for it.
    pub fn begin<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.runtime.as_ref().unwrap().spawn(work)
    }

    pub async fn propose(&self, proposal: Proposal) -> Result<Applied, ProposeError> {
        let consensus = self.consensus();
        self.spawn(async move { consensus.propose_until(proposal, Instant::now() + PATIENCE).await }).await
    }

    /// Tries once.
    pub async fn propose_once(&self, proposal: Proposal) -> Result<Applied, ProposeError> {
        let consensus = self.consensus();
        self.spawn(async move { consensus.propose(proposal).await }).await
    }

    pub async fn read(&self) -> rollcall_coordinator::raft::View {
        let consensus = self.consensus();
        self.spawn(async move { consensus.read(Instant::now() + PATIENCE).await }).await.unwrap()
    }

    pub async fn members(&self) -> Vec<MemberStatus> {
        let consensus = self.consensus();
        self.spawn(async move { consensus.members().await }).await
    }

    pub fn leadership(&self) -> Option<Leadership> {
        *self.consensus().leadership().borrow()
    }
}

impl Drop for TestPeer {
    fn drop(&mut self) {
        // A runtime can't wait for its end inside another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A peer that doesn't run; its disk is there.
pub struct Stopped {
    pub address: String,
    pub dir: PathBuf,
    tuning: Tuning,
}

impl Stopped {
    pub async fn restart(self) -> TestPeer {
        TestPeer::start(&self.dir, Some(&self.address), self.tuning).await
    }

    /// Starts another disk at this peer's address.
    pub async fn restart_with(self, dir: &Path) -> TestPeer {
        TestPeer::start(dir, Some(&self.address), self.tuning).await
    }
}

/// Some peers with their disks.
pub struct Cluster {
    pub peers: Vec<TestPeer>,
    pub disks: tempfile::TempDir,
    tuning: Tuning,
}

impl Cluster {
    /// A cluster of `count` peers.
    pub async fn new(count: usize, tuning: Tuning) -> Self {
        let mut cluster = Self::blank(count, tuning).await;
        let others: Vec<_> = cluster.peers[1..].iter().map(|peer| peer.address.clone()).collect();
        let first = cluster.peers[0].peer.clone();
        cluster.peers[0].spawn(async move { first.init_cluster(&others, origin()).await }).await.unwrap();
        cluster.await_leader().await;
        cluster
    }

    /// `count` peers without a cluster.
    pub async fn blank(count: usize, tuning: Tuning) -> Self {
        let mut cluster = Self { peers: Vec::new(), disks: tempfile::tempdir().unwrap(), tuning };
        for _ in 0..count {
            cluster.start_blank().await;
        }
        cluster
    }

    /// One more peer, blank.
    pub async fn start_blank(&mut self) -> String {
        let dir = self.new_disk();
        let peer = TestPeer::start(&dir, None, self.tuning).await;
        let address = peer.address.clone();
        self.peers.push(peer);
        address
    }

    pub fn new_disk(&self) -> PathBuf {
        let used = std::fs::read_dir(self.disks.path()).unwrap().count();
        let dir = self.disks.path().join(format!("disk-{used}"));
        std::fs::create_dir(&dir).unwrap();
        dir
    }

    /// Waits until all running peers agree on a leader among them; its place in `peers`.
    pub async fn await_leader(&mut self) -> usize {
        let leader = eventually("all peers see the same leader", || {
            let seen: Vec<_> =
                self.peers.iter().map(|peer| peer.leadership().map(|now| (now.peer, now.term))).collect();
            let (leader, term) = seen[0]?;
            let place = self.peers.iter().position(|peer| peer.id() == leader)?;
            let ready = self.peers[place].leadership().is_some_and(|now| now.is_me);
            (ready && seen.iter().all(|other| *other == Some((leader, term)))).then_some(place)
        });
        leader.await
    }

    pub async fn add(&self, via: usize, address: &str) -> Result<PeerId, rollcall_coordinator::raft::MembershipError> {
        let (consensus, address) = (self.peers[via].consensus(), address.to_owned());
        self.peers[via].spawn(async move { consensus.add_peer(&address, origin()).await }).await
    }

    pub async fn remove(&self, via: usize, peer: PeerId) -> Result<(), rollcall_coordinator::raft::MembershipError> {
        let consensus = self.peers[via].consensus();
        self.peers[via].spawn(async move { consensus.remove_peer(peer, origin()).await }).await
    }
}

pub fn origin() -> Origin {
    Origin { actor: Actor(String::from("test")), reason: Some(String::from("a test")) }
}

/// A write whose effect can be seen: a new channel.
pub fn write(name: &str) -> Proposal {
    let channel: ChannelName = name.parse().unwrap();
    Proposal { actor: origin().actor, reason: None, ..Proposal::internal(Command::CreateChannel { channel }) }
}

pub fn write_with_id(name: &str, id: &str) -> Proposal {
    Proposal { request_id: Some(id.parse::<RequestId>().unwrap()), ..write(name) }
}

pub fn has_channel(view: &rollcall_coordinator::raft::View, name: &str) -> bool {
    view.state.channels().contains_key(&name.parse::<ChannelName>().unwrap())
}

/// Looks until there is something to see.
pub async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// As [`eventually`], asking instead of looking.
pub async fn eventually_async<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = ask().await {
            return seen;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// The port of a peer that was killed is free at once, but not always at the first try.
async fn bind_soon(address: &str) -> TcpListener {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) if Instant::now() > deadline => panic!("can't bind {address}: {error}"),
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Shows what the peers log if RUST_LOG says so.
pub fn logs() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
}
