//! What keeps a cluster from doing its work.

use rollcall_proto::v1;
use serde::Serialize;

use super::common::empty_as_none;

/// What the checks found.
#[derive(Debug, Serialize)]
pub struct DoctorView {
    /// How many checks were made.
    pub checks: u32,
    /// Over how many peers.
    pub peers_asked: u32,
    /// The worst first; none: all is well.
    pub findings: Vec<FindingView>,
}

/// One thing that isn't as it should be.
#[derive(Debug, Serialize)]
pub struct FindingView {
    /// `error` or `warning`.
    pub severity: String,
    /// The check's name.
    pub check: String,
    /// `peer 3`, `node redis-1`, `group redis.default`, `state`.
    pub subject: String,
    pub text: String,
    /// What to do; a command where there is one.
    pub advice: Option<String>,
}

impl From<v1::DoctorResponse> for DoctorView {
    fn from(response: v1::DoctorResponse) -> Self {
        let mut findings: Vec<_> = response.findings.into_iter().map(FindingView::from).collect();
        findings.sort_by_key(|finding| !finding.is_error());
        Self { checks: response.checks, peers_asked: response.peers_asked, findings }
    }
}

impl From<v1::Finding> for FindingView {
    fn from(finding: v1::Finding) -> Self {
        Self {
            severity: finding.severity,
            check: finding.check,
            subject: finding.subject,
            text: finding.text,
            advice: empty_as_none(finding.advice),
        }
    }
}

impl DoctorView {
    /// How many findings are errors.
    pub fn error_count(&self) -> usize {
        self.findings.iter().filter(|finding| finding.is_error()).count()
    }
}

impl FindingView {
    /// Whether something doesn't work, rather than being about not to.
    pub fn is_error(&self) -> bool {
        self.severity == "error"
    }
}
