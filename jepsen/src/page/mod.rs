//! The report of a run: one page without anything beside it, which shows what was done, what was seen, and what was made
//! of it.

mod plot;
mod tables;
mod timeline;

use std::path::Path;

use anyhow::{Context, Result};

use crate::check::Outcome;
use crate::history::Record;
use crate::hosts::sight::Sight;
use crate::ops::book::read_lines;
use crate::ops::{Kind, pairs};
use crate::stored::{Results, Stored};

/// Writes the page into the run's folder.
pub fn write(stored: &Stored, results: &Results) -> Result<()> {
    let path = stored.folder.join("report.html");
    std::fs::write(&path, page(stored, results)).with_context(|| format!("can't write {}", path.display()))
}

fn page(stored: &Stored, results: &Results) -> String {
    let sights: Vec<Sight> = read_lines(&stored.folder.join("sights.jsonl")).unwrap_or_default();
    let records: Vec<Record> = read_lines(&stored.folder.join("witness.jsonl")).unwrap_or_default();
    let settings = &results.settings;
    let workloads: Vec<&str> = settings.workloads.iter().map(|workload| workload.name()).collect();
    let faults: Vec<&str> = settings.faults.iter().map(|fault| fault.name()).collect();
    let title = format!("{}, seed {}", workloads.join(" and "), settings.seed);
    let (word, class) = word_of(results.outcome);
    [
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">".to_owned(),
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">".to_owned(),
        format!("<title>Rollcall: {title}: {word}</title><style>{}</style></head><body>", include_str!("style.css")),
        format!("<header><h1>{}</h1><span class=\"badge {class}\">{word}</span></header>", escape(&title)),
        format!(
            "<p class=\"facts\">{} peers, {} nodes, {} clients on {} registers; faults for {} s: {}. Again from the same \
             seed: <code>{}</code></p>",
            settings.peers,
            settings.nodes,
            settings.clients,
            settings.keys,
            settings.time_limit_s,
            if faults.is_empty() { "none".to_owned() } else { faults.join(", ") },
            command(results)
        ),
        numbers(stored, results),
        "<h2>Promises</h2>".to_owned(),
        tables::verdicts(&results.verdicts),
        results.ending.notes.iter().map(|note| format!("<p class=\"facts\">Noted: {}</p>", escape(note))).collect(),
        "<h2>What happened when</h2>".to_owned(),
        timeline::key(!records.is_empty()),
        timeline::svg(stored, &sights, &records),
        "<h2>Operations</h2>".to_owned(),
        tables::operations(&stored.history),
        "<h2>Faults</h2>".to_owned(),
        tables::faults(&results.faults),
        "</body></html>\n".to_owned(),
    ]
    .join("\n")
}

fn numbers(stored: &Stored, results: &Results) -> String {
    let pairs = pairs(&stored.history);
    let count = |kind| pairs.iter().filter(|pair| pair.kind() == kind).count();
    let bitten = results.faults.iter().filter(|it| it.fate == crate::nemesis::conductor::Fate::Installed).count();
    let recovered = results.ending.recovered_in_ms.map_or("never".to_owned(), |ms| format!("{ms} ms"));
    let all = [
        (pairs.len().to_string(), "operations"),
        (count(Kind::Ok).to_string(), "ok"),
        (count(Kind::Fail).to_string(), "certainly without effect"),
        (count(Kind::Info).to_string(), "nobody knows"),
        (format!("{bitten} of {}", results.faults.len()), "faults seen to bite"),
        (recovered, "until all served again"),
    ];
    let cells: Vec<String> = all
        .iter()
        .map(|(value, name)| format!("<div class=\"number\"><b>{value}</b><span>{name}</span></div>"))
        .collect();
    format!("<div class=\"numbers\">{}</div>", cells.join(""))
}

/// What draws the same faults again.
fn command(results: &Results) -> String {
    let settings = &results.settings;
    let join = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(",") };
    format!(
        "scripts/jepsen run --workload {} --nemesis {} --time-limit {} --peers {} --seed {}",
        join(settings.workloads.iter().map(|workload| workload.name()).collect()),
        join(settings.faults.iter().map(|fault| fault.name()).collect()),
        settings.time_limit_s,
        settings.peers,
        settings.seed
    )
}

fn word_of(outcome: Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Held => ("held", "held"),
        Outcome::Unknown => ("unknown", "unknown"),
        Outcome::Violated => ("broken", "violated"),
    }
}

/// Text that may stand in markup.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A link to the page, for a terminal.
pub fn place(folder: &Path) -> String {
    folder.join("report.html").display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("a<b & \"c\""), "a&lt;b &amp; &quot;c&quot;");
    }
}
