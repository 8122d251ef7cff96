//! What every part of a service knows and nobody changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::chown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rollcall_ident::{BootId, Fence, GroupName, Millis, NodeId, NodeName, ReleaseIdent};
use rollcall_steps::{Hook, RunToken};
use tokio::sync::watch;

use super::Configs;
use crate::disk::ServiceLayout;
use crate::hooks::{HookEnvironment, HookReason, HookRun, StepFacts};
use crate::metrics::Metrics;
use crate::package::{FetchError, PackageStore, Release, Source};
use crate::session::Outbox;

/// What all services of a node share.
#[derive(Debug)]
pub struct NodeContext {
    /// The node's name.
    pub name: NodeName,
    /// The node's identity.
    pub node_id: NodeId,
    /// Machine id, device and inode of the identity, hashed.
    pub identity_locus: String,
    /// The machine.
    pub machine_id: String,
    /// The peer that its config names as running on it.
    pub hosts_peer: Option<String>,
    /// Of this boot.
    pub boot_id: BootId,
    /// Free labels.
    pub labels: BTreeMap<String, String>,
    /// What reboots the machine.
    pub reboot_command: Vec<String>,
    /// A machine that is still there so long after it is asked again.
    pub reboot_patience: Millis,
    /// What waits to be reported.
    pub outbox: Outbox,
    /// The highest fence that this node has seen.
    pub fence: FenceFloor,
    /// Whether the data folder is taken for this node's. One that lay elsewhere before was copied, moved or restored: until
    /// the cluster has given it orders nothing is started or ended from it.
    pub is_confirmed: watch::Sender<bool>,
    /// BOUND: one fetch at a time, so that a node isn't busy with copies alone.
    pub fetching: tokio::sync::Mutex<()>,
    /// The releases that each service runs or ran before: services may share a package.
    pub in_use: Mutex<BTreeMap<GroupName, Vec<ReleaseIdent>>>,
    /// Counters.
    pub metrics: Metrics,
}

impl NodeContext {
    /// Completes once the data folder is taken for this node's.
    pub async fn confirmed(&self) {
        let mut is_confirmed = self.is_confirmed.subscribe();
        if is_confirmed.wait_for(|confirmed| *confirmed).await.is_err() {
            // The agent is going down.
            std::future::pending::<()>().await;
        }
    }

    /// What a service runs, and ran before.
    pub fn note_in_use(&self, group: &GroupName, releases: Vec<ReleaseIdent>) {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner).insert(group.clone(), releases);
    }

    /// Releases, without configurations, that other services than `group` need.
    #[must_use]
    pub fn in_use_elsewhere(&self, group: &GroupName) -> BTreeSet<ReleaseIdent> {
        let in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        in_use
            .iter()
            .filter(|(other, _)| *other != group)
            .flat_map(|(_, releases)| releases)
            .map(ReleaseIdent::bare)
            .collect()
    }
}

/// The highest fence that this node has seen, over all its services.
#[derive(Debug, Default)]
pub struct FenceFloor(Mutex<Fences>);

#[derive(Debug, Default, Clone, Copy)]
struct Fences {
    highest: Fence,
    lost: Fence,
}

impl FenceFloor {
    /// With what the journals say, and what the cluster was heard to say.
    #[must_use]
    pub fn new(journalled: Fence, heard: Fence) -> Self {
        let floor = Self(Mutex::new(Fences { highest: journalled, lost: Fence::default() }));
        floor.hear(heard);
        floor
    }

    fn lock(&self) -> MutexGuard<'_, Fences> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The highest so far.
    #[must_use]
    pub fn get(&self) -> Fence {
        self.lock().highest
    }

    /// Up to this fence the node has had steps that its journals don't know any more. Zero: nothing is missing.
    #[must_use]
    pub fn lost(&self) -> Fence {
        self.lock().lost
    }

    /// A fence that was just made durable.
    pub fn raise(&self, fence: Fence) {
        let mut fences = self.lock();
        fences.highest = fence.max(fences.highest);
    }

    /// The cluster knows the node by this fence. Whether that is above all that the node knows of: its journals are older
    /// than that, or were lost.
    pub fn hear(&self, fence: Fence) -> bool {
        let mut fences = self.lock();
        let is_above = fence > fences.highest;
        if is_above {
            *fences = Fences { highest: fence, lost: fence };
        }
        is_above
    }
}

/// What the parts of one service share.
#[derive(Debug)]
pub struct ServiceContext {
    /// The node.
    pub node: Arc<NodeContext>,
    /// The service's group.
    pub group: GroupName,
    /// Its folder.
    pub layout: ServiceLayout,
    /// Releases on the disk.
    pub store: PackageStore,
    /// Where others come from.
    pub source: Source,
    /// What hooks are given.
    pub configs: Configs,
    /// How often health is looked at while nothing happens.
    pub health_check_interval: Millis,
}

impl ServiceContext {
    /// A release that lies here, with the configuration that goes with it.
    ///
    /// # Errors
    /// [`FetchError`] names which of both is missing, or broken.
    pub fn load(&self, ident: &ReleaseIdent) -> Result<Release, FetchError> {
        let release = self.store.load(ident)?;
        Ok(Release { config: self.configs.load(ident)?, ..release })
    }

    /// What a hook of `release` sees.
    #[must_use]
    pub fn environment(&self, release: &Release, reason: HookReason, step: Option<StepFacts>) -> HookEnvironment {
        HookEnvironment {
            group: self.group.clone(),
            node: self.node.name.clone(),
            data_dir: self.layout.data(),
            config: release.config.clone(),
            status_file: self.layout.status(),
            package_path: release.path.clone(),
            release: release.package_ident().to_string(),
            reason,
            step,
        }
    }

    /// A run of a hook; none: the release hasn't got it.
    #[must_use]
    pub fn hook_run(
        &self,
        release: &Release,
        hook: Hook,
        reason: HookReason,
        step: Option<StepFacts>,
        token: RunToken,
    ) -> Option<HookRun> {
        Some(HookRun {
            hook,
            path: release.hook(hook)?,
            folder: self.layout.root().to_owned(),
            environment: self.environment(release, reason, step),
            timeout: release.manifest.timeout(hook),
            user: self.user_for(release, hook),
            log: self.layout.log(hook.name()),
            token,
        })
    }

    /// Whom a hook runs as: what prepares the machine as the agent's user, what belongs to the service as the service's.
    ///
    /// # Errors
    /// There is no such user.
    pub fn user_for(&self, release: &Release, hook: Hook) -> Result<Option<(u32, u32)>, String> {
        let Some(name) = &release.manifest.service.user else { return Ok(None) };
        match hook {
            Hook::Install | Hook::Uninstall | Hook::Probe => Ok(None),
            Hook::ReadyToUpdate
            | Hook::Drain
            | Hook::Undrain
            | Hook::PreStop
            | Hook::PostStop
            | Hook::Init
            | Hook::Run
            | Hook::PostRun
            | Hook::HealthCheck
            | Hook::Suitability => match nix::unistd::User::from_name(name) {
                Ok(Some(user)) => Ok(Some((user.uid.as_raw(), user.gid.as_raw()))),
                Ok(None) => Err(format!("[service] user = {name:?} in its rollcall.toml: there is no such user here")),
                Err(error) => Err(format!("[service] user = {name:?} in its rollcall.toml: {error}")),
            },
        }
    }
}

impl ServiceContext {
    /// Gives the service's user what the service writes to: its own folder and its status file. Where that can't be done
    /// the hooks will say what they lack.
    pub fn hand_over(&self, release: &Release) {
        let Ok(Some((uid, gid))) = self.user_for(release, Hook::Run) else { return };
        let hand_over = || -> std::io::Result<()> {
            File::options().create(true).append(true).open(self.layout.status())?;
            chown(self.layout.status(), Some(uid), Some(gid))?;
            chown(self.layout.data(), Some(uid), Some(gid))
        };
        if let Err(error) = hand_over() {
            tracing::warn!(group = %self.group, %error, "the service's user doesn't own its folder");
        }
    }
}

/// A fresh mark for one run.
#[must_use]
pub fn new_token() -> RunToken {
    RunToken(*uuid::Uuid::new_v4().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_that_only_the_cluster_knows_is_lost() {
        let floor = FenceFloor::new(Fence(10), Fence(10));
        assert_eq!((floor.get(), floor.lost()), (Fence(10), Fence(0)));
        assert!(!floor.hear(Fence(9)));
        floor.raise(Fence(20));
        assert!(!floor.hear(Fence(20)));
        assert!(floor.hear(Fence(30)) && !floor.hear(Fence(30)));
        floor.raise(Fence(40));
        assert_eq!((floor.get(), floor.lost()), (Fence(40), Fence(30)));
        assert_eq!(FenceFloor::new(Fence(10), Fence(30)).lost(), Fence(30));
    }
}
