//! The three releases of the Redis package, laid out in a depot from their templates.

use std::path::Path;

use crate::depot::Depot;
use anyhow::{Context, Result, bail};

/// What each release says of itself beside its ident.
const MANIFEST: &str = "\n[service]\nstop_signal = \"TERM\"\nstop_timeout = \"8s\"\n";

/// Fully qualified idents.
#[derive(Debug, Clone)]
pub struct Releases {
    /// Where all begin.
    pub first: String,
    /// A good one, with another install hook and another configuration.
    pub second: String,
    /// One whose health never becomes good.
    pub failing: String,
}

impl Releases {
    /// Lays all of them out below the depot, from `templates`; what lies in `over` takes the place of theirs.
    pub fn lay_out(depot: &Depot, templates: &Path, over: Option<&Path>) -> Result<Self> {
        let (witness, redis) = (templates.join("witness"), templates.join("redis"));
        let base = redis.join("base");
        if !base.join("hooks").is_dir() {
            bail!("{} holds no Redis package: start from the repository, or use --packages", templates.display());
        }
        let version = redis_version()?;
        let ident = |release: &str| format!("acme/redis/{version}/{release}");
        let releases =
            Self { first: ident("20260101000000"), second: ident("20260202000000"), failing: ident("20260303000000") };
        for (ident, layer) in
            [(&releases.first, "release-1"), (&releases.second, "release-2"), (&releases.failing, "release-3")]
        {
            let release = redis.join(layer);
            let layers: Vec<&Path> = [&*witness, &*base, &*release].into_iter().chain(over).collect();
            depot.add(ident, &layers, MANIFEST)?;
        }
        Ok(releases)
    }
}

/// `7.0.15`, as the installed server says.
fn redis_version() -> Result<String> {
    let output = std::process::Command::new("redis-server")
        .arg("--version")
        .output()
        .context("can't start redis-server: apt-get install redis-server (scripts/demo does it)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version =
        text.split_whitespace().find_map(|word| word.strip_prefix("v=")).context("redis-server has no version")?;
    Ok(version.to_owned())
}
