//! The gRPC service `rollcall.peer.v1.Peer`: what other peers ask this one.
//!
//! Its frames are raw bytes, so there is no `.proto` for it: see the `wire` module.

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, StdError, http};
use tonic::server::{ClientStreamingService, Grpc, NamedService, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};

use super::codec::{FrameCodec, MAX_FRAME_BYTES};
use super::peer::Peer;
use super::receive::Receiver;
use super::wire;

type Frames = std::pin::Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;
type FrameFuture = BoxFuture<Response<Bytes>, Status>;

/// The service, to be added to a tonic server.
#[derive(Clone)]
pub struct PeerService {
    receiver: Receiver,
}

impl PeerService {
    pub(super) fn new(peer: Peer) -> Self {
        Self { receiver: Receiver::new(peer) }
    }
}

impl NamedService for PeerService {
    const NAME: &'static str = wire::SERVICE;
}

impl<B> Service<http::Request<B>> for PeerService
where
    B: tonic::codegen::Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let receiver = self.receiver.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(FrameCodec)
                .max_decoding_message_size(MAX_FRAME_BYTES)
                .max_encoding_message_size(MAX_FRAME_BYTES);
            Ok(match request.uri().path() {
                wire::CALL => grpc.unary(Call(receiver), request).await,
                wire::APPEND => grpc.streaming(Append(receiver), request).await,
                wire::SNAPSHOT => grpc.client_streaming(Snapshot(receiver), request).await,
                _ => Status::unimplemented("peers of another version? this one doesn't know the call").into_http(),
            })
        })
    }
}

struct Call(Receiver);

impl UnaryService<Bytes> for Call {
    type Response = Bytes;
    type Future = FrameFuture;

    fn call(&mut self, request: Request<Bytes>) -> FrameFuture {
        let receiver = self.0.clone();
        Box::pin(async move {
            let reply = receiver.answer(&request.into_inner()).await?;
            Ok(Response::new(wire::seal(&reply)))
        })
    }
}

struct Append(Receiver);

impl StreamingService<Bytes> for Append {
    type Response = Bytes;
    type ResponseStream = Frames;
    type Future = BoxFuture<Response<Frames>, Status>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let receiver = self.0.clone();
        Box::pin(async move {
            let replies = receiver.append(request.into_inner()).map(|reply| Ok(wire::seal(&reply)));
            Ok(Response::new(Box::pin(replies) as Frames))
        })
    }
}

struct Snapshot(Receiver);

impl ClientStreamingService<Bytes> for Snapshot {
    type Response = Bytes;
    type Future = FrameFuture;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> FrameFuture {
        let receiver = self.0.clone();
        Box::pin(async move {
            let reply = receiver.snapshot(request.into_inner()).await?;
            Ok(Response::new(wire::seal(&reply)))
        })
    }
}

#[cfg(test)]
mod tests {
    use rollcall_ident::{ClusterId, PeerId};
    use tonic::Code;
    use tonic::codegen::http::uri::PathAndQuery;
    use tonic::transport::{Channel, Endpoint, Server};

    use super::super::peer::PeerConfig;
    use super::super::wire::{BodyV1, RefusalV1, ReplyV1, RequestV1};
    use super::*;

    /// A blank peer, and a client that keeps to no limit.
    async fn blank_peer() -> (tempfile::TempDir, tonic::client::Grpc<Channel>) {
        let disk = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let config = PeerConfig {
            data_dir: disk.path().to_owned(),
            address: address.clone(),
            tuning: super::super::tuning::Tuning::default(),
            observers: super::super::consensus::Observers::default(),
        };
        let service = Peer::start(config).await.unwrap().peer_service();
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.unwrap();
        (disk, client)
    }

    async fn send(
        client: &mut tonic::client::Grpc<Channel>,
        path: &'static str,
        frame: Bytes,
    ) -> Result<Bytes, Status> {
        client.ready().await.unwrap();
        let reply = client.unary(Request::new(frame), PathAndQuery::from_static(path), FrameCodec).await;
        reply.map(Response::into_inner)
    }

    #[tokio::test]
    async fn what_can_not_be_a_message_is_refused_and_the_peer_goes_on() {
        let (_disk, mut client) = blank_peer().await;
        let large = send(&mut client, wire::CALL, vec![0; MAX_FRAME_BYTES + 1].into()).await.unwrap_err();
        assert_eq!(large.code(), Code::OutOfRange, "{large}");
        assert!(large.message().contains("limit"), "{large}");
        let garbage = send(&mut client, wire::CALL, Bytes::from_static(b"garbage")).await.unwrap_err();
        assert_eq!(garbage.code(), Code::InvalidArgument, "{garbage}");
        let unknown = send(&mut client, "/rollcall.peer.v1.Peer/Next", Bytes::new()).await.unwrap_err();
        assert_eq!(unknown.code(), Code::Unimplemented, "{unknown}");

        let request =
            |body| wire::seal(&RequestV1 { cluster: ClusterId([1; 16]), from: PeerId(1), to: PeerId(5), body });
        let reply = send(&mut client, wire::CALL, request(BodyV1::ReadIndex { timeout_ms: 1 })).await.unwrap();
        let refusal = RefusalV1::Blank { addressed: PeerId(5) };
        assert!(refusal.to_string().contains("remove-peer 5"), "{refusal}");
        assert_eq!(wire::open::<ReplyV1>(&reply), Ok(ReplyV1::Refused(refusal)));
    }
}
