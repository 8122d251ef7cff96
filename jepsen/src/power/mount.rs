//! A disk as a FUSE file system, with a power switch.
//!
//! A power cut has two steps. [`PoweredDisk::silence`]: from here on nothing is answered, so that nobody is told of
//! anything that comes later; whoever asks hangs. Then the machine's processes are killed. [`PoweredDisk::lose`]: only now
//! what was not synced is lost. A disk that went on answering would promise things that it doesn't keep, and would
//! accuse a correct program.
//!
//! Locks (flock, fcntl) and memory maps are the kernel's own, as no other machine shares the disk.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use fuser::{BackgroundSession, Config, MountOption, SessionACL};

use crate::power::ailment::Ailment;
use crate::power::disk::{Attributes, Body, Disk, Durability, Kept, Loss, ROOT};
use crate::power::files::Files;

/// A disk and where it is mounted.
#[derive(Debug)]
pub struct PoweredDisk {
    switched: Arc<Switched>,
    place: PathBuf,
    session: Option<BackgroundSession>,
}

/// Whether the disk answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    Silent,
    Off,
}

/// The disk behind its power switch.
#[derive(Debug)]
pub(crate) struct Switched {
    state: Mutex<(Power, Disk)>,
    changed: Condvar,
    /// What it refuses.
    pub(crate) ailment: Ailment,
}

impl Switched {
    /// The disk while it has power. Hangs while it is silent; `None` once everybody who could ask is dead.
    pub(crate) fn powered(&self) -> Option<PoweredGuard<'_>> {
        let mut state = self.lock();
        while state.0 == Power::Silent {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        (state.0 == Power::On).then(|| PoweredGuard(state))
    }

    fn lock(&self) -> MutexGuard<'_, (Power, Disk)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn switch(&self, power: Power) {
        self.lock().0 = power;
        self.changed.notify_all();
    }
}

/// The disk, while nobody switches it off.
#[derive(Debug)]
pub(crate) struct PoweredGuard<'a>(MutexGuard<'a, (Power, Disk)>);

impl std::ops::Deref for PoweredGuard<'_> {
    type Target = Disk;

    fn deref(&self) -> &Disk {
        &self.0.1
    }
}

impl std::ops::DerefMut for PoweredGuard<'_> {
    fn deref_mut(&mut self) -> &mut Disk {
        &mut self.0.1
    }
}

impl PoweredDisk {
    /// An empty disk for the folder `place`; it isn't mounted yet.
    pub fn new(place: PathBuf, durability: Durability) -> Self {
        let disk = Disk::new(durability, SystemTime::now());
        let switched = Arc::new(Switched {
            state: Mutex::new((Power::Off, disk)),
            changed: Condvar::new(),
            ailment: Ailment::default(),
        });
        Self { switched, place, session: None }
    }

    /// Where it is mounted.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// What it refuses, and how often it did.
    pub fn ailment(&self) -> &Ailment {
        &self.switched.ailment
    }

    /// A folder in its root that has been there, synced, since long ago.
    pub fn lay_folder(&self, name: &str) -> Result<()> {
        let at = SystemTime::now();
        let attributes = Attributes { mode: 0o755, uid: 0, gid: 0, read_at: at, written_at: at, changed_at: at };
        let mut state = self.switched.lock();
        let made = state.1.create((ROOT, name.into()), Body::Folder(Kept::default()), attributes);
        made.and_then(|_| state.1.sync(ROOT)).map_err(|refusal| anyhow!("{name}: {refusal:?}"))
    }

    /// Mounts it, with what is on it. An error where the machine can't: it needs root and `/dev/fuse`.
    pub fn power_on(&mut self) -> Result<()> {
        if self.session.is_some() {
            bail!("the disk at {} has power already", self.place.display());
        }
        std::fs::create_dir_all(&self.place)?;
        self.switched.switch(Power::On);
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName("rollcall-power".into()), MountOption::DefaultPermissions, MountOption::NoAtime];
        config.acl = SessionACL::All;
        let session = fuser::spawn_mount(Files::new(self.switched.clone()), &self.place, &config);
        self.session = Some(session.with_context(|| {
            format!("can't mount a FUSE file system at {} (this needs root and /dev/fuse)", self.place.display())
        })?);
        Ok(())
    }

    /// Stops to answer: every call that reaches the disk hangs from here on.
    pub fn silence(&self) {
        self.switched.switch(Power::Silent);
    }

    /// Loses what was not synced. Only after all processes that used it were sent a SIGKILL: it ends the calls that they
    /// hang in, with an error that nobody lives to see.
    pub fn lose(&self) -> Loss {
        let loss = {
            let mut state = self.switched.lock();
            state.0 = Power::Off;
            state.1.cut()
        };
        self.switched.changed.notify_all();
        loss
    }

    /// Some of what waits for a sync gets to the disk by itself, by `is_written` for each sector; how many bytes that were.
    pub fn write_back(&self, is_written: impl FnMut() -> bool) -> usize {
        self.switched.lock().1.write_back(is_written)
    }

    /// Unmounts, once nobody uses it any more. The kernel's cache of it goes too.
    pub fn unmount(&mut self) -> Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let unmounted = session.umount_and_join();
        unmounted.with_context(|| format!("can't unmount {}", self.place.display()))
    }
}

impl Drop for PoweredDisk {
    fn drop(&mut self) {
        self.switched.switch(Power::Off);
        if let Err(error) = self.unmount() {
            eprintln!("{error:#}");
        }
    }
}
