//! Configurations of the group, each kept on this node's disk before a step to it begins, under the node's own.

use std::path::PathBuf;

use rollcall_ident::{ConfigId, ReleaseIdent};

use crate::disk::{create_dir, read_optional, write_atomic};
use crate::package::{FetchError, HookConfig};

/// One service's configurations.
#[derive(Debug)]
pub struct Configs {
    /// Of the service.
    root: PathBuf,
    /// What the node's config says; it goes before the group's.
    own: toml::Table,
}

impl Configs {
    /// Below the service's folder.
    #[must_use]
    pub fn new(root: PathBuf, own: toml::Table) -> Self {
        Self { root, own }
    }

    /// Keeps a configuration of the group, durably.
    ///
    /// # Errors
    /// [`FetchError::Config`] where it isn't one; [`FetchError::Io`].
    pub fn keep(&self, ident: &ReleaseIdent, text: &str) -> Result<(), FetchError> {
        let Some(id) = ident.config() else { return Ok(()) };
        parse(ident, text)?;
        let path = self.kept(id);
        if read_optional(&path)?.is_some_and(|kept| kept == text.as_bytes()) {
            return Ok(());
        }
        create_dir(&self.folder())?;
        Ok(write_atomic(&path, text.as_bytes())?)
    }

    /// What the hooks of a release are given: the configuration that goes with it, and the node's own on top. The file is
    /// brought up to date, as the node's own may have changed since.
    ///
    /// # Errors
    /// [`FetchError::Config`] where the configuration isn't on this disk, or isn't whole.
    pub fn load(&self, ident: &ReleaseIdent) -> Result<HookConfig, FetchError> {
        let (file, mut table) = match ident.config() {
            None => (self.root.join("config.toml"), toml::Table::new()),
            Some(id) => (self.root.join(format!("config.{id}.toml")), self.group_config(ident, id)?),
        };
        overlay(&mut table, &self.own);
        let text = table.to_string();
        if read_optional(&file)?.is_none_or(|found| found != text.as_bytes()) {
            write_atomic(&file, text.as_bytes())?;
        }
        Ok(HookConfig { file, table })
    }

    fn group_config(&self, ident: &ReleaseIdent, id: ConfigId) -> Result<toml::Table, FetchError> {
        let missing = || FetchError::Config {
            ident: ident.clone(),
            problem: "it isn't on this disk, and the coordinator doesn't hand it out any more; declare it again with \
                      `rollcall group apply`"
                .to_owned(),
        };
        let text = read_optional(&self.kept(id))?.ok_or_else(missing)?;
        parse(ident, &String::from_utf8_lossy(&text))
    }

    fn folder(&self) -> PathBuf {
        self.root.join("configs")
    }

    fn kept(&self, id: ConfigId) -> PathBuf {
        self.folder().join(format!("{id}.toml"))
    }
}

fn parse(ident: &ReleaseIdent, text: &str) -> Result<toml::Table, FetchError> {
    text.parse().map_err(|error: toml::de::Error| FetchError::Config {
        ident: ident.clone(),
        problem: format!("it isn't TOML: {}", error.message()),
    })
}

/// Puts `top` over `below`, table by table.
fn overlay(below: &mut toml::Table, top: &toml::Table) {
    for (key, value) in top {
        match (below.get_mut(key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(top)) => overlay(below, top),
            _ => drop(below.insert(key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ident(text: &str) -> ReleaseIdent {
        format!("acme/redis/1/20260101000000{text}").parse().unwrap()
    }

    #[test]
    fn the_nodes_own_goes_before_the_groups() {
        let dir = tempfile::tempdir().unwrap();
        let own = "port = 7001\n[limits]\nclients = 5\n".parse().unwrap();
        let configs = Configs::new(dir.path().to_owned(), own);
        assert_eq!(configs.load(&ident("")).unwrap().table.len(), 2, "no configuration of the group goes with it");
        configs.keep(&ident("@c7"), "port = 1\nmode = \"fast\"\n[limits]\nclients = 1\nkeys = 9\n").unwrap();
        let config = configs.load(&ident("@c7")).unwrap();
        assert_eq!(config.table["port"].as_integer(), Some(7001));
        assert_eq!(config.table["mode"].as_str(), Some("fast"));
        assert_eq!(config.table["limits"]["clients"].as_integer(), Some(5));
        assert_eq!(config.table["limits"]["keys"].as_integer(), Some(9));
        let written: toml::Table = std::fs::read_to_string(&config.file).unwrap().parse().unwrap();
        assert_eq!(written, config.table);
    }

    #[test]
    fn one_that_is_not_here_or_not_whole_is_never_taken_for_another() {
        let dir = tempfile::tempdir().unwrap();
        let configs = Configs::new(dir.path().to_owned(), toml::Table::new());
        let refused = |configs: &Configs| configs.load(&ident("@c7")).unwrap_err().to_string();
        assert!(refused(&configs).contains("isn't on this disk"), "{}", refused(&configs));
        assert!(configs.keep(&ident("@c7"), "port = ").is_err(), "what isn't TOML isn't kept");
        configs.keep(&ident("@c7"), "port = 7001\n").unwrap();
        std::fs::write(dir.path().join("configs/c7.toml"), "port =").unwrap();
        assert!(refused(&configs).contains("isn't TOML"), "{}", refused(&configs));
        configs.keep(&ident("@c7"), "port = 7001\n").unwrap();
        assert_eq!(configs.load(&ident("@c7")).unwrap().table["port"].as_integer(), Some(7001));
    }
}
