//! Explanations.

use rollcall_proto::v1;
use rollcall_rollout::Explanation;

use super::moment;

/// A chain of reasons.
pub fn explanations(chain: Vec<Explanation>) -> Vec<v1::Explanation> {
    let one = |link: Explanation| v1::Explanation {
        subject: link.subject,
        reason: link.reason.to_owned(),
        text: link.text,
        since: Some(moment(link.since)),
        released_by: link.released_by,
        depth: link.depth,
    };
    chain.into_iter().map(one).collect()
}
