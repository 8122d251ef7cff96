//! A release that lies on this node's disk, checked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rollcall_ident::ReleaseIdent;
use rollcall_steps::Hook;

use super::{FetchError, Manifest};

/// What hooks are given as their configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookConfig {
    /// The file.
    pub file: PathBuf,
    /// What is in it.
    pub table: toml::Table,
}

/// A checked release.
#[derive(Debug, Clone)]
pub struct Release {
    /// Which one it is, with the configuration of the group that goes with it.
    pub ident: ReleaseIdent,
    /// What its hooks are given.
    pub config: HookConfig,
    /// What it says about itself.
    pub manifest: Manifest,
    /// Where it lies.
    pub path: PathBuf,
}

impl Release {
    /// Reads and checks the release in `folder`.
    ///
    /// # Errors
    /// [`FetchError`] names what is wrong.
    pub fn load(folder: &Path, ident: &ReleaseIdent) -> Result<Self, FetchError> {
        let manifest = Manifest::load(folder, ident)?;
        let config = HookConfig::default();
        let release = Self { ident: ident.clone(), config, manifest, path: folder.to_owned() };
        for hook in Hook::ALL {
            let Some(path) = release.hook(hook) else { continue };
            let metadata = fs::metadata(&path).map_err(FetchError::io(&path))?;
            if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
                return Err(FetchError::HookNotExecutable { ident: ident.clone(), hook: hook.name() });
            }
        }
        Ok(release)
    }

    /// The file of a hook; none: the release hasn't got it.
    #[must_use]
    pub fn hook(&self, hook: Hook) -> Option<PathBuf> {
        let path = self.path.join("hooks").join(hook.name());
        path.exists().then_some(path)
    }

    /// The release alone, as its package says.
    #[must_use]
    pub fn package_ident(&self) -> &ReleaseIdent {
        &self.manifest.ident
    }
}
