//! What happened when: faults, who led, who held a token, what hooks did, how many operations came out how, and how long
//! each took.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{EventKind, Record};
use crate::hosts::sight::Sight;
use crate::nemesis::Fault;
use crate::nemesis::conductor::{Fate, Inflicted};
use crate::ops::{Kind, Pair, pairs};
use crate::page::plot::Sheet;
use crate::page::tables::seconds;
use crate::stored::Stored;

/// BOUND: columns of the histogram of operations.
const COLUMNS: u64 = 240;

/// BOUND: points of ok operations that are drawn; of more, every so many-th.
const OK_POINTS: usize = 6_000;

/// The latencies that the scale goes over, in nanoseconds: 0.3 ms to 10 s.
const FASTEST: f64 = 3e5;
/// See above.
const SLOWEST: f64 = 1e10;

/// What the colours mean.
pub fn key(has_nodes: bool) -> String {
    let class = |class: &str, text: &str| format!("<span><i style=\"background:var(--{class})\"></i>{text}</span>");
    let mut all = vec![
        class("lead", "leads"),
        class("follow", "follows"),
        class("silent", "doesn't answer"),
        class("ok", "ok"),
        class("fail", "certainly no effect"),
        class("info", "nobody knows"),
    ];
    if has_nodes {
        let hooks = ["drain", "install", "run", "undrain"];
        all.extend(hooks.map(|hook| format!("<span><i style=\"background:{}\"></i>{hook}</span>", hook_colour(hook))));
    }
    format!("<div class=\"key\">{}</div>", all.join(""))
}

/// All bands.
pub fn svg(stored: &Stored, sights: &[Sight], records: &[Record]) -> String {
    let pairs = pairs(&stored.history);
    let last = stored.history.last().map_or(0, |op| op.time);
    let mut sheet = Sheet::new(last);
    draw_faults(&mut sheet, &stored.faults);
    draw_peers(&mut sheet, sights, last);
    draw_nodes(&mut sheet, sights, records, last);
    draw_counts(&mut sheet, &pairs, last);
    draw_latencies(&mut sheet, &pairs, &stored.faults);
    sheet.finish()
}

fn draw_faults(sheet: &mut Sheet, faults: &[Inflicted]) {
    sheet.title("Faults");
    let mut faults: Vec<&Inflicted> = faults.iter().collect();
    faults.sort_by_key(|fault| fault.began);
    // Each in the first row that is free by then.
    let mut rows: Vec<u64> = Vec::new();
    let top = sheet.y;
    for fault in faults {
        let row = rows.iter().position(|free_at| *free_at <= fault.began).unwrap_or(rows.len());
        let ended = fault.ended.max(fault.began + 1_000_000);
        if row == rows.len() {
            rows.push(ended);
        } else {
            rows[row] = ended;
        }
        let y = top + 17.0 * f64::from(u32::try_from(row).unwrap_or(0));
        let paint = if fault.fate == Fate::Installed { colour(fault.fault) } else { ".fail faint" };
        let tip = format!("{} — {}", fault.what, fault.evidence);
        let width = sheet.bar((fault.began, ended), y, 14.0, paint, &tip);
        let label = format!("{} {}", fault.fault.name(), fault.targets.join(" "));
        // About six units a letter.
        let fits = label.chars().count() as f64 * 5.4 + 8.0 < width;
        let short = fault.fault.name();
        if fits {
            sheet.inside(fault.began, y + 10.5, &label);
        } else if short.len() as f64 * 5.4 + 8.0 < width {
            sheet.inside(fault.began, y + 10.5, short);
        }
    }
    sheet.y = top + 17.0 * f64::from(u32::try_from(rows.len()).unwrap_or(0));
}

fn draw_peers(sheet: &mut Sheet, sights: &[Sight], last: u64) {
    let mut peers: BTreeMap<&str, Vec<&Sight>> = BTreeMap::new();
    for sight in sights {
        peers.entry(&sight.peer).or_default().push(sight);
    }
    sheet.title("Peers, as they see themselves");
    for (peer, sights) in peers {
        sheet.name(peer, sheet.y + 11.0);
        let ends = sights.iter().skip(1).map(|sight| sight.at).chain([last]);
        for (sight, end) in sights.iter().zip(ends) {
            let leads = sight.leader.as_deref() == Some(peer);
            let (paint, what) = match (&sight.leader, sight.answers) {
                (_, false) => (".silent", "doesn't answer".to_owned()),
                (None, true) => (".silent faint", "knows of no leader".to_owned()),
                (Some(_), true) if leads => (".lead", "leads".to_owned()),
                (Some(leader), true) => (".follow", format!("follows {leader}")),
            };
            sheet.bar((sight.at, end.max(sight.at)), sheet.y, 14.0, paint, &format!("{peer} {what}"));
        }
        sheet.y += 18.0;
    }
}

fn draw_nodes(sheet: &mut Sheet, sights: &[Sight], records: &[Record], last: u64) {
    let mut nodes: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in records {
        nodes.entry(&record.node).or_default().push(record);
    }
    if nodes.is_empty() {
        return;
    }
    sheet.title("Nodes: tokens as a peer saw them (above), hooks as the witness heard them");
    for (node, records) in nodes {
        sheet.name(node, sheet.y + 13.0);
        for (from, to) in held(sights, node, last) {
            sheet.bar((from, to), sheet.y, 4.0, ".lead", &format!("{node} holds a token"));
        }
        for (place, begin) in records.iter().enumerate() {
            if begin.event != EventKind::Begin {
                continue;
            }
            let is_end = |record: &&&Record| {
                record.event == EventKind::Killed || (record.hook == begin.hook && record.pid == begin.pid)
            };
            let end = records[place + 1..].iter().find(is_end).map_or(begin.at, |record| record.at);
            // What runs on is drawn as its start.
            let end = if begin.hook == "run" { begin.at } else { end };
            let tip = format!("{} on {node}, attempt {}, fence {}", begin.hook, begin.attempt, begin.fence);
            sheet.bar((nanos(begin.at), nanos(end)), sheet.y + 6.0, 10.0, hook_colour(&begin.hook), &tip);
        }
        sheet.y += 22.0;
    }
}

/// When a node was seen to hold a token, at the peer that saw it first.
fn held(sights: &[Sight], node: &str, last: u64) -> Vec<(u64, u64)> {
    let mut spans = Vec::new();
    let mut holding: BTreeMap<&str, bool> = BTreeMap::new();
    let mut since = None;
    for sight in sights.iter().filter(|sight| sight.answers) {
        holding.insert(&sight.peer, sight.holders.iter().any(|holder| holder == node));
        let holds = holding.values().any(|holds| *holds);
        match (since, holds) {
            (None, true) => since = Some(sight.at),
            (Some(from), false) => {
                spans.push((from, sight.at));
                since = None;
            }
            _ => {}
        }
    }
    spans.extend(since.map(|from| (from, last)));
    spans
}

fn draw_counts(sheet: &mut Sheet, pairs: &[Pair], last: u64) {
    const HEIGHT: f64 = 70.0;
    sheet.title("Operations that came out, per second");
    let wide = (last / COLUMNS).max(1);
    let mut columns: BTreeMap<u64, [u32; 3]> = BTreeMap::new();
    for completed in pairs.iter().filter_map(|pair| pair.completed) {
        let place = match completed.kind {
            Kind::Ok => 0,
            Kind::Fail => 1,
            Kind::Info | Kind::Invoke => 2,
        };
        columns.entry(completed.time / wide).or_default()[place] += 1;
    }
    let most = columns.values().map(|counts| counts.iter().sum::<u32>()).max().unwrap_or(1);
    let bottom = sheet.y + HEIGHT;
    sheet.rule(bottom, "0");
    sheet.rule(bottom - HEIGHT, &format!("{:.0}/s", f64::from(most) / seconds(wide)));
    for (column, counts) in columns {
        let mut y = bottom;
        for (class, count) in ["ok", "fail", "info"].into_iter().zip(counts) {
            let height = HEIGHT * f64::from(count) / f64::from(most);
            if count > 0 {
                sheet.column((column * wide, (column + 1) * wide), y, height, class);
            }
            y -= height;
        }
    }
    sheet.y = bottom;
}

fn draw_latencies(sheet: &mut Sheet, pairs: &[Pair], faults: &[Inflicted]) {
    const HEIGHT: f64 = 190.0;
    sheet.title("How long each took (shaded: faults)");
    let (top, bottom) = (sheet.y, sheet.y + HEIGHT);
    for fault in faults.iter().filter(|fault| fault.fate == Fate::Installed) {
        sheet.shade((fault.began, fault.ended), top, bottom);
    }
    let height = |nanos: f64| {
        let part = (nanos.clamp(FASTEST, SLOWEST) / FASTEST).ln() / (SLOWEST / FASTEST).ln();
        bottom - HEIGHT * part
    };
    for (nanos, text) in [(1e6, "1 ms"), (1e7, "10 ms"), (1e8, "100 ms"), (1e9, "1 s"), (1e10, "10 s")] {
        sheet.rule(height(nanos), text);
    }
    let is_drawn = |pair: &&Pair| pair.invoked.f != "watch";
    let ok_count = pairs.iter().filter(is_drawn).filter(|pair| pair.kind() == Kind::Ok).count();
    let every = ok_count.div_ceil(OK_POINTS).max(1);
    let mut seen = 0;
    for pair in pairs.iter().filter(is_drawn) {
        let (Some(completed), Some(took)) = (pair.completed, pair.took()) else { continue };
        let (class, radius) = match completed.kind {
            Kind::Ok => ("ok faint", 1.3),
            Kind::Fail => ("fail", 1.6),
            Kind::Info | Kind::Invoke => ("info", 2.4),
        };
        seen += usize::from(completed.kind == Kind::Ok);
        if completed.kind != Kind::Ok || seen % every == 0 {
            sheet.dot(completed.time, height(took as f64), class, radius);
        }
    }
    sheet.y = bottom;
}

fn nanos(at: Duration) -> u64 {
    u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)
}

fn colour(fault: Fault) -> &'static str {
    match fault {
        Fault::Kill => "#a3423c",
        Fault::Pause => "#8a6d3b",
        Fault::Partition => "#5b4b8a",
        Fault::Link => "#8673b5",
        Fault::Power => "#5a626e",
        Fault::Disk => "#2f6f73",
        Fault::Rot => "#6b7f2a",
        Fault::Clock => "#3e6f9e",
        Fault::Member => "#a2578c",
        Fault::Transfer => "#4f7d5c",
        Fault::Reboot => "#c0672f",
        Fault::Hook => "#b08a2e",
        Fault::Upgrade => "#1f7a8c",
    }
}

fn hook_colour(hook: &str) -> &'static str {
    match hook {
        "drain" => "#d9a441",
        "pre-stop" | "post-stop" => "#b4693c",
        "install" => "#4b6cb0",
        "run" => "#3a7d5c",
        "undrain" => "#86b59b",
        _ => "#b8bcc2",
    }
}
