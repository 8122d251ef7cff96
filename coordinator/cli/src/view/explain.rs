//! The chain of reasons why something moves or doesn't.

use rollcall_proto::v1;
use serde::Serialize;

use super::common::{cluster_ms, empty_as_none, wall};

/// From the subject down to the root causes.
#[derive(Debug, Serialize)]
pub struct ExplainView {
    pub subject: String,
    pub now_at: Option<String>,
    pub now_at_cluster_ms: Option<u64>,
    pub chain: Vec<ExplanationView>,
}

/// One link of the chain.
#[derive(Debug, Serialize)]
pub struct ExplanationView {
    pub subject: String,
    pub reason: String,
    pub text: String,
    pub since_at: Option<String>,
    pub since_at_cluster_ms: Option<u64>,
    /// What would release it; a command where there is one.
    pub released_by: Option<String>,
    /// 0 is the subject that was asked for.
    pub depth: u32,
}

impl ExplainView {
    pub fn from_wire(subject: String, response: v1::ExplainResponse) -> Self {
        let chain = response.chain.into_iter().map(|link| ExplanationView {
            since_at: wall(link.since.as_ref()),
            since_at_cluster_ms: cluster_ms(link.since.as_ref()),
            subject: link.subject,
            reason: link.reason,
            text: link.text,
            released_by: empty_as_none(link.released_by),
            depth: link.depth,
        });
        Self {
            subject,
            now_at: wall(response.now.as_ref()),
            now_at_cluster_ms: cluster_ms(response.now.as_ref()),
            chain: chain.collect(),
        }
    }
}
