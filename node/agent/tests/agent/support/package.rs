//! Releases whose hooks write down what they do, synced, before and after they do it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The ident of version `n` of the test's service.
pub fn ident(version: u32) -> String {
    format!("acme/app/{version}.0/2026010{version}000000")
}

/// A release that is being written.
pub struct Package {
    version: u32,
    hooks: Vec<(String, String)>,
    manifest: String,
}

impl Package {
    /// With every hook; each does nothing but say so, and `run` sleeps.
    pub fn new(version: u32) -> Self {
        let names = ["ready-to-update", "drain", "undrain", "pre-stop", "post-stop", "install", "init", "post-run"];
        let mut package = Self { version, hooks: Vec::new(), manifest: String::new() };
        for name in names {
            package = package.hook(name, "");
        }
        package.hook("run", "exec sleep 1000").hook("health-check", "exit 0")
    }

    /// Replaces the body of a hook.
    pub fn hook(mut self, name: &str, body: &str) -> Self {
        self.hooks.retain(|(other, _)| other != name);
        let said = format!("{name} $ROLLCALL_PHASE $ROLLCALL_ATTEMPT $ROLLCALL_FENCE {}", self.version);
        let quiet = name == "health-check" || name == "suitability";
        let script = match (name, quiet) {
            (_, true) => format!("#!/bin/sh\n{body}\n"),
            ("run", _) => format!("#!/bin/sh\necho \"begin {said}\" >> $WITNESS\n{body}\n"),
            _ => format!("#!/bin/sh\necho \"begin {said}\" >> $WITNESS\n{body}\necho \"end {said}\" >> $WITNESS\n"),
        };
        self.hooks.push((name.to_owned(), script));
        self
    }

    /// The hook waits until the test lets it go on.
    pub fn gate(self, name: &str) -> Self {
        let body = format!("while [ ! -e $GATES/{name} ]; do sleep 0.02; done");
        self.hook(name, &body)
    }

    /// Whether a hook waits for the test.
    pub fn has_gate(&self) -> bool {
        self.hooks.iter().any(|(_, script)| script.contains("$GATES/"))
    }

    /// Without this hook.
    pub fn without(mut self, name: &str) -> Self {
        self.hooks.retain(|(other, _)| other != name);
        self
    }

    /// More for its `rollcall.toml`.
    pub fn manifest(mut self, text: &str) -> Self {
        self.manifest.push_str(text);
        self
    }

    /// Writes the release as a folder.
    pub fn write(&self, depot: &Path) {
        self.write_to(&depot.join(ident(self.version)));
    }

    /// Writes the release's content into a folder.
    pub fn write_to(&self, folder: &Path) {
        let hooks = folder.join("hooks");
        fs::create_dir_all(&hooks).unwrap();
        fs::write(folder.join("rollcall.toml"), format!("ident = \"{}\"\n{}", ident(self.version), self.manifest))
            .unwrap();
        for (name, script) in &self.hooks {
            fs::write(hooks.join(name), script).unwrap();
            fs::set_permissions(hooks.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}
