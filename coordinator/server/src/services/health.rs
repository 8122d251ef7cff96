//! `grpc.health.v1`: whether this peer serves.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::serving::serves;
use crate::raft::Consensus;

/// A majority that is lost makes no noise, so it is asked for: one round of heartbeats, nothing in the log.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Keeps `reporter` up to date, for the process and each of `services`, for as long as the peer lives.
pub async fn report_health(
    reporter: HealthReporter,
    services: Vec<&'static str>,
    mut running: watch::Receiver<Option<Consensus>>,
) {
    report(&reporter, &services, ServingStatus::NotServing).await;
    let Ok(running) = running.wait_for(Option::is_some).await.map(|running| running.clone()) else { return };
    let Some(consensus) = running else { return };
    let mut leadership = consensus.leadership();
    loop {
        leadership.mark_unchanged();
        let status = if serves(&consensus).await { ServingStatus::Serving } else { ServingStatus::NotServing };
        report(&reporter, &services, status).await;
        let goes_on = tokio::select! {
            changed = leadership.changed() => changed.is_ok(),
            () = sleep(LOOK_EVERY) => true,
        };
        if !goes_on {
            return report(&reporter, &services, ServingStatus::NotServing).await;
        }
    }
}

async fn report(reporter: &HealthReporter, services: &[&'static str], status: ServingStatus) {
    for service in services.iter().copied().chain([""]) {
        reporter.set_service_status(service, status).await;
    }
}
