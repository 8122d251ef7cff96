//! Tables and lists of keys and values, within a width.

use std::io::IsTerminal;

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table};

use super::Tone;

/// Where nobody tells how wide the page is.
const DEFAULT_WIDTH: u16 = 80;
const COLUMN_GAP: u16 = 2;
/// Less than this, and text in the last column is a word per line.
const NARROWEST_LAST: u16 = 12;

/// What output has to fit into.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    pub width: u16,
    pub colour: bool,
}

impl Page {
    /// The terminal's page, or one of 80 columns.
    pub fn of_stdout(colour: bool) -> Self {
        let width = std::io::stdout()
            .is_terminal()
            .then(|| console::Term::stdout().size_checked())
            .flatten()
            .map_or(DEFAULT_WIDTH, |(_, columns)| columns.max(40));
        Self { width, colour }
    }
}

/// A table's cell whose text names a state: it gets that state's colour.
pub fn column(text: impl ToString, tone: Tone) -> Cell {
    let cell = Cell::new(text.to_string());
    match tone {
        Tone::Good => cell.fg(Color::DarkGreen),
        Tone::Busy => cell.fg(Color::DarkCyan),
        Tone::Warning => cell.fg(Color::DarkYellow),
        Tone::Bad => cell.fg(Color::DarkRed),
        Tone::Dim => cell.add_attribute(Attribute::Dim),
        Tone::Plain => cell,
    }
}

/// Rows under a header, without borders. Long cells wrap, so that the page's width is kept.
pub fn table<const N: usize>(page: &Page, header: [&str; N], rows: impl IntoIterator<Item = [Cell; N]>) -> String {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(page.width)
        .set_header(header.map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
    if page.colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index + 1 == N { 0 } else { COLUMN_GAP }));
    }
    keep_whole_if_there_is_room(&mut table, page);
    trim_lines(&table.to_string())
}

/// Names and idents are copied, so they mustn't be broken: only the last column, which is text, gives way. Where that
/// leaves it too little, all do.
fn keep_whole_if_there_is_room(table: &mut Table, page: &Page) {
    let widths = table.column_max_content_widths();
    let Some((_, first)) = widths.split_last() else { return };
    let taken: u16 = first.iter().map(|width| width + COLUMN_GAP).sum();
    if taken + NARROWEST_LAST > page.width {
        return;
    }
    let count = first.len();
    for column in table.column_iter_mut().take(count) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

/// Keys and what they stand for, in two columns.
pub fn key_values(page: &Page, pairs: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let pairs: Vec<_> = pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let key_width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let room = usize::from(page.width).saturating_sub(key_width + 2).max(20);
    let mut lines = Vec::new();
    for (key, value) in pairs {
        for (index, line) in wrap(&value, room).into_iter().enumerate() {
            let key = if index == 0 { key } else { "" };
            lines.push(format!("{}  {line}", Tone::Dim.paint(&format!("{key:key_width$}"))));
        }
    }
    trim_lines(&lines.join("\n"))
}

/// Breaks text at spaces; a word that is too long stays whole, so that it can still be copied.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && console::measure_text_width(&line) + 1 + console::measure_text_width(word) > room {
                lines.push(std::mem::take(&mut line));
            } else if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

fn trim_lines(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
