//! Channels.

use rollcall_proto::v1;
use rollcall_rollout::Channel;

use super::moment;

/// A channel with its releases, the highest last.
pub fn channel(channel: &Channel) -> v1::Channel {
    let releases = channel.releases.iter().map(|(ident, release)| v1::ChannelRelease {
        ident: ident.to_string(),
        digest: release.digest.map(|digest| digest.to_string()).unwrap_or_default(),
        promoted_at: Some(moment(release.promoted_at)),
    });
    v1::Channel {
        name: channel.name.to_string(),
        releases: releases.collect(),
        modified_revision: channel.modified_revision.0,
    }
}
