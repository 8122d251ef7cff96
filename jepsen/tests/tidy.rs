//! Rules of the source tree that no compiler keeps: which crate may know which, what pure crates stay away from, how
//! long files get, what may not stand in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The workspace's crates and which of each other they may depend on, in any way. ARCHITECTURE.md draws it.
const ARROWS: [(&str, &[&str]); 10] = [
    ("rollcall-codec", &[]),
    ("rollcall-ident", &["rollcall-codec"]),
    ("rollcall-proto", &[]),
    ("rollcall-rollout", &["rollcall-codec", "rollcall-ident"]),
    ("rollcall-steps", &["rollcall-codec", "rollcall-ident"]),
    ("rollcall-coordinator", &["rollcall-codec", "rollcall-ident", "rollcall-proto", "rollcall-rollout"]),
    ("rollcall-node", &["rollcall-codec", "rollcall-ident", "rollcall-proto", "rollcall-steps"]),
    ("rollcall-cli", &["rollcall-ident", "rollcall-proto"]),
    ("rollcall-jepsen", &["rollcall-proto"]),
    (
        "rollcall-sim",
        &[
            "rollcall-codec",
            "rollcall-coordinator",
            "rollcall-ident",
            "rollcall-proto",
            "rollcall-rollout",
            "rollcall-steps",
        ],
    ),
];

/// Crates without a clock, randomness or IO.
const PURE: [&str; 4] = ["rollcall-codec", "rollcall-ident", "rollcall-rollout", "rollcall-steps"];

/// What they may not reach, directly or through others. (`jiff` computes with time zones in the rollout crate, whose
/// `clippy.toml` bans what of it asks the machine for its clock or its zones.)
const IMPURE: [&str; 8] = ["tokio", "tonic", "sled", "raft-log", "openraft", "tracing", "rand", "nix"];

/// Crates that one place only may name, and that place.
const WRAPPED: [(&str, &str); 3] = [
    ("sled::", "coordinator/server/src/storage/"),
    ("raft_log::", "coordinator/server/src/storage/"),
    ("openraft_rt", "coordinator/server/src/"),
];

/// Longer files say at their head why, in a line that begins with `//! LONG:`.
const LONGEST_FILE: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace's folder")
}

fn metadata(arguments: &[&str]) -> Value {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// This platform's name for cargo.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned()
}

/// All source files of ours below the workspace, relative to it.
fn source_files(extensions: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = ["coordinator", "node", "proto", "jepsen", "scripts", "docs", ".ci"]
        .iter()
        .map(|folder| root().join(folder))
        .collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if extensions.is_empty()
                || path.extension().and_then(|extension| extension.to_str()).is_some_and(|e| extensions.contains(&e))
            {
                files.push(path.strip_prefix(root()).expect("it lies below").to_path_buf());
            }
        }
    }
    files.sort();
    files
}

fn text_of(file: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(root().join(file)).expect("a file of the workspace")).into_owned()
}

#[test]
fn crates_know_only_whom_they_may_know() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().expect("packages");
    let mut seen = BTreeSet::new();
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        seen.insert(name);
        let may = allowed.get(name).unwrap_or_else(|| panic!("{name} is new: say in ARROWS whom it may know"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let dependency = dependency["name"].as_str().expect("a name");
            if dependency.starts_with("rollcall-") {
                assert!(may.contains(&dependency), "{name} may not depend on {dependency}");
            }
            assert!(dependency != "bincode" || name == "rollcall-codec", "{name}: only the codec names bincode");
        }
    }
    assert_eq!(seen.len(), allowed.len(), "ARROWS names a crate that is not there");
}

#[test]
fn pure_crates_reach_nothing_impure() {
    // Without the other platforms' crates, which nobody has fetched.
    let metadata = metadata(&["--filter-platform", &host()]);
    let nodes = metadata["resolve"]["nodes"].as_array().expect("nodes");
    let by_id: BTreeMap<&str, &Value> = nodes.iter().map(|node| (node["id"].as_str().expect("an id"), node)).collect();
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|package| (package["id"].as_str().expect("an id"), package["name"].as_str().expect("a name")))
        .collect();
    for pure in PURE {
        let start = names.iter().find(|(_, name)| **name == pure).expect("the crate is there").0;
        let mut open = vec![*start];
        let mut reached = BTreeSet::new();
        while let Some(id) = open.pop() {
            if !reached.insert(id) {
                continue;
            }
            assert!(!IMPURE.contains(&names[id]), "{pure} reaches {}", names[id]);
            for dependency in by_id[id]["deps"].as_array().expect("deps") {
                let kinds = dependency["dep_kinds"].as_array().expect("kinds");
                // Neither dev-dependencies nor what runs while building is part of the crate.
                if kinds.iter().any(|kind| kind["kind"].is_null()) {
                    open.push(dependency["pkg"].as_str().expect("an id"));
                }
            }
        }
    }
}

#[test]
fn wrapped_crates_are_named_in_one_place() {
    for file in source_files(&["rs"]) {
        let text = text_of(&file);
        for (name, place) in WRAPPED {
            let inside = file.starts_with(place)
                || file.starts_with("jepsen/tests")
                || file.starts_with("coordinator/server/tests");
            assert!(inside || !text.contains(name), "{} names {name}, which only {place} may", file.display());
        }
    }
}

#[test]
fn apply_never_asks_the_planner() {
    let files: Vec<PathBuf> =
        source_files(&["rs"]).into_iter().filter(|file| file.starts_with("coordinator/rollout/src/apply")).collect();
    assert!(!files.is_empty(), "where has apply gone?");
    for file in files {
        let asks = |after: &str| !after.starts_with(|next: char| next.is_alphanumeric() || next == '_');
        assert!(!text_of(&file).split("crate::plan").skip(1).any(asks), "{} asks the planner", file.display());
    }
}

#[test]
fn long_files_say_why() {
    for file in source_files(&["rs", "proto", "sh"]) {
        let text = text_of(&file);
        let count = text.lines().count();
        let reason = text.lines().take(30).any(|line| line.starts_with("//! LONG:"));
        assert!(count <= LONGEST_FILE || reason, "{} has {count} lines and doesn't say why", file.display());
    }
}

#[test]
fn each_check_has_a_planted_fault() {
    let checks: Vec<PathBuf> =
        source_files(&["rs"]).into_iter().filter(|file| file.starts_with("jepsen/src/check")).collect();
    assert!(checks.len() > 5, "where have the checks gone?");
    for file in checks {
        let text = text_of(&file);
        let tests = text.split_once("#[cfg(test)]").map(|(_, tests)| tests).unwrap_or_default();
        assert!(tests.contains("Violated"), "no test of {} sees it fail", file.display());
    }
}

#[test]
fn no_file_names_the_machine_it_was_written_on() {
    // Put together, so that this file doesn't name them itself.
    let marks = [["/wo", "rk/"].concat(), ["/ro", "ot/"].concat()];
    for file in source_files(&[]) {
        let text = text_of(&file);
        for mark in &marks {
            assert!(!text.contains(mark.as_str()), "{} names {mark}", file.display());
        }
    }
}
