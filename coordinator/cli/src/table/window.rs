//! Maintenance windows.

use crate::output::{Page, Tone, View, column, millis, table};
use crate::table::{NONE, short_minute};
use crate::view::{At, GroupWindowsView, List, WindowAddedView, WindowView};

impl View for List<GroupWindowsView> {
    fn to_table(&self, page: &Page) -> String {
        if self.items.is_empty() {
            return "no windows: a group without one is always open; `rollcall window add` adds one".to_owned();
        }
        let rows = self.items.iter().flat_map(|group| {
            let (state, tone) = if group.open { ("open", Tone::Good) } else { ("closed", Tone::Warning) };
            let changes = group.changes_at.as_deref().map_or("never".to_owned(), |at| short_minute(Some(at)));
            let mut windows: Vec<_> = group.windows.iter().map(|it| (it.window_id.clone(), window_text(it))).collect();
            if windows.is_empty() {
                windows.push((NONE.to_owned(), "always, but for freezes".to_owned()));
            }
            windows.into_iter().enumerate().map(move |(index, (id, opens))| {
                let only_first = |text: &str| if index == 0 { text.to_owned() } else { String::new() };
                [
                    column(only_first(&group.group), Tone::Plain),
                    column(only_first(state), tone),
                    column(only_first(&changes), Tone::Plain),
                    column(id, Tone::Plain),
                    column(opens, Tone::Plain),
                ]
            })
        });
        table(page, ["GROUP", "NOW", "CHANGES (UTC)", "WINDOW", "OPENS"], rows)
    }
}

impl View for At<WindowAddedView> {
    fn to_table(&self, _: &Page) -> String {
        format!("window {} added to {} at revision {}", self.item.window_id, self.item.group, self.revision)
    }
}

/// `mon, tue 02:00 for 2h Europe/Berlin`.
pub fn window_text(window: &WindowView) -> String {
    let days = if window.days.is_empty() { "daily".to_owned() } else { window.days.join(", ") };
    format!("{days} {} for {} {}", window.start_time, millis(window.length_ms), window.time_zone)
}
