//! Three etcd members as processes, with their default settings, and what is asked of them.

mod api;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rollcall_jepsen::ports::free_port;
use rollcall_jepsen::process::Process;
use rollcall_jepsen::run_dir::RunDir;
use tonic::transport::Channel;

use crate::client::{Client, text};
use crate::drive::Acknowledged;
use crate::system::{MEMBERS, System, connect};

pub use api::EtcdClient;

/// Where the value that is read lies.
pub fn read_key() -> String {
    api::key(crate::client::READ, 0, 0)
}

/// BOUND: for all members to be there and to have the same leader.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// BOUND: keys of one answer.
const PAGE: i64 = 2_000;

/// The members. Dropping it ends them, and removes their folder.
pub struct Etcd {
    members: Vec<Member>,
    addresses: Vec<String>,
    _run: RunDir,
}

struct Member {
    address: String,
    arguments: Vec<String>,
    log: PathBuf,
    process: Option<Process>,
}

impl Etcd {
    /// Starts three members of a new cluster, and waits until they have a leader.
    pub async fn start() -> Result<Self> {
        let run = RunDir::create("rollcall-bench-etcd-")?;
        let mut places = Vec::new();
        for number in 1..=MEMBERS {
            places.push((format!("etcd-{number}"), free_port()?, free_port()?));
        }
        let peers: Vec<_> = places.iter().map(|(name, _, peer)| format!("{name}=http://127.0.0.1:{peer}")).collect();
        let mut members = Vec::new();
        for (name, client, peer) in &places {
            let folder = run.folder(name)?;
            let data = folder.join("data");
            let (client_url, peer_url) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
            let arguments = [
                ("--name", name.as_str()),
                ("--data-dir", data.to_str().context("the run's path isn't UTF-8")?),
                ("--listen-client-urls", &client_url),
                ("--advertise-client-urls", &client_url),
                ("--listen-peer-urls", &peer_url),
                ("--initial-advertise-peer-urls", &peer_url),
                ("--initial-cluster", &peers.join(",")),
                ("--initial-cluster-state", "new"),
                ("--log-level", "error"),
            ];
            let arguments =
                arguments.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value.to_owned()]).collect();
            let address = format!("127.0.0.1:{client}");
            members.push(Member { address, arguments, log: folder.join("log"), process: None });
        }
        let addresses = members.iter().map(|member| member.address.clone()).collect();
        let mut cluster = Self { members, addresses, _run: run };
        for address in cluster.addresses.clone() {
            cluster.start_member(&address)?;
        }
        cluster.await_whole().await?;
        Ok(cluster)
    }

    fn member_at(&mut self, address: &str) -> Result<&mut Member> {
        self.members
            .iter_mut()
            .find(|member| member.address == address)
            .with_context(|| format!("no etcd at {address}"))
    }

    /// The address of the leader that all members agree on.
    async fn look_whole(&self) -> Result<String> {
        let mut found = None;
        for address in &self.addresses {
            let (own, leader) = EtcdClient::new(connect(address).await?).status().await?;
            if leader == 0 {
                bail!("{address} knows no leader");
            }
            let (agreed, leads_at) = found.get_or_insert((leader, None));
            if *agreed != leader {
                bail!("two are said to lead");
            }
            if own == leader {
                *leads_at = Some(address.clone());
            }
        }
        found.and_then(|(_, leads_at)| leads_at).context("nobody leads")
    }
}

impl System for Etcd {
    const NAME: &'static str = "etcd";

    fn addresses(&self) -> &[String] {
        &self.addresses
    }

    fn client(&self, channel: Channel) -> Client {
        Client::Etcd(EtcdClient::new(channel))
    }

    async fn await_whole(&mut self) -> Result<String> {
        let deadline = Instant::now() + WHOLE_WITHIN;
        loop {
            for member in &mut self.members {
                if let Some(how) = member.process.as_mut().and_then(Process::ended) {
                    bail!("etcd at {} ended by itself ({how}); its log: {}", member.address, member.log.display());
                }
            }
            match self.look_whole().await {
                Ok(leader) => return Ok(leader),
                Err(error) if Instant::now() > deadline => return Err(error.context("etcd isn't whole")),
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    fn kill(&mut self, address: &str) -> Result<()> {
        let member = self.member_at(address)?;
        member.process.take().with_context(|| format!("etcd at {address} doesn't run"))?.kill()
    }

    fn start_member(&mut self, address: &str) -> Result<()> {
        let member = self.member_at(address)?;
        let arguments: Vec<&str> = member.arguments.iter().map(String::as_str).collect();
        member.process = Some(Process::start("etcd".as_ref(), &arguments, &member.log)?);
        Ok(())
    }

    async fn read_back(&self, run: &str, acknowledged: &[Acknowledged]) -> Result<()> {
        let mut client = EtcdClient::new(connect(&self.addresses[0]).await?);
        let mut stored = std::collections::HashMap::new();
        let (mut from, end) = (format!("{run}/"), format!("{run}0"));
        loop {
            let page = client.range(&from, Some(&end), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            from = format!("{last}\0");
            stored.extend(page);
        }
        for write in acknowledged {
            let key = api::key(run, write.client, write.number);
            match stored.get(&key) {
                Some(value) if *value == text(run, write.client, write.number) => {}
                Some(_) => bail!("etcd acknowledged {key} and holds something else"),
                None => bail!("etcd acknowledged {key} and hasn't got it"),
            }
        }
        Ok(())
    }
}
