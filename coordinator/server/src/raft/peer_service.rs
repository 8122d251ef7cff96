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
