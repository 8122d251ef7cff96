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
