//! Releases in quarantine.

use crate::output::{Page, Tone, View, column, table};
use crate::table::{or_none, short_minute};
use crate::view::{List, QuarantineView};

impl View for List<QuarantineView> {
    fn to_table(&self, page: &Page) -> String {
        if self.items.is_empty() {
            return "no release is in quarantine".to_owned();
        }
        let rows = self.items.iter().map(|release| {
            [
                column(&release.ident, Tone::Plain),
                column(short_minute(release.since_at.as_deref()), Tone::Dim),
                column(or_none(release.by.as_deref()), Tone::Plain),
                column(or_none(release.reason.as_deref()), Tone::Plain),
            ]
        });
        table(page, ["RELEASE", "SINCE (UTC)", "BY", "WHY"], rows)
    }
}
