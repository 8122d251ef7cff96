//! Where the peer and the agent are: beside this command, or in the PATH.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::failure::Failure;

/// The programs that `dev` starts.
#[derive(Debug)]
pub struct Binaries {
    pub coordinator: PathBuf,
    pub node: PathBuf,
}

impl Binaries {
    pub fn find() -> Result<Self, Failure> {
        Ok(Self { coordinator: find("rollcall-coordinator")?, node: find("rollcall-node")? })
    }
}

/// A program of the product, by its name.
pub fn find(name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(Failure::failed)?;
    let beside = own.parent().map(Path::to_path_buf);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|file| is_program(file)).ok_or_else(|| {
        Failure::Failed(format!(
            "{name} is neither beside this command nor in the PATH\n  `cargo build --workspace` builds all three"
        ))
    })
}

fn is_program(file: &Path) -> bool {
    file.is_file() && access(file, AccessFlags::X_OK).is_ok()
}
