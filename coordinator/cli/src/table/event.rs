//! Events: one line each, so that they can be followed and searched.

use crate::output::{Page, Tone, View};
use crate::table::short_time;
use crate::view::{EventView, List};

impl View for List<EventView> {
    fn to_table(&self, page: &Page) -> String {
        if self.items.is_empty() {
            return format!("no events; the log stands at revision {}", self.revision);
        }
        self.items.iter().map(|event| event_line(event, page)).collect::<Vec<_>>().join("\n")
    }
}

impl View for EventView {
    fn to_table(&self, page: &Page) -> String {
        event_line(self, page)
    }
}

/// The line of one event. Where it doesn't fit the page, its message goes on in the next line.
fn event_line(event: &EventView, page: &Page) -> String {
    let head = format!("{:>6}  {}  ", event.revision, short_time(event.at.as_deref()));
    let indent = head.len();
    let mut text = event.message.clone();
    if text.is_empty() {
        text = event.kind.replace('_', " ");
    }
    // What the cluster does by itself needs no name.
    let actor = event.actor.as_deref().filter(|actor| *actor != "rollcall");
    let by: Vec<_> = [actor, event.reason.as_deref()].into_iter().flatten().collect();
    if !by.is_empty() {
        text.push_str(&format!(" ({})", by.join(": ")));
    }
    let room = usize::from(page.width).saturating_sub(indent).max(20);
    let lines = crate::output::wrap(&text, room);
    let body = lines.join(&format!("\n{}", " ".repeat(indent)));
    format!("{}{}", Tone::Dim.paint(&head), tone_of(&event.kind).paint(&body))
}

fn tone_of(kind: &str) -> Tone {
    if kind.ends_with("_failed") || kind.ends_with("_departed") || kind.contains("refused") {
        Tone::Bad
    } else if kind.ends_with("_paused") || kind.ends_with("_stopped") {
        Tone::Warning
    } else if kind.ends_with("_succeeded") {
        Tone::Good
    } else {
        Tone::Plain
    }
}
