//! Plans.

use crate::output::{Page, Tone, View, column, key_values, table};
use crate::table::or_none;
use crate::view::{At, PlanView, short_release};

impl View for At<PlanView> {
    fn to_table(&self, page: &Page) -> String {
        let plan = &self.item;
        let blockers: Vec<_> = plan.blockers.iter().map(|blocker| blocker.text()).collect();
        let head = key_values(
            page,
            [
                ("group", plan.group.clone()),
                ("target", plan.target.clone()),
                ("unchanged", plan.unchanged_nodes.join(" ")),
                ("blocked by", blockers.join("\n")),
                ("revision", self.revision.to_string()),
            ],
        );
        if !plan.changes {
            return format!("{head}\n\nnothing to do: every member runs the target");
        }
        let rows = plan.batches.iter().enumerate().flat_map(|(index, batch)| {
            batch.steps.iter().enumerate().map(move |(place, step)| {
                let number = if place == 0 { (index + 1).to_string() } else { String::new() };
                [
                    column(number, Tone::Plain),
                    column(&step.node_name, Tone::Plain),
                    column(short_release(or_none(step.from.as_deref())), Tone::Dim),
                    column(step.placed_by.replace('_', " "), Tone::Dim),
                ]
            })
        });
        let table = table(page, ["BATCH", "NODE", "FROM", "PLACED BY"], rows);
        // One command in two lines: idents are long, and a page is narrow.
        let next = format!(
            "  rollcall rollout start {} --expected-revision {} \\\n    --to {}",
            plan.group, self.revision, plan.target
        );
        format!("{head}\n\n{table}\n\nto do it\n{next}")
    }
}
