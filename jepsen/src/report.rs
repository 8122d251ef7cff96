//! The tables at the end of a run.

use std::time::Duration;

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use rollcall_proto::v1;
use rollcall_proto::v1::Phase;

use crate::check::{Outcome, Verdict};

/// The phases that have a column; `granted` counts as part of preparing.
const COLUMNS: [(Phase, &str); 6] = [
    (Phase::Preparing, "prepare"),
    (Phase::Draining, "drain"),
    (Phase::Stopping, "stop"),
    (Phase::Installing, "install"),
    (Phase::Starting, "start"),
    (Phase::Verifying, "verify"),
];

/// How long one step took, in which phase, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRow {
    /// The node.
    pub node: String,
    /// Per column.
    pub phases: [Duration; COLUMNS.len()],
    /// From its grant to its end.
    pub total: Duration,
    /// From the end of the step before it (or the rollout's start) to its grant.
    pub handover: Duration,
    /// Inside the step: neither a hook, nor the service on its way, nor the soak. `None`: the node told nothing.
    pub inside: Option<Duration>,
}

impl StepRow {
    /// All that was neither hook nor service nor soak.
    pub fn coordination(&self) -> Option<Duration> {
        self.inside.map(|inside| inside + self.handover)
    }
}

/// One row for each step that has ended, in the order of their turns.
pub fn step_rows(rollout: &v1::Rollout) -> Vec<StepRow> {
    let mut before = cluster_ms(rollout.started_at.as_ref());
    let mut rows = Vec::new();
    for step in &rollout.steps {
        let entered: Vec<(Phase, u64)> =
            step.history.iter().map(|time| (time.phase(), cluster_ms(time.entered_at.as_ref()))).collect();
        let Some(granted_at) = entered.iter().find(|(phase, _)| *phase == Phase::Granted).map(|(_, at)| *at) else {
            continue;
        };
        let Some(ended_at) = entered.last().filter(|(phase, _)| is_end(*phase)).map(|(_, at)| *at) else { continue };
        let mut phases = [Duration::ZERO; COLUMNS.len()];
        for pair in entered.windows(2) {
            let phase = if pair[0].0 == Phase::Granted { Phase::Preparing } else { pair[0].0 };
            if let Some(column) = COLUMNS.iter().position(|(column, _)| *column == phase) {
                phases[column] += Duration::from_millis(pair[1].1.saturating_sub(pair[0].1));
            }
        }
        rows.push(StepRow {
            node: step.node_name.clone(),
            phases,
            total: Duration::from_millis(ended_at.saturating_sub(granted_at)),
            handover: Duration::from_millis(granted_at.saturating_sub(before)),
            inside: step.timings.map(inside),
        });
        before = ended_at;
    }
    rows
}

fn inside(timings: v1::StepTimings) -> Duration {
    let spent = timings.hooks_us + timings.service_us + timings.soak_us;
    Duration::from_micros(timings.total_us.saturating_sub(spent))
}

fn is_end(phase: Phase) -> bool {
    matches!(phase, Phase::Succeeded | Phase::Failed | Phase::Skipped)
}

fn cluster_ms(moment: Option<&v1::Moment>) -> u64 {
    moment.map_or(0, |moment| moment.cluster_time_ms)
}

/// The middle one; of an even number the upper one of both.
pub fn median(mut values: Vec<Duration>) -> Option<Duration> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// The table of steps; `note` tells what else there is to say of a node (its role, a fault).
pub fn steps_table(rows: &[StepRow], note: impl Fn(&str) -> String, terminal: bool) -> String {
    let mut table = new_table(terminal);
    let mut header = vec!["", "node", "was"];
    header.extend(COLUMNS.map(|(_, name)| name));
    header.extend(["total", "coord."]);
    table.set_header(header);
    for (place, row) in rows.iter().enumerate() {
        let mut cells = vec![(place + 1).to_string(), row.node.clone(), note(&row.node)];
        cells.extend(row.phases.iter().map(|phase| seconds(*phase)));
        cells.push(seconds(row.total));
        cells.push(row.coordination().map_or("?".into(), milliseconds));
        table.add_row(cells);
    }
    for column in 3..COLUMNS.len() + 5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

/// A table of names and values.
pub fn facts_table(facts: &[(String, String)], terminal: bool) -> String {
    let mut table = new_table(terminal);
    for (name, value) in facts {
        table.add_row([name, value]);
    }
    table.to_string()
}

/// The table of judgements.
pub fn verdicts_table(verdicts: &[Verdict], terminal: bool) -> String {
    let mut table = new_table(terminal);
    for verdict in verdicts {
        let (mark, color) = match verdict.outcome {
            Outcome::Held => ("held", Color::Green),
            Outcome::Unknown => ("unknown", Color::Yellow),
            Outcome::Violated => ("BROKEN", Color::Red),
        };
        let mark = Cell::new(mark).fg(color).add_attribute(Attribute::Bold);
        table.add_row(vec![mark, Cell::new(&verdict.promise), Cell::new(&verdict.evidence)]);
    }
    table.to_string()
}

fn new_table(terminal: bool) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    if terminal {
        table.enforce_styling();
    } else {
        table.force_no_tty().set_width(110);
    }
    table
}

/// `1.23 s`.
pub fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

/// `12 ms`.
pub fn milliseconds(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}

/// `12.3 MiB`.
pub fn mebibytes(bytes: u64) -> String {
    let tenths = bytes * 10 / (1024 * 1024);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(ms: u64) -> Option<v1::Moment> {
        Some(v1::Moment { cluster_time_ms: ms, wall_time: None })
    }

    fn step(node: &str, times: &[(Phase, u64)]) -> v1::Step {
        let history = times
            .iter()
            .map(|(phase, ms)| v1::PhaseTime { phase: (*phase).into(), attempt: 1, entered_at: moment(*ms) })
            .collect();
        let timings = v1::StepTimings { total_us: 900_000, hooks_us: 100_000, service_us: 300_000, soak_us: 490_000 };
        v1::Step { node_name: node.into(), history, timings: Some(timings), ..Default::default() }
    }

    #[test]
    fn a_steps_time_is_told_by_phase_and_what_is_left_is_coordination() {
        let first = [
            (Phase::Queued, 1_000),
            (Phase::Granted, 1_030),
            (Phase::Preparing, 1_040),
            (Phase::Draining, 1_100),
            (Phase::Succeeded, 2_000),
        ];
        let second = [(Phase::Queued, 1_000), (Phase::Granted, 2_007), (Phase::Succeeded, 3_000)];
        let third = [(Phase::Queued, 1_000)];
        let steps = vec![step("a", &first), step("b", &second), step("c", &third)];
        let rollout = v1::Rollout { started_at: moment(1_000), steps, ..Default::default() };
        let rows = step_rows(&rollout);
        let ms = Duration::from_millis;
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].phases[0], rows[0].phases[1], rows[0].total), (ms(70), ms(900), ms(970)));
        assert_eq!((rows[0].handover, rows[1].handover), (ms(30), ms(7)));
        assert_eq!(rows[1].coordination(), Some(ms(17)));
        assert_eq!(median(rows.iter().filter_map(StepRow::coordination).collect()), Some(ms(40)));
    }

    #[test]
    fn tables_need_no_terminal() {
        let verdicts = [Verdict::held("a", "1"), Verdict::violated("b", "2")];
        let text = verdicts_table(&verdicts, false);
        assert!(text.contains("held") && text.contains("BROKEN") && !text.contains('\u{1b}'));
    }
}
