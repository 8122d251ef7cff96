//! Where things lie in the data folder.
//!
//! ```text
//! data_dir/
//!   lock                      held while an agent runs
//!   identity, identity.copy   the node's UUID
//!   session                   cluster id, epoch, endpoints that were learnt
//!   pkgs/origin/name/version/release/
//!   pkgs/.new/                what is being fetched
//!   svc/service.group/        the folder that hooks run in
//!     journal                 what was done and what is to be done: the truth
//!     current                 the current release, for people and as a second copy
//!     instance, instance.copy the process that runs
//!     config.toml             what hooks are given: the service's `config`
//!     config.c42.toml         the same over configuration c42 of the group
//!     configs/c42.toml        configuration c42 of the group, as the coordinator handed it out
//!     status.toml             written by the service: its role
//!     data/                   the service's own
//!     logs/                   of its hooks and of the service
//! ```

use std::path::{Path, PathBuf};

use rollcall_ident::GroupName;

use super::{DiskError, create_dir, remove_temporaries};

/// The data folder.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Creates what is missing, and removes what interrupted writes left.
    ///
    /// # Errors
    /// [`DiskError`] where the folder can't be used.
    pub fn prepare(root: &Path) -> Result<Self, DiskError> {
        create_dir(root)?;
        let root = std::path::absolute(root).map_err(DiskError::new("resolve", root))?;
        let layout = Self { root };
        create_dir(&layout.packages())?;
        create_dir(&layout.root.join("svc"))?;
        remove_temporaries(&layout.root)?;
        // The journal's own sync doesn't keep the folders above it.
        super::sync_dir(&layout.root)?;
        Ok(layout)
    }

    /// The data folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where releases lie.
    #[must_use]
    pub fn packages(&self) -> PathBuf {
        self.root.join("pkgs")
    }

    /// Where the services lie.
    #[must_use]
    pub fn services(&self) -> PathBuf {
        self.root.join("svc")
    }

    /// Creates what is missing of one service's folder, and removes what interrupted writes left.
    ///
    /// # Errors
    /// [`DiskError`] where it can't be used.
    pub fn prepare_service(&self, group: &GroupName) -> Result<ServiceLayout, DiskError> {
        let layout = ServiceLayout { root: self.services().join(group.as_str()) };
        create_dir(&layout.root.join("data"))?;
        create_dir(&layout.root.join("logs"))?;
        remove_temporaries(&layout.root)?;
        super::sync_dir(&layout.root)?;
        super::sync_dir(&self.services())?;
        Ok(layout)
    }
}

/// One service's folder.
#[derive(Debug, Clone)]
pub struct ServiceLayout {
    root: PathBuf,
}

impl ServiceLayout {
    /// The folder that hooks run in.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    /// The current release, for people and as a second copy.
    #[must_use]
    pub fn current(&self) -> PathBuf {
        self.root.join("current")
    }

    /// The process that runs, and a second copy.
    #[must_use]
    pub fn instance(&self) -> [PathBuf; 2] {
        [self.root.join("instance"), self.root.join("instance.copy")]
    }

    /// Where the service writes its role.
    #[must_use]
    pub fn status(&self) -> PathBuf {
        self.root.join("status.toml")
    }

    /// The service's own folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The log of a hook.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.root.join("logs").join(format!("{name}.log"))
    }
}
