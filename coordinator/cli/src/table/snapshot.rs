//! A snapshot's file, and what is made of one.

use crate::output::{Page, Tone, View, key_values};
use crate::table::{or_none, short_time};
use crate::view::{RefoundedView, SavedSnapshotView, SnapshotView};

impl View for SnapshotView {
    fn to_table(&self, page: &Page) -> String {
        key_values(
            page,
            [
                ("file", self.file.clone()),
                ("whole", Tone::Good.paint(&format!("yes: {} bytes, checksums are right", self.bytes))),
                ("cluster", or_none(self.cluster_id.as_deref()).to_owned()),
                ("covers", format!("up to revision {} (term {})", self.revision, self.term)),
                ("as of", format!("{} (feature level {})", short_time(self.now_at.as_deref()), self.feature_level)),
                ("voters", self.voter_peer_ids.join(", ")),
                ("learners", self.learner_peer_ids.join(", ")),
                ("state", self.counts_text()),
                ("history", self.history_text()),
                ("audit chain", self.audit_text()),
                ("begins at", self.audit.anchor_hash.clone().unwrap_or_default()),
                ("ends at", self.audit.head_hash.clone()),
            ],
        )
    }
}

impl SnapshotView {
    fn counts_text(&self) -> String {
        let counts = &self.counts;
        let parts = [
            (counts.peers, "peers"),
            (counts.groups, "groups"),
            (counts.nodes, "nodes"),
            (counts.channels, "channels"),
            (counts.rollouts, "rollouts"),
            (counts.tokens, "tokens"),
        ];
        parts.map(|(count, what)| format!("{count} {what}")).join(", ")
    }

    fn history_text(&self) -> String {
        let history = &self.history;
        match history.first_revision.zip(history.last_revision) {
            Some((first, last)) => format!("{} records, from revision {first} to {last}", history.record_count),
            None => format!("no records after revision {}", history.floor_revision),
        }
    }

    fn audit_text(&self) -> String {
        let audit = &self.audit;
        match (audit.anchor_revision, audit.broken_revision) {
            (Some(anchor), _) => {
                Tone::Good.paint(&format!("whole, after revision {anchor} up to {}", audit.head_revision))
            }
            (None, Some(broken)) => Tone::Bad.paint(&format!("broken: revision {broken} isn't what was chained")),
            (None, None) => Tone::Bad.paint("broken"),
        }
    }
}

impl View for SavedSnapshotView {
    fn to_table(&self, page: &Page) -> String {
        key_values(
            page,
            [
                ("saved", self.file.clone()),
                ("bytes", self.bytes.to_string()),
                ("covers", format!("up to revision {}", self.revision)),
                ("cluster", self.cluster_id.clone()),
                ("from", format!("peer {}", self.peer_id)),
            ],
        )
    }
}

impl View for RefoundedView {
    fn to_table(&self, page: &Page) -> String {
        let mut lines = vec![
            ("new cluster", self.cluster_id.clone()),
            ("its only peer", format!("{} at {}", self.peer_id, or_none(self.address.as_deref()))),
            ("data", self.data_dir.clone()),
            ("goes on from", self.former_cluster_id.clone()),
            ("kept", format!("all up to revision {} (term {})", self.former_revision, self.former_term)),
            ("begins at", format!("revision {}", self.revision)),
            (
                "given up",
                or_none(Some(self.given_up_peer_ids.join(", ").as_str()).filter(|it| !it.is_empty())).to_owned(),
            ),
        ];
        if let Some(files) = &self.former_files {
            lines.push(("files before", files.clone()));
        }
        lines.push(("frozen", format!("all groups: `rollcall freeze lift {}` once you have looked", self.freeze_id)));
        lines.push(("next", "start the peer, then `rollcall cluster add-peer` for each other, empty one".to_owned()));
        key_values(page, lines)
    }
}
