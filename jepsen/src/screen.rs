//! What the viewer sees: calm lines with the time since the beginning, and on a terminal one live line below them.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use crate::clock::Clock;

/// Where lines go. Without a terminal there are no colours and no live line.
#[derive(Debug)]
pub struct Screen {
    clock: Clock,
    terminal: bool,
    live: Mutex<String>,
}

/// How a piece of text stands out on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Headings and commands.
    Bold,
    /// What may be skipped.
    Dim,
    /// Good.
    Green,
    /// To be noticed: a fault that we inject.
    Yellow,
    /// Bad.
    Red,
}

impl Screen {
    /// The standard output.
    pub fn new(clock: Clock) -> Self {
        let terminal = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { clock, terminal, live: Mutex::new(String::new()) }
    }

    /// Whether colours may be used.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The same text in a tone, where there is a terminal.
    pub fn tint(&self, tone: Tone, text: &str) -> String {
        if !self.terminal {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Bold => "1",
            Tone::Dim => "2",
            Tone::Green => "32",
            Tone::Yellow => "33",
            Tone::Red => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A heading, with room above it.
    pub fn heading(&self, text: &str) {
        self.print(&format!("\n{}\n", self.tint(Tone::Bold, text)));
    }

    /// Something happened now.
    pub fn say(&self, text: &str) {
        let time = format!("{:6.1} s", self.clock.now().as_secs_f64());
        self.print(&format!("{}  {text}\n", self.tint(Tone::Dim, &time)));
    }

    /// A command that the viewer could type.
    pub fn command(&self, line: &str) {
        self.print(&format!("          {} {}\n", self.tint(Tone::Dim, "$"), self.tint(Tone::Bold, line)));
    }

    /// What a command printed, moved in.
    pub fn output(&self, text: &str) {
        let lines: String = text.trim_end().lines().map(|line| format!("          {line}\n")).collect();
        self.print(&lines);
    }

    /// As it is.
    pub fn raw(&self, text: &str) {
        self.print(&format!("{}\n", text.trim_end()));
    }

    /// Replaces the live line; empty removes it.
    pub fn live(&self, text: &str) {
        if !self.terminal {
            return;
        }
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        *live = text.to_owned();
        write(&format!("\r\x1b[2K{live}"));
    }

    fn print(&self, text: &str) {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if self.terminal && !live.is_empty() {
            write(&format!("\r\x1b[2K{text}{live}"));
        } else {
            write(text);
        }
    }
}

/// A reader that went away (`| head`) is no reason to stop: the judgement is in the exit code.
fn write(text: &str) {
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(text.as_bytes());
    let _ = output.flush();
}
