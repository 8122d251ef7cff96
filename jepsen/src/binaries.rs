//! Where the released binaries are.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The three programs of the product.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// `rollcall-coordinator`: a peer.
    pub coordinator: PathBuf,
    /// `rollcall-node`: an agent.
    pub node: PathBuf,
    /// `rollcall`: the operator's CLI.
    pub cli: PathBuf,
}

impl Binaries {
    /// In the folder that `ROLLCALL_BIN_DIR` names, else beside this program (or, in a test, beside its `deps`).
    pub fn find() -> Result<Self> {
        if let Some(folder) = std::env::var_os("ROLLCALL_BIN_DIR") {
            return Self::in_folder(Path::new(&folder));
        }
        let own = std::env::current_exe().context("can't tell where this program is")?;
        let mut folder = own.parent().context("this program has no folder")?;
        if folder.ends_with("deps") {
            folder = folder.parent().context("this program has no folder")?;
        }
        Self::in_folder(folder)
    }

    /// The next release, where it is built: peers that know one feature level more (`scripts/next-level`), in which faults
    /// can be planted too, and a copy of this agent in `folder`.
    pub fn next_release(&self, folder: &Path) -> Result<Option<Self>> {
        let built = self.coordinator.parent().context("the binaries have no folder")?;
        let coordinator = built.join("next-level/rollcall-coordinator");
        if !coordinator.is_file() {
            return Ok(None);
        }
        let next = folder.join("next-release");
        std::fs::create_dir_all(&next)?;
        let node = next.join("rollcall-node");
        // Another file, though of the same bytes.
        if std::fs::hard_link(&self.node, &node).is_err() {
            std::fs::copy(&self.node, &node).with_context(|| format!("can't copy the agent to {}", node.display()))?;
        }
        Ok(Some(Self { coordinator, node, cli: self.cli.clone() }))
    }

    fn in_folder(folder: &Path) -> Result<Self> {
        let find = |name: &str| -> Result<PathBuf> {
            let path = folder.join(name);
            if !path.is_file() {
                bail!(
                    "{} isn't built: cargo build -p rollcall-coordinator -p rollcall-node -p rollcall-cli",
                    path.display()
                );
            }
            Ok(path)
        };
        Ok(Self { coordinator: find("rollcall-coordinator")?, node: find("rollcall-node")?, cli: find("rollcall")? })
    }
}
