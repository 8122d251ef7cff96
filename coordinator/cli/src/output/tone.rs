//! What colour says, so that it says the same everywhere.

/// How good a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Under way.
    Busy,
    /// Somebody should look.
    Warning,
    /// Broken.
    Bad,
    /// Of no interest now.
    Dim,
    /// Nothing to say by colour.
    Plain,
}

impl Tone {
    /// The text in this tone's colour, where colours are on.
    pub fn paint(self, text: &str) -> String {
        let style = console::Style::new();
        let style = match self {
            Self::Good => style.green(),
            Self::Busy => style.cyan(),
            Self::Warning => style.yellow(),
            Self::Bad => style.red(),
            Self::Dim => style.dim(),
            Self::Plain => return text.to_owned(),
        };
        style.apply_to(text).to_string()
    }

    /// The tone of any state's name that views carry: statuses, phases, health, presence.
    pub fn of(name: &str) -> Self {
        match name {
            "succeeded" | "healthy" | "present" | "serving" | "reachable" => Self::Good,
            "running" | "granted" | "preparing" | "draining" | "stopping" | "installing" | "rebooting" | "starting"
            | "verifying" => Self::Busy,
            "paused" | "warning" | "unknown" | "away" | "rolling_back" | "awaiting_approval" | "awaiting_promotion"
            | "rolled_back" | "stopped" | "uninitialized" => Self::Warning,
            "failed" | "critical" | "unhealthy" | "departed" | "no_leader" | "denied" | "unreachable" => Self::Bad,
            "queued" | "skipped" | "superseded" | "unprovisioned" => Self::Dim,
            _ => Self::Plain,
        }
    }
}
