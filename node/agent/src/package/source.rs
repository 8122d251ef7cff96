//! Where releases come from.

use std::path::PathBuf;
use std::str::FromStr;

use rollcall_ident::ReleaseIdent;

use super::FetchError;

/// A source of releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder that holds `origin/name/version/release`, each a folder or an archive.
    Dir(PathBuf),
}

/// Why a text isn't a source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Nothing that we know.
    #[error("{0:?} is not a source: dir:/path/of/releases was expected")]
    Unknown(String),
    /// Planned.
    #[error("{0:?}: depots by http(s):// are not built yet: use dir:/path/of/releases")]
    NotBuilt(String),
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        match text.strip_prefix("dir:") {
            Some(path) if !path.is_empty() => Ok(Self::Dir(PathBuf::from(path))),
            _ if text.starts_with("http://") || text.starts_with("https://") => {
                Err(SourceError::NotBuilt(text.to_owned()))
            }
            _ => Err(SourceError::Unknown(text.to_owned())),
        }
    }
}

/// A release as it lies in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A folder.
    Folder(PathBuf),
    /// A tar archive, compressed with zstd.
    TarZst(PathBuf),
    /// A tar archive, compressed with gzip.
    TarGz(PathBuf),
}

impl Source {
    /// Finds a release. A folder goes before an archive.
    ///
    /// # Errors
    /// [`FetchError::NotFound`]
    pub fn find(&self, ident: &ReleaseIdent) -> Result<Found, FetchError> {
        let Self::Dir(root) = self;
        let path = root.join(ident.bare().to_string());
        let with = |extension: &str| PathBuf::from(format!("{}{extension}", path.display()));
        let (zst, gz) = (with(".tar.zst"), with(".tar.gz"));
        if path.is_dir() {
            Ok(Found::Folder(path))
        } else if zst.is_file() {
            Ok(Found::TarZst(zst))
        } else if gz.is_file() {
            Ok(Found::TarGz(gz))
        } else {
            Err(FetchError::NotFound { ident: ident.clone(), place: root.display().to_string() })
        }
    }
}
