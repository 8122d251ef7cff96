//! The machines of the peers: what stands in for clocks, chance, connections and disks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rollcall_coordinator::world::{Connection, World};
use rollcall_ident::WallTime;
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, sleep};
use turmoil::net::TcpStream;

use crate::disk::Disk;
use crate::judge::{Judge, Violation};

/// What the wall clocks show at the beginning: 2026-06-01.
const EPOCH_MS: u64 = 1_780_272_000_000;

/// The machine of one peer.
pub struct PeerMachine {
    /// Its name on the network.
    pub name: String,
    /// Where its data lies.
    pub data_dir: PathBuf,
    /// Its disk.
    pub disk: Disk,
    /// How much its wall clock is off.
    pub wall_offset_ms: i64,
    /// How much faster than time its monotonic clock runs, in millionths.
    pub drift_ppm: i64,
    /// The runtime of the process that runs on it, and since when.
    running: Option<(Id, Instant)>,
}

impl PeerMachine {
    /// A new one.
    #[must_use]
    pub fn new(name: &str, data_dir: PathBuf, sync_ms: u64, drift_ppm: i64) -> Self {
        let disk = Disk::new(&data_dir, sync_ms);
        Self { name: name.to_owned(), data_dir, disk, wall_offset_ms: 0, drift_ppm, running: None }
    }
}

/// All of them.
pub struct Machines {
    inner: Mutex<Inner>,
    judge: Judge,
}

struct Inner {
    peers: Vec<PeerMachine>,
    rng: StdRng,
    /// In this second of time, so many connections were opened.
    dials: (u64, u32),
    /// Whom the leader's planner is to choose, though it shouldn't.
    err: Option<String>,
}

/// BOUND: connections that all peers together open in a second: each of 5 has two to each other one, and leaves one that can't
/// be reached alone for 50 ms at least.
const DIALS_A_SECOND: u32 = 5 * 4 * 2 * 20;

impl Machines {
    /// These.
    #[must_use]
    pub fn new(peers: Vec<PeerMachine>, seed: u64, judge: Judge) -> Arc<Self> {
        let inner = Inner { peers, rng: StdRng::seed_from_u64(seed), dials: (0, 0), err: None };
        Arc::new(Self { inner: Mutex::new(inner), judge })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process of this peer begins, on the runtime that calls.
    pub fn boot(&self, peer: usize) {
        self.lock().peers[peer].running = Some((Handle::current().id(), Instant::now()));
    }

    /// Does something to the machine of a peer.
    pub fn with<T>(&self, peer: usize, change: impl FnOnce(&mut PeerMachine, &mut StdRng) -> T) -> T {
        let Inner { peers, rng, .. } = &mut *self.lock();
        change(&mut peers[peer], rng)
    }

    /// The planner of the peer that leads chooses this node next, whatever it should do.
    pub fn err_in_planning(&self, node: String) {
        self.lock().err = Some(node);
    }

    /// Whom the planner is to choose by mistake.
    pub fn take_err(&self) -> Option<String> {
        self.lock().err.take()
    }

    /// Whoever can't be reached is left alone for a while. Says whether there may be another connection.
    fn may_dial(&self) -> bool {
        let second = self.judge.now_ms() / 1_000;
        let dials = {
            let mut inner = self.lock();
            let (known, dials) = inner.dials;
            inner.dials = (second, if known == second { dials + 1 } else { 1 });
            inner.dials.1
        };
        if dials > DIALS_A_SECOND {
            self.judge.accuse(Violation::new("A2", format_args!("{dials} connections were opened within a second")));
        }
        dials <= DIALS_A_SECOND
    }

    /// Does something to the machine on which the caller runs; none: the caller is no peer.
    fn here<T>(&self, ask: impl FnOnce(&PeerMachine) -> T) -> Option<T> {
        let id = Handle::try_current().ok()?.id();
        let inner = self.lock();
        inner.peers.iter().find(|peer| peer.running.is_some_and(|(running, _)| running == id)).map(ask)
    }
}

impl World for Machines {
    fn wall_clock(&self) -> WallTime {
        let offset = self.here(|peer| peer.wall_offset_ms).unwrap_or_default();
        WallTime((EPOCH_MS + self.judge.now_ms()).saturating_add_signed(offset))
    }

    fn monotonic(&self) -> Instant {
        let now = Instant::now();
        let drifted = |peer: &PeerMachine| {
            let (_, begun) = peer.running?;
            let passed = u64::try_from(now.saturating_duration_since(begun).as_micros()).unwrap_or(u64::MAX);
            let drift = i64::try_from(passed).unwrap_or(i64::MAX) / 1_000_000 * peer.drift_ppm;
            Some(begun + Duration::from_micros(passed.saturating_add_signed(drift)))
        };
        self.here(drifted).flatten().unwrap_or(now)
    }

    fn random(&self) -> u64 {
        self.lock().rng.random()
    }

    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
        let may_dial = self.may_dial();
        Box::pin(async move {
            if !may_dial {
                // Or it goes on without time ever passing.
                std::future::pending::<()>().await;
            }
            Ok(Box::new(TcpStream::connect(address).await?) as Box<dyn Connection>)
        })
    }

    fn sync(&self, log: &Path) -> BoxFuture<'static, io::Result<()>> {
        let (name, (takes_ms, outcome)) = {
            let Inner { peers, rng, .. } = &mut *self.lock();
            let peer = peers.iter_mut().find(|peer| peer.disk.holds(log)).expect("every log lies on a disk of ours");
            (peer.name.clone(), peer.disk.begin_sync(rng))
        };
        if let Err(error) = &outcome {
            self.judge.note(&name, format_args!("a sync fails: {}", error.kind()));
            self.judge.count("failed syncs");
        }
        Box::pin(async move {
            sleep(Duration::from_millis(takes_ms)).await;
            outcome
        })
    }

    fn synced(&self, log: &Path) {
        if let Some(peer) = self.lock().peers.iter_mut().find(|peer| peer.disk.holds(log)) {
            peer.disk.synced();
        }
    }
}
