//! What was found: the rows and the plots, on the terminal and as files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::chart::Chart;
use crate::machine::Machine;
use crate::row::{Row, number};

/// What a part found.
#[derive(Debug, Default)]
pub struct Findings {
    pub rows: Vec<Row>,
    pub charts: Vec<Chart>,
}

impl Findings {
    /// And what another part found.
    pub fn add(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.charts.extend(other.charts);
    }

    /// Whether every promise was kept.
    pub fn are_kept(&self) -> bool {
        self.rows.iter().all(Row::is_kept)
    }
}

/// The file, as other programs read it.
#[derive(Debug, Serialize)]
struct Report<'a> {
    machine: &'a Machine,
    /// Less of each was measured.
    quick: bool,
    rows: &'a [Row],
    /// Parts of which there are no rows, and why.
    failed: &'a [String],
}

/// Leaves `report.json`, the same table as Markdown, and the plots in `folder`.
pub fn write(folder: &Path, machine: &Machine, quick: bool, found: &Findings, failed: &[String]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    let report = Report { machine, quick, rows: &found.rows, failed };
    fs::write(folder.join("report.json"), serde_json::to_string_pretty(&report)? + "\n")?;
    fs::write(folder.join("report.md"), markdown(&found.rows))?;
    for chart in &found.charts {
        fs::write(folder.join(format!("{}.svg", chart.file)), chart.svg())?;
    }
    Ok(())
}

/// What stands in the columns of a row.
fn cells(row: &Row) -> [String; 8] {
    let what = if row.note.is_empty() { row.what.clone() } else { format!("{} ({})", row.what, row.note) };
    let mark = match row.met {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "",
    };
    [
        row.id.clone(),
        what,
        number(row.value),
        row.unit.to_owned(),
        row.beside.map(number).unwrap_or_default(),
        row.ratio.map(|ratio| format!("{} ×", number(ratio))).unwrap_or_default(),
        row.goal.clone(),
        mark.to_owned(),
    ]
}

/// For a page.
fn markdown(rows: &[Row]) -> String {
    let mut text = format!("| {} |\n| --- | --- | ---: | --- | ---: | ---: | ---: | --- |\n", HEADER.join(" | "));
    for row in rows {
        text += &format!("| {} |\n", cells(row).join(" | "));
    }
    text
}

const HEADER: [&str; 8] = ["", "measured", "value", "", "beside", "ratio", "goal", ""];

/// For people.
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.force_no_tty().set_width(128);
    table.set_header(HEADER);
    for column in [2, 4, 5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        table.add_row(cells(row));
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_a_row_for_each_figure_and_says_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let row = Row::new("P1.unary.64", "writes", 30.0, "/s").beside(10.0).at_least_times(2.0);
        let found = Findings { rows: vec![row], charts: Vec::new() };
        write(folder.path(), &Machine::look(), true, &found, &["P2: no".to_owned()]).unwrap();
        let text = fs::read_to_string(folder.path().join("report.json")).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let row = &read["rows"][0];
        assert_eq!((row["id"].as_str(), row["met"].as_bool()), (Some("P1.unary.64"), Some(true)));
        assert_eq!((row["value"].as_f64(), row["ratio"].as_f64()), (Some(30.0), Some(3.0)));
        assert!(read["machine"]["cores"].as_u64() > Some(0));
        assert_eq!(read["failed"][0], "P2: no");
    }

    #[test]
    fn a_missed_goal_is_seen_in_the_table() {
        let text = table(&[Row::new("P2", "reads", 1.0, "/s").beside(1.0).at_least_times(3.0)]);
        assert!(text.contains("MISSED") && text.contains("≥ 3 ×"), "{text}");
    }
}
