//! What the agent tells Prometheus.

use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rollcall_ident::GroupName;

use crate::service::Health;

type Labels = Vec<(&'static str, String)>;

/// The agent's metrics. The registry is its own: several agents may live in one process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    session: Gauge<i64, AtomicI64>,
    sessions: Counter,
    health: Family<Labels, Gauge<i64, AtomicI64>>,
    failures: Family<Labels, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let metrics = (Gauge::default(), Counter::default(), Family::default(), Family::default());
        let (session, sessions, health, failures) = metrics;
        registry.register("rollcall_agent_session_up", "1 while a peer hosts this agent's session", session.clone());
        registry.register("rollcall_agent_sessions", "Sessions opened since the agent started", sessions.clone());
        registry.register("rollcall_agent_service_health", "1 for the health that a service has", health.clone());
        registry.register("rollcall_agent_phase_failures", "Phases of steps that failed", failures.clone());
        Self { registry, session, sessions, health, failures }
    }
}

impl Metrics {
    /// A session was opened, or has ended.
    pub fn note_session(&self, is_up: bool) {
        self.session.set(i64::from(is_up));
        if is_up {
            self.sessions.inc();
        }
    }

    /// The health of a service; none: unprovisioned.
    pub fn note_health(&self, group: &GroupName, health: Option<Health>) {
        for (name, value) in [
            ("healthy", Some(Health::Healthy)),
            ("warning", Some(Health::Warning)),
            ("critical", Some(Health::Critical)),
            ("unknown", Some(Health::Unknown)),
            ("unprovisioned", None),
        ] {
            let labels = vec![("group", group.to_string()), ("health", name.to_owned())];
            self.health.get_or_create(&labels).set(i64::from(health == value));
        }
    }

    /// A phase of a step failed.
    pub fn note_failure(&self, group: &GroupName, reason: &str) {
        self.failures.get_or_create(&vec![("group", group.to_string()), ("reason", reason.to_owned())]).inc();
    }

    /// In the text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes everything");
        text
    }
}
