//! A coordinator peer as a process: blank until a cluster takes it in, running from then on.

use std::path::PathBuf;
use std::sync::Arc;

use rollcall_ident::{ClusterId, PeerId};
use tokio::sync::{Mutex, watch};

use super::client::check_address;
use super::consensus::{Consensus, Observers};
use super::peer_service::PeerService;
use super::start_error::StartError;
use super::tuning::Tuning;
use super::wire::RefusalV1;
use crate::storage::{DataDir, Identity};
use crate::world::off_the_runtime;

/// What a peer is started with.
#[derive(Clone)]
pub struct PeerConfig {
    /// Its data directory: created if it is missing, and this process's own from then on.
    pub data_dir: PathBuf,
    /// `host:port` of its gRPC listener, as the other peers resolve it.
    pub address: String,
    /// The numbers of consensus.
    pub tuning: Tuning,
    /// Who is told how long things take.
    pub observers: Observers,
}

/// A peer. Clones are handles on the same one.
#[derive(Clone)]
pub struct Peer {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub config: PeerConfig,
    pub dir: Arc<DataDir>,
    pub running: watch::Sender<Option<Consensus>>,
    /// One identity is taken at a time.
    pub becoming: Mutex<()>,
}

impl Peer {
    /// Takes the data directory and starts what is in it: a peer with an identity runs when this returns, one without is
    /// blank and waits to be taken in.
    ///
    /// # Errors
    /// [`StartError`] says what to do about the directory or the configuration.
    pub async fn start(config: PeerConfig) -> Result<Self, StartError> {
        check_address(&config.address)
            .map_err(|expected| StartError::Address { address: config.address.clone(), expected })?;
        let path = config.data_dir.clone();
        let (dir, identity) = off_the_runtime(move || {
            let dir = DataDir::lock(&path)?;
            let identity = dir.load_identity()?;
            Ok::<_, crate::storage::StorageError>((Arc::new(dir), identity))
        })
        .await??;
        let running = watch::Sender::new(None);
        let peer = Self { inner: Arc::new(Inner { config, dir, running, becoming: Mutex::new(()) }) };
        match identity {
            Some(identity) => {
                peer.run_as(identity).await?.begin_to_announce();
            }
            None => tracing::info!(
                address = peer.address(),
                "this peer is blank: it waits for `rollcall cluster init` or `rollcall cluster add-peer`"
            ),
        }
        Ok(peer)
    }

    /// The running peer, once it runs.
    pub fn running(&self) -> watch::Receiver<Option<Consensus>> {
        self.inner.running.subscribe()
    }

    /// The running peer; `None` while it is blank.
    pub fn consensus(&self) -> Option<Consensus> {
        self.inner.running.borrow().clone()
    }

    /// Where the others reach it.
    pub fn address(&self) -> &str {
        &self.inner.config.address
    }

    /// The gRPC service that peers use among themselves: to be served at [`address`](Self::address), beside the public
    /// API.
    pub fn peer_service(&self) -> PeerService {
        PeerService::new(self.clone())
    }

    /// Stops; see [`Consensus::shutdown`].
    pub async fn shutdown(&self) {
        let _nobody_joins = self.inner.becoming.lock().await;
        if let Some(consensus) = self.consensus() {
            consensus.shutdown().await;
        }
    }

    /// Starts consensus under an identity that is on disk.
    pub(super) async fn run_as(&self, identity: Identity) -> Result<Consensus, StartError> {
        let PeerConfig { address, tuning, observers, .. } = self.inner.config.clone();
        let consensus = Consensus::start(self.inner.dir.clone(), identity, address, tuning, observers).await?;
        tracing::info!(cluster = %identity.cluster, peer = identity.peer.0, "this peer runs");
        self.inner.running.send_replace(Some(consensus.clone()));
        Ok(consensus)
    }

    /// Makes the identity durable and starts.
    ///
    /// CRASH: from here on the disk is this peer's; started again it runs, and waits for its leader.
    pub(super) async fn become_durably(&self, identity: Identity) -> Result<Consensus, StartError> {
        let dir = self.inner.dir.clone();
        off_the_runtime(move || dir.store_identity(identity)).await??;
        self.run_as(identity).await
    }

    /// Another peer takes this one in. Repeating it changes nothing.
    pub(super) async fn join(&self, cluster: ClusterId, peer: PeerId) -> Result<(), JoinError> {
        let _one_at_a_time = self.inner.becoming.lock().await;
        let wanted = Identity { cluster, peer };
        if let Some(consensus) = self.consensus() {
            let Identity { cluster, peer } = consensus.inner.identity;
            let same = consensus.inner.identity == wanted;
            return if same { Ok(()) } else { Err(RefusalV1::AlreadyJoined { cluster, peer }.into()) };
        }
        self.become_durably(wanted).await?;
        Ok(())
    }
}

/// Why a peer doesn't join.
#[derive(Debug, thiserror::Error)]
pub(super) enum JoinError {
    #[error(transparent)]
    Refused(#[from] RefusalV1),
    #[error(transparent)]
    Start(#[from] StartError),
}
