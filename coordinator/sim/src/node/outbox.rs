//! What waits to be reported: numbered, kept until it is answered, sent again in the next session. Of statuses only the
//! latest is kept, and the last bad one before it.

use std::collections::VecDeque;

use rollcall_ident::Fence;
use rollcall_proto::v1;

/// One report.
pub struct Entry {
    number: u64,
    kind: v1::report::Kind,
    is_sent: bool,
    /// It is this milestone of this step.
    milestone: Option<((Fence, u32), u32)>,
}

/// The queue.
#[derive(Default)]
pub struct Outbox {
    last_number: u64,
    entries: VecDeque<Entry>,
}

impl Outbox {
    /// Queues a report; earlier ones that it makes obsolete are dropped.
    pub fn push(&mut self, kind: v1::report::Kind, milestone: Option<((Fence, u32), u32)>) {
        match &kind {
            v1::report::Kind::Status(status) => self.drop_obsolete(status.health() != v1::Health::Healthy),
            v1::report::Kind::Prefetch(_) => {
                self.entries.retain(|entry| !matches!(entry.kind, v1::report::Kind::Prefetch(_)));
            }
            v1::report::Kind::Step(_) => {}
        }
        self.last_number += 1;
        self.entries.push_back(Entry { number: self.last_number, kind, is_sent: false, milestone });
    }

    fn drop_obsolete(&mut self, is_bad: bool) {
        let mut bad_is_kept = is_bad;
        let mut obsolete = Vec::new();
        for entry in self.entries.iter().rev() {
            if let v1::report::Kind::Status(old) = &entry.kind {
                if !bad_is_kept && old.health() != v1::Health::Healthy {
                    bad_is_kept = true;
                } else {
                    obsolete.push(entry.number);
                }
            }
        }
        self.entries.retain(|entry| !obsolete.contains(&entry.number));
    }

    /// What wasn't sent in this session yet; it counts as sent now.
    pub fn take_unsent(&mut self) -> Vec<v1::Report> {
        let unsent = self.entries.iter_mut().filter(|entry| !entry.is_sent);
        unsent
            .map(|entry| {
                entry.is_sent = true;
                v1::Report { number: entry.number, kind: Some(entry.kind.clone()) }
            })
            .collect()
    }

    /// A new session: whatever wasn't answered is to be sent again.
    pub fn begin_session(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.is_sent = false);
    }

    /// A report was answered. The milestone that it was. What came in a session that is over waits for the next one.
    pub fn answer(&mut self, number: u64, refusal: &str) -> Option<((Fence, u32), u32)> {
        if refusal == "stale_session" {
            return None;
        }
        let index = self.entries.iter().position(|entry| entry.number == number)?;
        self.entries.remove(index)?.milestone
    }
}
