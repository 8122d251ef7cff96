//! Why a release can't be had.

use std::io;
use std::path::{Path, PathBuf};

use rollcall_ident::{Digest, ReleaseIdent};

use crate::disk::DiskError;

/// Why a release couldn't be fetched and verified. Nothing that runs was touched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The source doesn't have it.
    #[error("{ident} isn't in {place}: neither a folder nor a .tar.zst or .tar.gz of that name is there")]
    NotFound {
        /// What was asked for.
        ident: ReleaseIdent,
        /// Where it should have been.
        place: String,
    },
    /// It isn't what was promoted.
    #[error("the digest of {ident} is {found}, but {expected} was promoted")]
    DigestDiffers {
        /// What was asked for.
        ident: ReleaseIdent,
        /// The digest that was promoted.
        expected: Digest,
        /// The digest that was found.
        found: Digest,
    },
    /// It holds something that it must not, or lacks something.
    #[error("{ident} is damaged: {problem}")]
    Damaged {
        /// What was asked for.
        ident: ReleaseIdent,
        /// What is wrong with it.
        problem: String,
    },
    /// Its `rollcall.toml` is another release's.
    #[error("{ident} says in its rollcall.toml that it is {found}")]
    WrongIdent {
        /// What was asked for.
        ident: ReleaseIdent,
        /// What it says.
        found: ReleaseIdent,
    },
    /// A hook can't be run.
    #[error("hooks/{hook} of {ident} has no run bit: chmod +x it and release again")]
    HookNotExecutable {
        /// What was asked for.
        ident: ReleaseIdent,
        /// The hook's name.
        hook: &'static str,
    },
    /// The group's configuration that goes with it can't be had.
    #[error("the configuration of {ident}: {problem}")]
    Config {
        /// The release with its configuration.
        ident: ReleaseIdent,
        /// What is wrong, and the way out.
        problem: String,
    },
    /// The disk or the source refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl From<DiskError> for FetchError {
    fn from(error: DiskError) -> Self {
        Self::Io { path: error.path, source: error.source }
    }
}

impl FetchError {
    /// In snake_case, as reports carry it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::DigestDiffers { .. } => "digest_differs",
            Self::Damaged { .. } => "damaged",
            Self::WrongIdent { .. } => "wrong_ident",
            Self::HookNotExecutable { .. } => "hook_not_executable",
            Self::Config { .. } => "config",
            Self::Io { .. } => "io",
        }
    }

    /// For `map_err`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
