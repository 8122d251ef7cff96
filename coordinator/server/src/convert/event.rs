//! Events.

use rollcall_ident::GroupName;
use rollcall_proto::v1;
use rollcall_rollout::{ChainHead, ChainedRecord, HistoryRecord, canonical_bytes};

use super::moment;

/// The events of one revision: of `group`, or all.
pub fn events(record: &HistoryRecord, group: Option<&GroupName>) -> Vec<v1::Event> {
    let wanted = record.events.iter().filter(|event| group.is_none() || event.group() == group);
    let one = |event: &rollcall_rollout::Event| {
        let node = event.node();
        v1::Event {
            revision: record.revision.0,
            at: Some(moment(record.stamp)),
            kind: event.name().to_owned(),
            group: event.group().map(ToString::to_string).unwrap_or_default(),
            rollout_id: event.rollout().map(|id| id.to_string()).unwrap_or_default(),
            node_id: node.map(|(id, _)| id.to_string()).unwrap_or_default(),
            node_name: node.map(|(_, name)| name.to_string()).unwrap_or_default(),
            actor: record.actor.0.clone(),
            reason: record.reason.clone().unwrap_or_default(),
            message: event.to_string(),
        }
    };
    wanted.map(one).collect()
}

/// A record of the audit trail.
pub fn audit_record(chained: &ChainedRecord) -> v1::AuditRecord {
    let ChainedRecord { previous, record, hash } = chained;
    v1::AuditRecord {
        revision: record.revision.0,
        at: Some(moment(record.stamp)),
        actor: record.actor.0.clone(),
        reason: record.reason.clone().unwrap_or_default(),
        events: events(record, None),
        record: canonical_bytes(record),
        previous: Some(audit_head(*previous)),
        hash: hash.0.to_vec(),
    }
}

/// Where the audit chain stands.
pub fn audit_head(head: ChainHead) -> v1::AuditHead {
    v1::AuditHead { revision: head.revision.0, hash: head.hash.0.to_vec() }
}
