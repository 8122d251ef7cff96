//! The tables of the report.

use std::collections::BTreeMap;

use crate::check::Verdict;
use crate::nemesis::conductor::{Fate, Inflicted};
use crate::ops::{Kind, Op, pairs};
use crate::page::{escape, word_of};

/// What was promised, and how it came out.
pub fn verdicts(verdicts: &[Verdict]) -> String {
    let rows = verdicts.iter().map(|verdict| {
        let (word, class) = word_of(verdict.outcome);
        format!(
            "<tr><td class=\"mark {class}\">{word}</td><td>{}</td><td class=\"soft\">{}</td></tr>",
            escape(&verdict.promise),
            escape(&verdict.evidence)
        )
    });
    table("<th></th><th>promise</th><th>evidence</th>", rows)
}

/// What clients asked, how it came out, and how long it took.
pub fn operations(history: &[Op]) -> String {
    let mut by_f: BTreeMap<&str, ([usize; 3], Vec<u64>)> = BTreeMap::new();
    for pair in pairs(history) {
        let (counts, times) = by_f.entry(&pair.invoked.f).or_default();
        let place = match pair.kind() {
            Kind::Ok => 0,
            Kind::Fail => 1,
            Kind::Info | Kind::Invoke => 2,
        };
        counts[place] += 1;
        times.extend(pair.took().filter(|_| place == 0));
    }
    let rows = by_f.into_iter().map(|(f, (counts, mut times))| {
        times.sort_unstable();
        let at = |per_mille: usize| times.get((times.len() * per_mille / 1_000).min(times.len().saturating_sub(1)));
        let time = |per_mille| at(per_mille).map_or("–".to_owned(), |nanos| duration(*nanos));
        let numbers: String = counts.iter().map(|count| format!("<td class=\"n\">{count}</td>")).collect();
        let times: String = [500, 990, 1_000].map(|place| format!("<td class=\"n\">{}</td>", time(place))).concat();
        format!("<tr><td>{}</td>{numbers}{times}</tr>", escape(f))
    });
    let head = "<th>operation</th><th class=\"n\">ok</th><th class=\"n\">no effect</th><th class=\"n\">unknown</th>\
                <th class=\"n\">median</th><th class=\"n\">p99</th><th class=\"n\">longest</th>";
    table(head, rows)
}

/// What was done to the hosts, and what shows that it did something.
pub fn faults(faults: &[Inflicted]) -> String {
    let mut faults: Vec<&Inflicted> = faults.iter().collect();
    faults.sort_by_key(|fault| fault.number);
    let rows = faults.into_iter().map(|fault| {
        let (word, class) = match fault.fate {
            Fate::Installed => ("installed", "held"),
            Fate::Skipped => ("skipped", "unknown"),
            Fate::Indeterminate => ("indeterminate", "unknown"),
        };
        format!(
            "<tr><td class=\"n\">{}</td><td>{}</td><td>{}</td><td class=\"n\">{:.1} s</td><td class=\"n\">{:.1} s</td>\
             <td class=\"mark {class}\">{word}</td><td class=\"soft\">{}</td></tr>",
            fault.number,
            fault.fault.name(),
            escape(&fault.what),
            seconds(fault.began),
            seconds(fault.ended.saturating_sub(fault.began)),
            escape(&fault.evidence)
        )
    });
    let head = "<th class=\"n\">no.</th><th>kind</th><th>what</th><th class=\"n\">at</th><th class=\"n\">for</th><th></th>\
                <th>what shows it</th>";
    table(head, rows)
}

fn table(head: &str, rows: impl Iterator<Item = String>) -> String {
    let rows: Vec<String> = rows.collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>{}</tbody></table></div>",
        rows.join("\n")
    )
}

/// Of nanoseconds.
pub fn seconds(nanos: u64) -> f64 {
    std::time::Duration::from_nanos(nanos).as_secs_f64()
}

fn duration(nanos: u64) -> String {
    match nanos {
        0..1_000_000 => format!("{:.2} ms", seconds(nanos) * 1_000.0),
        1_000_000..1_000_000_000 => format!("{:.1} ms", seconds(nanos) * 1_000.0),
        _ => format!("{:.2} s", seconds(nanos)),
    }
}
