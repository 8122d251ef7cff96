//! Maintenance windows and change freezes.

use rollcall_ident::{FreezeId, GroupName, Revision, WallTime, WindowId};

use super::Transition;
use crate::schedule::{Closed, Freeze, Window, covering, in_words, openness};
use crate::state::AlarmKey;
use crate::{Event, Rejection, Reply};

impl Transition<'_> {
    pub(super) fn add_window(&mut self, name: &GroupName, window: &Window) -> Result<Reply, Rejection> {
        let group = self.state.groups.get(name).ok_or_else(|| Rejection::UnknownGroup(name.clone()))?;
        self.expect_unchanged_since(group.modified_revision)?;
        window.validate().map_err(|(field, problem)| invalid(name, field, problem))?;
        if let Some((id, _)) = group.windows.iter().find(|(_, known)| *known == window) {
            return Err(Rejection::AlreadySo(format!("window {id} of {name} is {window}")));
        }
        let id = self.put_window(name, window.clone());
        self.look_at_openness(name);
        Ok(Reply::WindowAdded(id))
    }

    pub(super) fn remove_window(&mut self, name: &GroupName, id: WindowId) -> Result<Reply, Rejection> {
        let group = self.state.groups.get(name).ok_or_else(|| Rejection::UnknownGroup(name.clone()))?;
        self.expect_unchanged_since(group.modified_revision)?;
        if !group.windows.contains_key(&id) {
            return Err(Rejection::UnknownWindow { group: name.clone(), window: id });
        }
        self.drop_window(name, id);
        self.look_at_openness(name);
        Ok(Reply::Done)
    }

    /// The group file names all windows: what is new is added, what it doesn't name goes, the others keep their ids.
    pub(super) fn replace_windows(&mut self, name: &GroupName, windows: &[Window]) -> Result<(), Rejection> {
        for (i, window) in windows.iter().enumerate() {
            window.validate().map_err(|(field, problem)| invalid(name, field, problem))?;
            if windows.iter().take(i).any(|earlier| earlier == window) {
                return Err(invalid(name, "days", format!("{window} stands there twice")));
            }
        }
        let Some(group) = self.state.groups.get(name) else { return Ok(()) };
        let gone: Vec<WindowId> =
            group.windows.iter().filter(|(_, known)| !windows.contains(known)).map(|(id, _)| *id).collect();
        let known: Vec<Window> = group.windows.values().cloned().collect();
        gone.into_iter().for_each(|id| self.drop_window(name, id));
        for window in windows.iter().filter(|window| !known.contains(window)) {
            self.put_window(name, window.clone());
        }
        Ok(())
    }

    fn put_window(&mut self, name: &GroupName, window: Window) -> WindowId {
        let revision = self.revision;
        let group = self.state.groups.get_mut(name).expect("the caller looked it up");
        group.windows_made += 1;
        let id = WindowId(group.windows_made);
        group.windows.insert(id, window);
        group.modified_revision = revision;
        self.emit(Event::WindowAdded { group: name.clone(), window: id });
        id
    }

    fn drop_window(&mut self, name: &GroupName, id: WindowId) {
        let revision = self.revision;
        let group = self.state.groups.get_mut(name).expect("the caller looked it up");
        group.windows.remove(&id);
        group.modified_revision = revision;
        self.emit(Event::WindowRemoved { group: name.clone(), window: id });
    }

    pub(super) fn create_freeze(
        &mut self,
        groups: &[GroupName],
        from: Option<WallTime>,
        until: Option<WallTime>,
    ) -> Result<Reply, Rejection> {
        if let Some(unknown) = groups.iter().find(|group| !self.state.groups.contains_key(group)) {
            return Err(Rejection::UnknownGroup(unknown.clone()));
        }
        let from = from.unwrap_or(self.now.wall_time);
        if let Some(until) = until.filter(|until| *until <= from) {
            let problem = format!("{} isn't after its beginning, {}", in_words(until), in_words(from));
            return Err(Rejection::InvalidTime { field: "until".to_owned(), problem });
        }
        self.expect_future("until", until)?;
        self.forget_freezes();
        let id = FreezeId(self.revision.0);
        let (by, reason) = (self.actor.clone(), self.reason.map(str::to_owned));
        let freeze =
            Freeze { id, groups: groups.iter().cloned().collect(), from, until, by, reason, made_at: self.now };
        self.state.freezes.insert(id, freeze.clone());
        self.emit(Event::FreezeCreated { freeze: id });
        self.look_at_covered(&freeze);
        Ok(Reply::FreezeCreated(id))
    }

    pub(super) fn lift_freeze(&mut self, id: FreezeId) -> Result<Reply, Rejection> {
        // A freeze never changes: its id is the revision that made it.
        self.expect_unchanged_since(Revision(id.0))?;
        let freeze = self.state.freezes.remove(&id).ok_or(Rejection::UnknownFreeze(id))?;
        self.emit(Event::FreezeLifted { freeze: id });
        self.look_at_covered(&freeze);
        Ok(Reply::Done)
    }

    /// Those that are over.
    fn forget_freezes(&mut self) {
        let now = self.now.wall_time;
        let over: Vec<FreezeId> = self
            .state
            .freezes
            .values()
            .filter(|freeze| freeze.until.is_some_and(|until| until <= now))
            .map(|it| it.id)
            .collect();
        for id in over {
            self.state.freezes.remove(&id);
        }
    }

    fn look_at_covered(&mut self, freeze: &Freeze) {
        let groups: Vec<GroupName> = self.state.groups.keys().filter(|group| freeze.covers(group)).cloned().collect();
        for group in groups {
            self.look_at_openness(&group);
        }
    }

    /// Whether a group with an active rollout may be disturbed now, and when to look again. A step that hasn't passed
    /// its commit point when a window closes, goes back.
    pub(super) fn look_at_openness(&mut self, name: &GroupName) {
        let now = self.now;
        let Some(group) = self.state.groups.get(name) else { return };
        let Some(rollout) = group.active_rollout else { return };
        let found = openness(group.windows.values(), covering(&self.state.freezes, name), now.wall_time);
        let (was_open, is_open) = (group.closed.is_none(), found.closed.is_none());
        self.state.alarms.put(AlarmKey::Openness(name.clone()), found.next_edge);
        self.touch(name);
        let Some(group) = self.state.groups.get_mut(name) else { return };
        group.closed.clone_from(&found.closed);
        match found.closed {
            Some(closed) if was_open => {
                let why = match closed {
                    Closed::OutsideWindow { .. } => "no window is open".to_owned(),
                    Closed::Frozen { freeze, .. } => format!("freeze {freeze}"),
                };
                self.emit(Event::GroupClosed { group: name.clone(), why });
                self.turn_back_uncommitted(rollout);
            }
            None if !was_open => {
                self.emit(Event::GroupOpened { group: name.clone() });
                if let Some(rollout) = self.state.rollouts.get_mut(&rollout).filter(|_| is_open) {
                    rollout.progress_at = now;
                }
            }
            _ => {}
        }
    }
}

fn invalid(group: &GroupName, field: &str, problem: String) -> Rejection {
    Rejection::InvalidGroup { group: group.clone(), field: format!("window.{field}"), problem }
}
