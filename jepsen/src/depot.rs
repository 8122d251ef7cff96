//! A folder of releases for the agents' `dir:` source, laid out from templates.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A depot: `origin/name/version/release` below its folder.
#[derive(Debug, Clone)]
pub struct Depot {
    folder: PathBuf,
}

impl Depot {
    /// An empty depot at `folder`.
    pub fn create(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// As the agent's config names it.
    pub fn source(&self) -> String {
        format!("dir:{}", self.folder.display())
    }

    /// Adds a release: the files of each of `layers` in turn, later ones over earlier ones, and `rollcall.toml` with
    /// its ident and whatever else `manifest` says.
    pub fn add(&self, ident: &str, layers: &[&Path], manifest: &str) -> Result<()> {
        let folder = self.folder.join(ident);
        for layer in layers {
            copy_tree(layer, &folder).with_context(|| format!("can't lay {} out", layer.display()))?;
        }
        fs::write(folder.join("rollcall.toml"), format!("ident = \"{ident}\"\n{manifest}"))?;
        Ok(())
    }
}

/// Copies files with their permissions.
fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_layers_lie_over_earlier_ones() {
        let folder = tempfile::tempdir().unwrap();
        let (base, over) = (folder.path().join("base"), folder.path().join("over"));
        fs::create_dir_all(base.join("hooks")).unwrap();
        fs::create_dir_all(&over).unwrap();
        fs::write(base.join("hooks/run"), "run").unwrap();
        fs::write(base.join("conf"), "old").unwrap();
        fs::write(over.join("conf"), "new").unwrap();
        let depot = Depot::create(folder.path().join("depot")).unwrap();
        depot.add("acme/x/1/20260101000000", &[&base, &over], "").unwrap();
        let release = folder.path().join("depot/acme/x/1/20260101000000");
        assert_eq!(fs::read_to_string(release.join("conf")).unwrap(), "new");
        assert_eq!(fs::read_to_string(release.join("hooks/run")).unwrap(), "run");
        assert!(fs::read_to_string(release.join("rollcall.toml")).unwrap().contains("acme/x/1/20260101000000"));
    }
}
