//! Logs, to stderr.

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Begins to log.
///
/// # Errors
/// The filter can't be parsed, or somebody logs already.
pub fn init(filter: &str, format: LogFormat) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| anyhow::anyhow!("--log {filter:?} (ROLLCALL_LOG) is no filter: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let done = match format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    done.map_err(|error| anyhow::anyhow!("logging can't begin: {error}"))
}
