//! Channels and what is in them.

use rollcall_proto::v1;
use serde::Serialize;

use super::common::{cluster_ms, empty_as_none, wall};

/// A named set of releases.
#[derive(Debug, Serialize)]
pub struct ChannelView {
    pub name: String,
    pub releases: Vec<ChannelReleaseView>,
    /// For `--expected-revision`.
    pub modified_revision: u64,
}

/// A release in a channel.
#[derive(Debug, Serialize)]
pub struct ChannelReleaseView {
    pub ident: String,
    pub digest: Option<String>,
    pub promoted_at: Option<String>,
    pub promoted_at_cluster_ms: Option<u64>,
}

impl From<v1::Channel> for ChannelView {
    fn from(channel: v1::Channel) -> Self {
        let releases = channel.releases.into_iter().map(|release| ChannelReleaseView {
            promoted_at: wall(release.promoted_at.as_ref()),
            promoted_at_cluster_ms: cluster_ms(release.promoted_at.as_ref()),
            ident: release.ident,
            digest: empty_as_none(release.digest),
        });
        Self { name: channel.name, releases: releases.collect(), modified_revision: channel.modified_revision }
    }
}

/// What a promotion or demotion brought about.
#[derive(Debug, Serialize)]
pub struct PromotionView {
    pub ident: String,
    /// Others that went the same way, in the same entry.
    pub more_idents: Vec<String>,
    pub channel: String,
    pub started_rollout_ids: Vec<String>,
    pub stopped_rollout_ids: Vec<String>,
}
