//! Explanations: each reason indented under what it holds up.

use crate::output::{Page, Tone, View, millis, wrap};
use crate::view::{At, ExplainView, ExplanationView};

impl View for At<ExplainView> {
    fn to_table(&self, page: &Page) -> String {
        let explain = &self.item;
        if explain.chain.is_empty() {
            return format!("nothing holds up {}", explain.subject);
        }
        explain
            .chain
            .iter()
            .map(|link| link_lines(link, explain.now_at_cluster_ms, page))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn link_lines(link: &ExplanationView, now_ms: Option<u64>, page: &Page) -> String {
    let depth = usize::try_from(link.depth).unwrap_or(usize::MAX).min(10);
    let indent = "  ".repeat(depth);
    let room = usize::from(page.width).saturating_sub(indent.len() + 2).max(20);
    let lasts = now_ms.zip(link.since_at_cluster_ms).map(|(now, since)| now.saturating_sub(since));
    let lasts = lasts.map(|ms| format!(" (for {})", millis(ms))).unwrap_or_default();
    let head = format!("{}: {}{lasts}", link.subject, Tone::Warning.paint(&link.reason));
    let mut lines = vec![format!("{indent}{head}")];
    lines.extend(wrap(&link.text, room).into_iter().map(|line| format!("{indent}  {line}")));
    if let Some(released_by) = &link.released_by {
        lines.extend(wrap(&format!("→ {released_by}"), room).into_iter().map(|line| format!("{indent}  {line}")));
    }
    lines.join("\n")
}
