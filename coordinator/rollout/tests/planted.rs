//! Every planted fault is found by the very model that finds nothing in the real code.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod model_check;
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use model_check::{Bounds, Cluster};
use rollcall_rollout::{Planted, PolicyPatch, plant};
use stateright::{Checker as _, Model as _};
use strum::IntoEnumIterator as _;

/// What the model has no words for is found by others: `docs/testing.md` says by whom.
const NOT_OF_THE_MODEL: [Planted; 5] = [
    Planted::RequestsForgotten,
    Planted::EpochReused,
    Planted::AckBeforeSync,
    Planted::TailNotSynced,
    Planted::StaleRead,
];

#[test]
fn each_planted_fault_is_found() {
    for fault in Planted::iter().filter(|fault| !NOT_OF_THE_MODEL.contains(fault)) {
        let bounds = match fault {
            Planted::HoldIgnored | Planted::PauseForgotten => Bounds { said: 1, faults: 0, ask_one_of: u64::MAX },
            _ => Bounds { said: 0, faults: 1, ask_one_of: u64::MAX },
        };
        let model = Cluster::new(bounds, PolicyPatch::default());
        plant(Some(fault));
        let check = || model.checker().threads(2).target_state_count(400_000).spawn_bfs().join();
        let Ok(checker) = catch_unwind(AssertUnwindSafe(check)) else {
            plant(None);
            println!("{fault}: an assertion in `apply`");
            continue;
        };
        // The path is walked again, fault and all.
        let found = checker.discoveries().remove("nothing is wrong");
        let path = found.unwrap_or_else(|| panic!("{fault} wasn't found in {} states", checker.unique_state_count()));
        let wrong = path.last_state().wrong.clone().unwrap();
        println!("{fault}: {wrong} after {:?}", path.into_actions());
        plant(None);
    }
}
