//! Channels: promotion and demotion, and what groups that follow make of it.

use rollcall_ident::{ChannelName, Digest, GroupName, ReleaseIdent, RolloutId};

use super::Transition;
use crate::state::{Channel, ChannelRelease, RolloutKind, RolloutStatus, Source};
use crate::{Event, Rejection, Reply, UpdateCondition};

impl Transition<'_> {
    pub(super) fn create_channel(&mut self, channel: &ChannelName) -> Result<Reply, Rejection> {
        if self.state.channels.contains_key(channel) {
            return Err(Rejection::AlreadySo(format!("channel {channel} exists")));
        }
        self.ensure_channel(channel);
        Ok(Reply::Done)
    }

    /// Makes the channel where it isn't there: a group that follows it declares it.
    pub(super) fn ensure_channel(&mut self, channel: &ChannelName) {
        if !self.state.channels.contains_key(channel) {
            self.state.channels.insert(channel.clone(), Channel::new(channel.clone()));
            self.emit(Event::ChannelCreated { channel: channel.clone() });
        }
    }

    pub(super) fn delete_channel(&mut self, channel: &ChannelName) -> Result<Reply, Rejection> {
        if let Some(group) = self.state.groups.values().find(|group| group.channel.as_ref() == Some(channel)) {
            return Err(Rejection::ChannelInUse { channel: channel.clone(), group: group.name.clone() });
        }
        if self.state.channels.remove(channel).is_none() {
            return Err(Rejection::UnknownChannel(channel.clone()));
        }
        self.emit(Event::ChannelDeleted { channel: channel.clone() });
        Ok(Reply::Done)
    }

    pub(super) fn promote(
        &mut self,
        release: &ReleaseIdent,
        channel: &ChannelName,
        digest: Option<Digest>,
    ) -> Result<Reply, Rejection> {
        let digest = self.agreed_digest(release, digest)?;
        let promoted_at = self.now;
        let found = self.state.channels.get_mut(channel).ok_or_else(|| Rejection::UnknownChannel(channel.clone()))?;
        if found.releases.contains_key(release) {
            return Err(Rejection::AlreadySo(format!("{release} is in channel {channel}")));
        }
        found.releases.insert(release.clone(), ChannelRelease { digest, promoted_at });
        self.emit(Event::ReleasePromoted { release: release.clone(), channel: channel.clone(), digest });
        let mut started = Vec::new();
        for group in self.followers(channel, release) {
            started.extend(self.follow_channel(&group, Some(release))?);
        }
        Ok(Reply::Promoted(started))
    }

    pub(super) fn demote(&mut self, release: &ReleaseIdent, channel: &ChannelName) -> Result<Reply, Rejection> {
        let found = self.state.channels.get_mut(channel).ok_or_else(|| Rejection::UnknownChannel(channel.clone()))?;
        if found.releases.remove(release).is_none() {
            return Err(Rejection::NotInChannel { release: release.clone(), channel: channel.clone() });
        }
        self.emit(Event::ReleaseDemoted { release: release.clone(), channel: channel.clone() });
        let mut stopped = Vec::new();
        for group in self.followers(channel, release) {
            // The target's own membership counts, not the head alone.
            match self.state.active_rollout(&group).map(|rollout| (rollout.id, rollout.target == *release)) {
                Some((rollout, true)) => {
                    self.end_rollout(
                        rollout,
                        RolloutStatus::Stopped,
                        format!("{release} was demoted out of {channel}"),
                    );
                    stopped.push(rollout);
                }
                Some((_, false)) => {}
                None => {
                    self.follow_channel(&group, None)?;
                }
            }
        }
        Ok(Reply::Demoted(stopped))
    }

    /// Starts the rollout that the group's channel asks for now, if any. A target whose rollout was stopped isn't
    /// started again by itself, only where it has just been `promoted` anew.
    pub(super) fn follow_channel(
        &mut self,
        group: &GroupName,
        promoted: Option<&ReleaseIdent>,
    ) -> Result<Option<RolloutId>, Rejection> {
        let Some(found) = self.state.groups.get(group).filter(|group| group.policy.auto_start) else { return Ok(None) };
        let Some(channel) = found.channel.clone() else { return Ok(None) };
        let Some(head) = self.state.channels.get(&channel).and_then(|channel| channel.head(&found.package)).cloned()
        else {
            return Ok(None);
        };
        let wanted = match (&found.target, found.update_condition) {
            (None, _) => true,
            (Some(target), _) if head == *target => {
                promoted == Some(target) && !found.settled && found.active_rollout.is_none()
            }
            (Some(target), UpdateCondition::Latest) => head > *target,
            (Some(_), UpdateCondition::TrackChannel) => true,
        };
        if !wanted {
            return Ok(None);
        }
        let kind = match &found.target {
            Some(target) if head < *target => RolloutKind::Rollback,
            _ => RolloutKind::Update,
        };
        self.start_rollout(group, &head, None, kind, Source::Channel(channel)).map(Some)
    }

    /// Groups that follow `channel` with the package of `release`.
    fn followers(&self, channel: &ChannelName, release: &ReleaseIdent) -> Vec<GroupName> {
        self.state
            .groups
            .values()
            .filter(|group| group.channel.as_ref() == Some(channel) && group.package == *release.package())
            .map(|group| group.name.clone())
            .collect()
    }

    /// The digest that the release must have: the given one, or what a channel has on record. They must agree.
    pub(super) fn agreed_digest(
        &self,
        release: &ReleaseIdent,
        given: Option<Digest>,
    ) -> Result<Option<Digest>, Rejection> {
        let known = self
            .state
            .channels
            .values()
            .find_map(|channel| channel.releases.get(release).and_then(|found| found.digest));
        match (known, given) {
            (Some(known), Some(given)) if known != given => Err(Rejection::DigestDiffers {
                release: release.clone(),
                known: known.to_string(),
                given: given.to_string(),
            }),
            (known, given) => Ok(given.or(known)),
        }
    }
}
