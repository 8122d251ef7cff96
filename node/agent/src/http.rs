//! The agent's HTTP: how its services stand, for load balancers and Prometheus.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::service::{Health, NodeContext, ServiceStatus};

/// What the handlers see.
struct Shared {
    node: Arc<NodeContext>,
    services: BTreeMap<String, watch::Receiver<ServiceStatus>>,
}

/// Serves until `shutdown` is cancelled.
pub async fn serve(
    listener: TcpListener,
    services: Vec<watch::Receiver<ServiceStatus>>,
    node: Arc<NodeContext>,
    shutdown: CancellationToken,
) {
    let services = services.into_iter().map(|status| (status.borrow().group.to_string(), status.clone())).collect();
    let router = Router::new()
        .route("/services", get(list))
        .route("/services/{name}/{group}/health", get(health))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(Shared { node, services }));
    let served = axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await;
    if let Err(error) = served {
        tracing::error!(%error, "the HTTP server has ended");
    }
}

async fn list(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let services: Vec<Value> = shared.services.values().map(|status| describe(&status.borrow())).collect();
    let node = &shared.node;
    Json(json!({ "node": node.name.as_str(), "node_id": node.node_id.to_string(), "services": services }))
}

async fn health(State(shared): State<Arc<Shared>>, Path((name, group)): Path<(String, String)>) -> Response {
    match shared.services.get(&format!("{name}.{group}")) {
        None => (StatusCode::NOT_FOUND, Json(json!({ "error": "no such service here" }))).into_response(),
        Some(status) => {
            let status = status.borrow();
            (code(status.health), Json(describe(&status))).into_response()
        }
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], shared.node.metrics.text())
}

fn code(health: Option<Health>) -> StatusCode {
    match health {
        Some(Health::Healthy | Health::Warning) => StatusCode::OK,
        Some(Health::Critical) => StatusCode::SERVICE_UNAVAILABLE,
        Some(Health::Unknown) | None => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn describe(status: &ServiceStatus) -> Value {
    let health = match status.health {
        Some(Health::Healthy) => "healthy",
        Some(Health::Warning) => "warning",
        Some(Health::Critical) => "critical",
        Some(Health::Unknown) => "unknown",
        None => "unprovisioned",
    };
    json!({
        "group": status.group.as_str(),
        "release": status.release.as_ref().map(ToString::to_string),
        "pid": status.instance.as_ref().map(|instance| instance.pid),
        "health": health,
        "detail": status.detail,
        "primary": status.primary,
        "priority": status.priority,
        "prefetched": status.prefetched.as_ref().map(ToString::to_string),
    })
}
