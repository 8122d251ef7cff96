//! The HTTP port: probes, metrics, a status page.

mod probes;
mod status_page;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::raft::Peer;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the pages show.
#[derive(Clone)]
pub struct Page {
    /// The peer.
    pub peer: Peer,
    /// Its metrics.
    pub metrics: Arc<Registry>,
}

/// Serves until `closing`.
pub async fn serve(listener: TcpListener, page: Page, closing: CancellationToken) {
    let routes = Router::new()
        .route("/", get(status_page::show))
        .route("/healthz", get(probes::healthz))
        .route("/readyz", get(probes::readyz))
        .route("/metrics", get(metrics))
        .with_state(page);
    if let Err(error) = axum::serve(listener, routes).with_graceful_shutdown(closing.cancelled_owned()).await {
        tracing::error!(%error, "the HTTP listener has failed");
    }
}

async fn metrics(State(page): State<Page>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &page.metrics) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("metrics can't be written: {error}")).into_response(),
    }
}
