//! Channels and promotions.

use crate::output::{Page, Tone, View, column, table};
use crate::table::{NONE, short_time};
use crate::view::{At, ChannelView, List, PromotionView};

/// As many digits of a digest as tell releases apart.
const DIGEST_DIGITS: usize = 12;

impl View for List<ChannelView> {
    fn to_table(&self, page: &Page) -> String {
        if self.items.is_empty() {
            return "no channels yet; `rollcall channel create NAME` makes one".to_owned();
        }
        let rows = self.items.iter().flat_map(|channel| {
            let releases = channel.releases.iter().enumerate().map(|(index, release)| {
                let digest =
                    release.digest.as_deref().map_or(NONE, |digest| digest.get(..DIGEST_DIGITS).unwrap_or(digest));
                [
                    column(if index == 0 { channel.name.as_str() } else { "" }, Tone::Plain),
                    column(&release.ident, Tone::Plain),
                    column(digest, Tone::Dim),
                    column(short_time(release.promoted_at.as_deref()), Tone::Dim),
                ]
            });
            let mut rows: Vec<_> = releases.collect();
            if rows.is_empty() {
                rows.push([&channel.name, NONE, NONE, NONE].map(|text| column(text, Tone::Plain)));
            }
            rows
        });
        table(page, ["CHANNEL", "RELEASE", "DIGEST", "PROMOTED (UTC)"], rows)
    }
}

impl View for At<PromotionView> {
    fn to_table(&self, _: &Page) -> String {
        let promotion = &self.item;
        let mut lines = Vec::new();
        for id in &promotion.started_rollout_ids {
            lines.push(format!("started rollout {id}; `rollcall rollout status {id} --watch` shows it"));
        }
        for id in &promotion.stopped_rollout_ids {
            lines.push(format!("halted rollout {id}; `rollcall rollout status {id}` shows how it stands"));
        }
        lines.join("\n")
    }
}
