//! A client of either system: the same writes and the same reads.

use rollcall_proto::v1;
use rollcall_proto::v1::channel_service_client::ChannelServiceClient;
use rollcall_proto::v1::group_service_client::GroupServiceClient;
use tonic::Status;
use tonic::transport::Channel;

use crate::etcd::EtcdClient;

/// What a write carries.
pub const PAYLOAD: usize = 300;

/// What is read.
pub const READ: &str = "bench.read";

/// A client of one peer.
#[derive(Debug, Clone)]
pub enum Client {
    Rollcall(RollcallClient),
    Etcd(EtcdClient),
}

/// Of a peer.
#[derive(Debug, Clone)]
pub struct RollcallClient {
    channels: ChannelServiceClient<Channel>,
    groups: GroupServiceClient<Channel>,
}

/// The payload of the `number`-th write of a client of a run: no two are the same.
pub fn text(run: &str, client: usize, number: u64) -> String {
    format!("{:.<PAYLOAD$}", format!("{run}/{client}/{number}/"))
}

impl Client {
    /// One logged write; its revision. A client's writes go one after the other, or each is the only one of its client.
    pub async fn write(&mut self, run: &str, client: usize, number: u64) -> Result<u64, Status> {
        match self {
            Self::Rollcall(rollcall) => rollcall.write(run, client, number).await,
            Self::Etcd(etcd) => etcd.put(run, client, number).await,
        }
    }

    /// One read of what was put under [`READ`]: linearizable, or from what the peer that is asked has.
    pub async fn read(&mut self, is_stale: bool) -> Result<(), Status> {
        let found = match self {
            Self::Rollcall(rollcall) => rollcall.read(is_stale).await?,
            Self::Etcd(etcd) => etcd.get(&crate::etcd::read_key(), is_stale).await?.map(|value| value.len()),
        };
        match found {
            Some(PAYLOAD) => Ok(()),
            found => Err(Status::data_loss(format!("a read found {found:?}"))),
        }
    }

    /// Writes what is read.
    pub async fn prepare_read(&mut self) -> Result<(), Status> {
        match self {
            Self::Rollcall(rollcall) => rollcall.prepare_read().await,
            Self::Etcd(etcd) => etcd.put(READ, 0, 0).await.map(|_| ()),
        }
    }
}

impl RollcallClient {
    /// On a connection.
    pub fn new(channel: Channel) -> Self {
        Self { channels: ChannelServiceClient::new(channel.clone()), groups: GroupServiceClient::new(channel) }
    }

    /// Makes a channel, or takes it away again: the payload is the reason, which the log and its audit trail keep.
    async fn write(&mut self, run: &str, client: usize, number: u64) -> Result<u64, Status> {
        let name = format!("{run}-{client}");
        let options = Some(v1::WriteOptions { reason: text(run, client, number), ..Default::default() });
        if number.is_multiple_of(2) {
            let request = v1::CreateChannelRequest { name, options };
            Ok(self.channels.create(request).await?.into_inner().revision)
        } else {
            let request = v1::DeleteChannelRequest { name, options };
            Ok(self.channels.delete(request).await?.into_inner().revision)
        }
    }

    async fn read(&mut self, is_stale: bool) -> Result<Option<usize>, Status> {
        let options = Some(v1::ReadOptions { stale: is_stale });
        let request = v1::GetGroupRequest { name: READ.to_owned(), options };
        let group = self.groups.get(request).await?.into_inner().group;
        Ok(group.and_then(|group| group.spec?.config).map(|config| config.len()))
    }

    async fn prepare_read(&mut self) -> Result<(), Status> {
        let frame = "a = \"\"".len();
        let spec = v1::GroupSpec {
            name: READ.to_owned(),
            package: Some("acme/bench".to_owned()),
            config: Some(format!("a = \"{}\"", "x".repeat(PAYLOAD - frame))),
            ..Default::default()
        };
        self.groups.apply(v1::ApplyGroupRequest { spec: Some(spec), options: None }).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_their_size_and_differ() {
        assert_eq!(text("r", 1, 2).len(), PAYLOAD);
        assert_ne!(text("r", 1, 12), text("r", 11, 2));
    }
}
