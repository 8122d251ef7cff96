//! Tokens.

use crate::output::{Page, Tone, View, column, millis, table};
use crate::table::{NONE, or_none};
use crate::view::{At, List, RevokedView, TokenView};

impl View for List<TokenView> {
    fn to_table(&self, page: &Page) -> String {
        if self.items.is_empty() {
            return "no tokens: no node may be down now".to_owned();
        }
        let rows = self.items.iter().map(|token| {
            let next = match (&token.next_deadline, token.next_deadline_in_ms) {
                (Some(deadline), Some(ms)) => format!("{deadline} in {}", millis(ms)),
                _ => NONE.to_owned(),
            };
            [
                column(&token.node_name, Tone::Plain),
                column(&token.group, Tone::Plain),
                column(or_none(token.rollout_id.as_deref()), Tone::Plain),
                column(&token.phase, Tone::of(&token.phase)),
                column(token.held_ms.map_or_else(|| NONE.to_owned(), millis), Tone::Plain),
                column(token.fence, Tone::Plain),
                column(next, Tone::Plain),
            ]
        });
        table(page, ["NODE", "GROUP", "ROLLOUT", "PHASE", "HELD FOR", "FENCE", "NEXT DEADLINE"], rows)
    }
}

impl View for At<RevokedView> {
    fn to_table(&self, _: &Page) -> String {
        let RevokedView { node, rollout_id } = &self.item;
        let mut lines = vec![format!("the token of {node} is revoked at revision {}", self.revision)];
        if let Some(id) = rollout_id {
            lines.push(format!("rollout {id} is paused; once you know how {node} is:"));
            lines.push(format!("  rollcall rollout retry {id} --node {node}"));
            lines.push(format!("  rollcall rollout skip {id} --node {node}"));
        }
        lines.join("\n")
    }
}
