//! The tables of `docs/state-machines.md` that the code can write itself. `UPDATE_GOLDEN=1` writes them.

mod support;

use std::fmt::Write as _;

use rollcall_rollout::{PauseCause, Phase, WaitingOn};
use strum::{IntoEnumIterator as _, VariantNames as _};

#[test]
fn the_documented_phases_are_those_of_the_code() {
    support::docs::keep("state-machines.md", "phases", &phase_table());
}

fn phase_table() -> String {
    let mut table = "| from | may become | holds the token |\n| --- | --- | --- |\n".to_owned();
    for phase in Phase::iter() {
        let next: Vec<String> =
            Phase::iter().filter(|next| phase.may_become(*next)).map(|next| next.to_string()).collect();
        let next = if next.is_empty() { "–".to_owned() } else { next.join(", ") };
        let token = if phase.holds_token() { "yes" } else { "no" };
        writeln!(table, "| {phase} | {next} | {token} |").expect("a string takes all");
    }
    table
}

/// Nobody is to meet a reason that the page for the night doesn't name.
#[test]
fn the_page_for_a_stuck_rollout_names_every_reason_and_cause() {
    let page = support::docs::read("stuck.md");
    for name in WaitingOn::VARIANTS.iter().chain(PauseCause::VARIANTS) {
        assert!(page.contains(&format!("\n| `{name}` |")), "docs/stuck.md has no row for {name}");
    }
}
