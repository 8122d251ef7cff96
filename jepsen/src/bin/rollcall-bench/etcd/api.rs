//! As much of etcd's gRPC API as is asked here. The numbers of the fields are its public interface.

use anyhow::{Context, Result};
use prost::Message;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::client::text;

#[derive(Clone, PartialEq, Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct PutResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
}

#[derive(Clone, PartialEq, Message)]
struct ResponseHeader {
    #[prost(uint64, tag = "2")]
    member_id: u64,
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    limit: i64,
    /// From what the member has; else linearizable.
    #[prost(bool, tag = "7")]
    serializable: bool,
}

#[derive(Clone, PartialEq, Message)]
struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(uint64, tag = "4")]
    leader: u64,
}

/// A client of one member.
#[derive(Debug, Clone)]
pub struct EtcdClient {
    grpc: tonic::client::Grpc<Channel>,
}

/// What a write is stored under.
pub fn key(run: &str, client: usize, number: u64) -> String {
    format!("{run}/{client:05}/{number:08}")
}

impl EtcdClient {
    /// On a connection.
    pub fn new(channel: Channel) -> Self {
        Self { grpc: tonic::client::Grpc::new(channel) }
    }

    async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let answer =
            self.grpc.unary(Request::new(request), PathAndQuery::from_static(path), ProstCodec::default()).await?;
        Ok(answer.into_inner())
    }

    /// Puts what the `number`-th write of a client of a run is; its revision.
    pub async fn put(&mut self, run: &str, client: usize, number: u64) -> Result<u64, Status> {
        let request =
            PutRequest { key: key(run, client, number).into_bytes(), value: text(run, client, number).into_bytes() };
        let answer: PutResponse = self.call("/etcdserverpb.KV/Put", request).await?;
        Ok(answer.header.map_or(0, |header| u64::try_from(header.revision).unwrap_or(0)))
    }

    /// The value of a key.
    pub async fn get(&mut self, key: &str, is_stale: bool) -> Result<Option<Vec<u8>>, Status> {
        let key = key.as_bytes().to_vec();
        let request = RangeRequest { key, range_end: Vec::new(), limit: 0, serializable: is_stale };
        let answer: RangeResponse = self.call("/etcdserverpb.KV/Range", request).await?;
        Ok(answer.kvs.into_iter().next().map(|found| found.value))
    }

    /// Keys and values from one key on, to before another.
    pub async fn range(&mut self, from: &str, end: Option<&str>, limit: i64) -> Result<Vec<(String, String)>> {
        let range_end = end.unwrap_or_default().as_bytes().to_vec();
        let request = RangeRequest { key: from.as_bytes().to_vec(), range_end, limit, serializable: false };
        let answer: RangeResponse = self.call("/etcdserverpb.KV/Range", request).await?;
        let text = |bytes| String::from_utf8(bytes).context("etcd holds what we didn't write");
        answer.kvs.into_iter().map(|found| Ok((text(found.key)?, text(found.value)?))).collect()
    }

    /// Which member this is, and which one leads: 0 where it knows none.
    pub async fn status(&mut self) -> Result<(u64, u64), Status> {
        let answer: StatusResponse = self.call("/etcdserverpb.Maintenance/Status", StatusRequest {}).await?;
        Ok((answer.header.map_or(0, |header| header.member_id), answer.leader))
    }
}
