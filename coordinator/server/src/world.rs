//! What a peer takes from the machine that it runs on, beside its files: connections, the time, chance, and how long work
//! on a disk takes. It is the system's, unless a simulator stands in for it on this thread.
//!
//! openraft asks for its random numbers by a static function and tonic opens connections where no caller is left to ask, so
//! what stands in belongs to the thread: a simulator runs all of its peers on one. Nothing of the product ever calls
//! [`stand_in`].

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use rand::{RngExt as _, SeedableRng as _};
use rollcall_ident::WallTime;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinError;
use tokio::time::Instant;

/// A connection to another peer.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// What stands in for the machine. Whoever asks is the peer whose task runs.
pub trait World: Send + Sync {
    /// The machine's wall clock.
    fn wall_clock(&self) -> WallTime;

    /// The machine's monotonic clock, as cluster time is measured by it. It may go slower or faster than what tasks sleep by.
    fn monotonic(&self) -> Instant;

    /// A random number.
    fn random(&self) -> u64;

    /// Opens a connection to `host:port`.
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Connection>>>;

    /// The log in this folder is about to be synced: returns once the disk is done with it, or says what it answers instead.
    fn sync(&self, log: &Path) -> BoxFuture<'static, io::Result<()>>;

    /// All that stands in the files of the log in this folder is durable now.
    fn synced(&self, log: &Path);
}

thread_local! {
    static STAND_IN: RefCell<Option<Arc<dyn World>>> = const { RefCell::new(None) };
}

/// Has every peer of this thread take from `world` what it takes from its machine. For simulators.
pub fn stand_in(world: Arc<dyn World>) {
    STAND_IN.set(Some(world));
}

/// What stands in for the machine on this thread; none: the machine.
pub(crate) fn simulated() -> Option<Arc<dyn World>> {
    STAND_IN.with_borrow(Clone::clone)
}

/// This machine's wall clock: for people, for windows, and for whatever people have set for a day and an hour.
pub(crate) fn wall_clock() -> WallTime {
    match simulated() {
        Some(world) => world.wall_clock(),
        None => {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            WallTime(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
        }
    }
}

/// This machine's monotonic clock.
pub(crate) fn monotonic() -> Instant {
    simulated().map_or_else(Instant::now, |world| world.monotonic())
}

/// Chance, for one use.
pub(crate) fn random() -> rand::rngs::StdRng {
    let seed = simulated().map_or_else(|| rand::rng().random(), |world| world.random());
    rand::rngs::StdRng::seed_from_u64(seed)
}

/// An id that nobody else has.
pub(crate) fn random_id() -> uuid::Uuid {
    match simulated() {
        Some(_) => uuid::Builder::from_random_bytes(random().random()).into_uuid(),
        None => uuid::Uuid::new_v4(),
    }
}

/// Does what blocks, or takes long, on a thread where nobody waits for it. In a simulation it is done here and at once:
/// time stands still meanwhile, and nothing depends on which of two threads is faster.
pub(crate) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    match simulated() {
        Some(_) => Ok(work()),
        None => tokio::task::spawn_blocking(work).await,
    }
}
