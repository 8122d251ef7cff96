//! `grpc.health.v1`: whether this peer serves.
//!
//! It does while it belongs to a cluster whose leader it knows: then any call on it can be answered.

use tokio::sync::watch;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::raft::Consensus;

/// Keeps `reporter` up to date, for the process and each of `services`, for as long as the peer lives.
pub async fn report_health(
    reporter: HealthReporter,
    services: Vec<&'static str>,
    mut running: watch::Receiver<Option<Consensus>>,
) {
    report(&reporter, &services, ServingStatus::NotServing).await;
    let Ok(consensus) = running.wait_for(Option::is_some).await.map(|running| running.clone()) else { return };
    let Some(consensus) = consensus else { return };
    let mut leadership = consensus.leadership();
    loop {
        let serves = leadership.borrow_and_update().is_some();
        let status = if serves { ServingStatus::Serving } else { ServingStatus::NotServing };
        report(&reporter, &services, status).await;
        if leadership.changed().await.is_err() {
            report(&reporter, &services, ServingStatus::NotServing).await;
            return;
        }
    }
}

async fn report(reporter: &HealthReporter, services: &[&'static str], status: ServingStatus) {
    for service in services.iter().copied().chain([""]) {
        reporter.set_service_status(service, status).await;
    }
}
