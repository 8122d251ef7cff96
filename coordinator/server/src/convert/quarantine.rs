//! Releases that aren't started again.

use rollcall_ident::ReleaseIdent;
use rollcall_proto::v1;
use rollcall_rollout::Quarantine;

use super::moment;

/// A release with who put it aside, and why.
pub fn quarantined(release: &ReleaseIdent, quarantine: &Quarantine) -> v1::QuarantinedRelease {
    let Quarantine { at, by, reason, modified_revision } = quarantine;
    v1::QuarantinedRelease {
        ident: release.to_string(),
        by: by.0.clone(),
        reason: reason.clone(),
        since: Some(moment(*at)),
        modified_revision: modified_revision.0,
    }
}
