//! Printing: the same views as a table, as JSON or as YAML.

mod duration;
mod page;
mod tone;

use std::io::Write as _;

use serde::Serialize;

use crate::args::Format;
use crate::config::Config;
use crate::failure::Failure;

pub use duration::{duration, millis};
pub use page::{Page, column, key_values, table, wrap};
pub use tone::Tone;

/// What can be printed: its serde form is the contract of json and yaml.
pub trait View: Serialize {
    /// As a table for people, within the page's width, without a newline at its end.
    fn to_table(&self, page: &Page) -> String;
}

/// Where answers go: stdout, in the format that was asked for.
pub struct Output {
    format: Format,
    page: Page,
}

impl Output {
    pub fn new(config: &Config) -> Self {
        Self { format: config.format, page: Page::of_stdout(config.colour) }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn page(&self) -> &Page {
        &self.page
    }

    /// Prints a command's whole answer.
    pub fn show(&self, view: &impl View) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.line(&view.to_table(&self.page)),
            Format::Json => self.line(&serde_json::to_string_pretty(view).map_err(Failure::failed)?),
            Format::Yaml => self.line(to_yaml(view)?.trim_end()),
        }
    }

    /// Prints one answer of many that follow each other: JSON takes one line each, YAML one document each.
    pub fn show_next(&self, view: &impl View) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.line(&view.to_table(&self.page)),
            Format::Json => self.line(&serde_json::to_string(view).map_err(Failure::failed)?),
            Format::Yaml => self.line(&format!("---\n{}", to_yaml(view)?.trim_end())),
        }
    }

    /// Prints what a change brought about: a line for people, the view for programs.
    pub fn show_change(&self, view: &impl View, line: &str) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.line(line),
            Format::Json | Format::Yaml => self.show(view),
        }
    }

    /// Prints text as it is.
    pub fn line(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{text}")?;
        stdout.flush()?;
        Ok(())
    }

    /// Tells the operator something beside the answer.
    pub fn note(&self, text: &str) {
        // Nobody is left to be told where stderr is closed.
        drop(writeln!(std::io::stderr(), "{text}"));
    }
}

/// By way of JSON, so that both say the same to the letter.
fn to_yaml(view: &impl Serialize) -> Result<String, Failure> {
    let value = serde_json::to_value(view).map_err(Failure::failed)?;
    serde_saphyr::to_string(&value).map_err(Failure::failed)
}
