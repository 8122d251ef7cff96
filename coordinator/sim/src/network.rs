//! Connections over the simulated network: what peers accept, and what anybody dials.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::{Connected, TcpConnectInfo};
use turmoil::net::{TcpListener, TcpStream};

/// The port of every peer.
pub const PORT: u16 = 7400;

/// A connection that a peer has accepted.
pub struct Accepted {
    stream: TcpStream,
    info: TcpConnectInfo,
}

/// What comes in at the peer's port.
///
/// # Errors
/// The port is taken.
pub async fn listen() -> std::io::Result<impl Stream<Item = std::io::Result<Accepted>> + Send + 'static> {
    let listener = TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, PORT)).await?;
    Ok(async_stream::stream! {
        loop {
            yield listener.accept().await.map(|(stream, from)| Accepted::new(stream, from));
        }
    })
}

impl Accepted {
    fn new(stream: TcpStream, from: SocketAddr) -> Self {
        let info = TcpConnectInfo { local_addr: stream.local_addr().ok(), remote_addr: Some(from) };
        Self { stream, info }
    }
}

impl Connected for Accepted {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.info.clone()
    }
}

impl AsyncRead for Accepted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Dialling, as agents and operators do.
pub mod dial {
    use hyper_util::rt::TokioIo;
    use tonic::codegen::http::Uri;
    use tonic::transport::{Channel, Endpoint, Error};
    use tower::service_fn;
    use turmoil::net::TcpStream;

    /// Where `host:port` is.
    #[must_use]
    pub fn endpoint(address: &str) -> Endpoint {
        Endpoint::from_shared(format!("http://{address}")).expect("our own names are addresses")
    }

    /// Connects now.
    ///
    /// # Errors
    /// Nobody takes the connection.
    pub async fn connect(endpoint: &Endpoint) -> Result<Channel, Error> {
        let dial = |to: Uri| async move {
            let address = to.authority().map(ToString::to_string).unwrap_or_default();
            std::io::Result::Ok(TokioIo::new(TcpStream::connect(address).await?))
        };
        endpoint.connect_with_connector(service_fn(dial)).await
    }
}
