//! What is measured: Rollcall, and etcd beside it, behind one face.

use std::time::Duration;

use anyhow::Result;
use tonic::transport::{Channel, Endpoint};

use crate::client::Client;
use crate::drive::Acknowledged;

/// Peers of each.
pub const MEMBERS: usize = 3;

/// A cluster of three peers on this machine's disk.
pub trait System {
    /// For people.
    const NAME: &'static str;

    /// Where the peers answer.
    fn addresses(&self) -> &[String];

    /// A client on a connection.
    fn client(&self, channel: Channel) -> Client;

    /// Waits until all peers run, know the same leader and have caught up; the leader's address.
    async fn await_whole(&mut self) -> Result<String>;

    /// SIGKILL.
    fn kill(&mut self, address: &str) -> Result<()>;

    /// Starts a peer that was killed.
    fn start_member(&mut self, address: &str) -> Result<()>;

    /// Whether everything that was acknowledged is there, as it was written.
    ///
    /// # Errors
    /// Names what is lost.
    async fn read_back(&self, run: &str, acknowledged: &[Acknowledged]) -> Result<()>;

    /// So many clients, each with its own connection, spread over the peers.
    async fn clients(&self, count: usize) -> Result<Vec<Client>> {
        let mut clients = Vec::with_capacity(count);
        for address in self.addresses().iter().cycle().take(count) {
            clients.push(self.client(connect(address).await?));
        }
        Ok(clients)
    }
}

/// A connection of its own.
pub async fn connect(address: &str) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    Ok(endpoint.tcp_nodelay(true).connect_timeout(Duration::from_secs(1)).connect().await?)
}
