//! The audit trail: who did what, and why; and whether the copies of the peers are right.

use crate::output::{Page, Tone, View, column, table, wrap};
use crate::table::{NONE, or_none, short_time};
use crate::view::{AuditRecordView, CopyView, List, VerificationView};

/// Enough of a hash for people to tell two apart.
const SHORT_HASH: usize = 8;

impl View for List<AuditRecordView> {
    fn to_table(&self, page: &Page) -> String {
        if self.items.is_empty() {
            return format!("no changes; the log stands at revision {}", self.revision);
        }
        self.items.iter().map(|record| record_lines(record, page)).collect::<Vec<_>>().join("\n")
    }
}

/// Who and why in the first line, what in those below.
fn record_lines(record: &AuditRecordView, page: &Page) -> String {
    let head = format!(
        "{:>6}  {}  {}  {}",
        record.revision,
        short_time(record.at.as_deref()),
        short_hash(record.hash.as_deref()),
        or_none(record.actor.as_deref()),
    );
    let indent = " ".repeat(8);
    let room = usize::from(page.width).saturating_sub(indent.len()).max(20);
    let reason = record.reason.iter().map(|reason| format!("because: {reason}"));
    let texts = record.events.iter().map(|event| event.message.clone()).chain(reason);
    let below = texts.flat_map(|text| wrap(&text, room)).map(|line| format!("\n{indent}{line}"));
    format!("{}{}", Tone::Dim.paint(&head), below.collect::<String>())
}

impl View for VerificationView {
    fn to_table(&self, page: &Page) -> String {
        let rows = self.copies.iter().map(|copy| {
            let (found, tone) = if copy.verified { ("verified", Tone::Good) } else { ("broken", Tone::Bad) };
            [
                column(&copy.peer_id, Tone::Plain),
                column(&copy.endpoint, Tone::Plain),
                column(found, tone),
                column(copy.anchor_revision.map_or(NONE.to_owned(), |anchor| anchor.to_string()), Tone::Plain),
                column(copy.record_count, Tone::Plain),
                column(copy.head_revision, Tone::Plain),
                column(short_hash(Some(&copy.head_hash)), Tone::Plain),
            ]
        });
        let mut text = table(page, ["PEER", "ENDPOINT", "COPY", "AFTER", "RECORDS", "UP TO", "HASH"], rows);
        for copy in &self.copies {
            text.push('\n');
            wrap(&conclusion(copy), usize::from(page.width)).iter().for_each(|line| {
                text.push('\n');
                text.push_str(line);
            });
        }
        text
    }
}

fn conclusion(copy: &CopyView) -> String {
    match &copy.problem {
        Some(problem) => Tone::Bad.paint(&format!(
            "peer {}: revision {} is the first that isn't right: {}",
            copy.peer_id, problem.revision, problem.detail
        )),
        None => format!(
            "peer {}: nothing was changed after revision {}; to hold it against later: --expect {}:{}",
            copy.peer_id,
            copy.anchor_revision.unwrap_or(copy.head_revision),
            copy.head_revision,
            copy.head_hash
        ),
    }
}

fn short_hash(hash: Option<&str>) -> &str {
    hash.map_or(NONE, |hash| hash.get(..SHORT_HASH).unwrap_or(hash))
}
