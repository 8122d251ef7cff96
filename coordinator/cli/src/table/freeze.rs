//! Change freezes.

use crate::output::{Page, Tone, View, column, table};
use crate::table::{or_none, short_minute};
use crate::view::{At, FreezeCreatedView, FreezeView, List};

impl View for List<FreezeView> {
    fn to_table(&self, page: &Page) -> String {
        if self.items.is_empty() {
            return "no freezes: `rollcall freeze create` makes one".to_owned();
        }
        let rows = self.items.iter().map(|freeze| {
            let groups = if freeze.groups.is_empty() { "all".to_owned() } else { freeze.groups.join("\n") };
            let until = freeze.until_at.as_deref().map_or("lifted".to_owned(), |until| short_minute(Some(until)));
            let said = [freeze.by.as_deref(), freeze.reason.as_deref()];
            let said: Vec<_> = said.into_iter().flatten().collect();
            [
                column(&freeze.freeze_id, Tone::Plain),
                column(groups, Tone::Plain),
                column(short_minute(freeze.from_at.as_deref()), Tone::Plain),
                column(until, Tone::Plain),
                column(or_none(Some(said.join(": ").as_str()).filter(|said| !said.is_empty())), Tone::Plain),
            ]
        });
        table(page, ["FREEZE", "GROUPS", "FROM (UTC)", "UNTIL (UTC)", "BY"], rows)
    }
}

impl View for At<FreezeCreatedView> {
    fn to_table(&self, _: &Page) -> String {
        let id = &self.item.freeze_id;
        format!("freeze {id} made at revision {}; `rollcall freeze lift {id}` ends it", self.revision)
    }
}
