//! Channels: promotion and demotion, and what groups that follow make of it.

use rollcall_ident::{ChannelName, Digest, GroupName, ReleaseIdent, RolloutId};

use super::Transition;
use crate::policy::OnDemote;
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
            self.state.channels.insert(channel.clone(), Channel::new(channel.clone(), self.revision));
            self.emit(Event::ChannelCreated { channel: channel.clone() });
        }
    }

    pub(super) fn delete_channel(&mut self, channel: &ChannelName) -> Result<Reply, Rejection> {
        if let Some(group) = self.state.groups.values().find(|group| group.channel.as_ref() == Some(channel)) {
            return Err(Rejection::ChannelInUse { channel: channel.clone(), group: group.name.clone() });
        }
        self.expect_channel(channel)?;
        self.state.channels.remove(channel);
        self.emit(Event::ChannelDeleted { channel: channel.clone() });
        Ok(Reply::Done)
    }

    /// The channel is there, and as the caller saw it.
    fn expect_channel(&self, channel: &ChannelName) -> Result<(), Rejection> {
        let found = self.state.channels.get(channel).ok_or_else(|| Rejection::UnknownChannel(channel.clone()))?;
        self.expect_unchanged_since(found.modified_revision)
    }

    pub(super) fn promote(
        &mut self,
        releases: &[(ReleaseIdent, Option<Digest>)],
        channel: &ChannelName,
    ) -> Result<Reply, Rejection> {
        self.expect_channel(channel)?;
        let (promoted_at, revision) = (self.now, self.revision);
        for (release, digest) in releases {
            let digest = self.agreed_digest(release, *digest)?;
            let Some(found) = self.state.channels.get_mut(channel) else { continue };
            found.modified_revision = revision;
            if found.releases.contains_key(release) {
                return Err(Rejection::AlreadySo(format!("{release} is in channel {channel}")));
            }
            found.releases.insert(release.clone(), ChannelRelease { digest, promoted_at });
            self.emit(Event::ReleasePromoted { release: release.clone(), channel: channel.clone(), digest });
        }
        let releases: Vec<ReleaseIdent> = releases.iter().map(|(release, _)| release.clone()).collect();
        let followers = self.followers(channel, &releases);
        Ok(Reply::Promoted(followers.iter().filter_map(|group| self.follow_channel(group, &releases)).collect()))
    }

    pub(super) fn demote(&mut self, releases: &[ReleaseIdent], channel: &ChannelName) -> Result<Reply, Rejection> {
        self.expect_channel(channel)?;
        let revision = self.revision;
        for release in releases {
            let Some(found) = self.state.channels.get_mut(channel) else { continue };
            found.modified_revision = revision;
            if found.releases.remove(release).is_none() {
                return Err(Rejection::NotInChannel { release: release.clone(), channel: channel.clone() });
            }
            self.emit(Event::ReleaseDemoted { release: release.clone(), channel: channel.clone() });
        }
        let mut ended = Vec::new();
        for group in self.followers(channel, releases) {
            // The target's own membership counts, not the head alone.
            match self.state.active_rollout(&group) {
                Some(rollout) if releases.contains(&rollout.target.bare()) && rollout.going_back.is_none() => {
                    let (id, target) = (rollout.id, rollout.target.clone());
                    self.heed_demotion(id, format!("{target} was demoted out of {channel}"));
                    ended.push(id);
                }
                Some(_) => {}
                None => {
                    self.follow_channel(&group, &[]);
                }
            }
        }
        Ok(Reply::Demoted(ended))
    }

    /// What the demotion of its target does to a rollout, as the policy says.
    fn heed_demotion(&mut self, id: RolloutId, why: String) {
        let has_begun = self.state.rollouts.get(&id).is_some_and(|it| it.status != RolloutStatus::AwaitingApproval);
        match self.policy_of(id).on_demote {
            OnDemote::Rollback if has_begun => {
                if self.go_back(id, why.clone()).is_err() {
                    // Nodes that run it can't go back: they stay as they are.
                    self.end_rollout(id, RolloutStatus::Stopped, why);
                }
            }
            OnDemote::Rollback | OnDemote::Stop => self.end_rollout(id, RolloutStatus::Stopped, why),
        }
    }

    /// Starts the rollout that the group's channel asks for now, if any. A target whose rollout was stopped isn't
    /// started again by itself, only where it has just been `promoted` anew. A start that is refused is told, and
    /// changes nothing for whoever moved the channel.
    pub(super) fn follow_channel(&mut self, group: &GroupName, promoted: &[ReleaseIdent]) -> Option<RolloutId> {
        let found = self.state.groups.get(group).filter(|group| group.policy.auto_start)?;
        let channel = found.channel.clone()?;
        let is_good = |release: &ReleaseIdent| {
            self.state.quarantined(release).is_none()
                && self.state.quarantined(&release.with_config(found.config)).is_none()
        };
        let head = self.state.channels.get(&channel)?.head(&found.package, is_good)?.clone();
        // Channels hold releases alone; the group's configuration comes with its target.
        let target = found.target.as_ref().map(ReleaseIdent::bare);
        let wanted = match (&target, found.update_condition) {
            (None, _) => true,
            (Some(target), _) if head == *target => {
                promoted.contains(target) && !found.settled && found.active_rollout.is_none()
            }
            (Some(target), UpdateCondition::Latest) => head > *target,
            (Some(_), UpdateCondition::TrackChannel) => true,
        };
        let is_declined =
            found.declined.as_ref().is_some_and(|declined| declined.bare() == head) && !promoted.contains(&head);
        if !wanted || is_declined {
            return None;
        }
        let kind = match &target {
            Some(target) if head < *target => RolloutKind::Rollback,
            _ => RolloutKind::Update,
        };
        let head = head.with_config(found.config);
        match self.start_rollout(group, &head, None, kind, Source::Channel(channel)) {
            Ok(id) => Some(id),
            Err(refusal) => {
                self.emit_not_started(group, head, &refusal);
                None
            }
        }
    }

    /// What would have started by itself and was refused is told.
    pub(super) fn emit_not_started(&mut self, group: &GroupName, target: ReleaseIdent, refusal: &Rejection) {
        let (reason, detail) = (refusal.name().to_owned(), refusal.to_string());
        self.emit(Event::RolloutNotStarted { group: group.clone(), target, reason, detail });
    }

    /// Groups that follow `channel` with the package of one of `releases`.
    fn followers(&self, channel: &ChannelName, releases: &[ReleaseIdent]) -> Vec<GroupName> {
        self.state
            .groups
            .values()
            .filter(|group| group.channel.as_ref() == Some(channel))
            .filter(|group| releases.iter().any(|release| group.package == *release.package()))
            .map(|group| group.name.clone())
            .collect()
    }

    /// The digest that the release must have: the given one, or what a channel has on record. They must agree.
    pub(super) fn agreed_digest(
        &self,
        release: &ReleaseIdent,
        given: Option<Digest>,
    ) -> Result<Option<Digest>, Rejection> {
        let known = self.state.recorded_digest(release);
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
