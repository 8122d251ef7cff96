//! The tables of `docs/state-machines.md` that the code can write itself. `UPDATE_GOLDEN=1` writes them.

#![allow(clippy::disallowed_methods, reason = "the test reads and writes the docs, the crate may not")]

use std::fmt::Write as _;
use std::path::Path;

use rollcall_rollout::Phase;
use strum::IntoEnumIterator as _;

#[test]
fn the_documented_phases_are_those_of_the_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/state-machines.md");
    let before = std::fs::read_to_string(&file).expect("the page is in the tree");
    let (head, rest) = before.split_once("<!-- phases -->\n").expect("the mark is in the page");
    let (_, tail) = rest.split_once("<!-- /phases -->").expect("the mark is in the page");
    let after = format!("{head}<!-- phases -->\n{}<!-- /phases -->{tail}", phase_table());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, after).expect("the page can be written");
    } else {
        assert_eq!(after, before, "docs/state-machines.md says something else than the code");
    }
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
