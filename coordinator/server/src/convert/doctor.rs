//! What the doctor found.

use rollcall_proto::v1;
use rollcall_rollout::Finding;

use crate::doctor::Diagnosis;

/// The findings, the worst first, with how much was looked at.
pub fn diagnosis(diagnosis: Diagnosis) -> v1::DoctorResponse {
    let Diagnosis { revision, findings, checks, peers_asked } = diagnosis;
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    v1::DoctorResponse {
        revision: revision.0,
        findings: findings.into_iter().map(finding).collect(),
        checks: count(checks),
        peers_asked: count(peers_asked),
    }
}

fn finding(finding: Finding) -> v1::Finding {
    let Finding { severity, check, subject, text, advice } = finding;
    v1::Finding { severity: severity.to_string(), check: check.to_owned(), subject, text, advice }
}
