//! Channels: named sets of releases.

use bincode::{Decode, Encode};
use rollcall_ident::{ChannelName, Digest, PackageName, ReleaseIdent, Revision};

use crate::{Map, Stamp};

/// A named set of releases.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Channel {
    /// Its name.
    pub name: ChannelName,
    /// What was promoted into it.
    pub releases: Map<ReleaseIdent, ChannelRelease>,
    /// The revision that changed it last.
    pub modified_revision: Revision,
}

/// A release in a channel.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ChannelRelease {
    /// What the release's digest must be.
    pub digest: Option<Digest>,
    /// When it was promoted.
    pub promoted_at: Stamp,
}

impl Channel {
    /// An empty channel.
    pub(crate) fn new(name: ChannelName, at: Revision) -> Self {
        Self { name, releases: Map::default(), modified_revision: at }
    }

    /// The highest release of `package` in it that `is_good`.
    #[must_use]
    pub fn head(&self, package: &PackageName, is_good: impl Fn(&ReleaseIdent) -> bool) -> Option<&ReleaseIdent> {
        self.releases.keys().filter(|release| release.package() == package && is_good(release)).max()
    }
}
