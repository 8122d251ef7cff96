//! Logs, by `tracing`, to stderr. They are for whoever looks for a fault: what an operator must know is printed.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;
use crate::failure::Failure;

const VARIABLE: &str = "ROLLCALL_LOG";

/// Starts logging for the rest of the process. `ROLLCALL_LOG` says what is logged; without it only warnings are.
pub fn start(format: LogFormat) -> Result<(), Failure> {
    let directives = std::env::var(VARIABLE).unwrap_or_else(|_| "warn".to_owned());
    let filter = EnvFilter::try_new(&directives).map_err(|error| {
        Failure::Usage(format!("{VARIABLE}={directives}: {error}; expected something like debug or rollcall=trace"))
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
