//! Whether a run proves anything: there was traffic before the first fault, each kind of operation worked, each kind of
//! fault that was asked for was made and seen to bite, and afterwards everything worked again.

use std::collections::BTreeMap;

use crate::check::Verdict;
use crate::nemesis::Fault;
use crate::nemesis::conductor::{Fate, Inflicted};
use crate::ops::{Kind, Op};

/// BOUND: operations that came out well before the first fault; below that a run proves nothing.
pub const TRAFFIC_FLOOR: usize = 50;

/// Whether there was enough of everything: `wanted` operations and faults.
pub fn check(history: &[Op], inflicted: &[Inflicted], deeds: &[&str], faults: &[Fault]) -> Vec<Verdict> {
    vec![traffic(history, deeds), bites(inflicted, faults)]
}

fn traffic(history: &[Op], deeds: &[&str]) -> Verdict {
    const PROMISE: &str = "there was traffic before the first fault, and each kind of operation worked";
    let first_fault = history.iter().position(|op| op.process.is_none()).unwrap_or(history.len());
    let well = |op: &&Op| op.kind == Kind::Ok && op.process.is_some();
    let before = history[..first_fault].iter().filter(well).count();
    let mut counts: BTreeMap<&str, usize> = deeds.iter().map(|deed| (*deed, 0)).collect();
    for op in history.iter().filter(well) {
        if let Some(count) = counts.get_mut(op.f.as_str()) {
            *count += 1;
        }
    }
    let missing: Vec<&str> = counts.iter().filter(|(_, count)| **count == 0).map(|(deed, _)| *deed).collect();
    if !missing.is_empty() {
        return Verdict::unknown(PROMISE, format!("never ok: {}", missing.join(", ")));
    }
    if before < TRAFFIC_FLOOR {
        return Verdict::unknown(PROMISE, format!("{before} operations before the first fault are too few to tell"));
    }
    let listed: Vec<String> = counts.iter().map(|(deed, count)| format!("{deed} {count}")).collect();
    Verdict::held(PROMISE, format!("{before} before it; ok in all: {}", listed.join(", ")))
}

fn bites(inflicted: &[Inflicted], faults: &[Fault]) -> Verdict {
    const PROMISE: &str = "each kind of fault that was asked for was made, and seen to bite";
    let count = |fault: Fault, fate| inflicted.iter().filter(|it| it.fault == fault && it.fate == fate).count();
    let listed: Vec<String> = faults
        .iter()
        .map(|fault| {
            let (all, good) =
                (inflicted.iter().filter(|it| it.fault == *fault).count(), count(*fault, Fate::Installed));
            format!("{} {good}/{all}", fault.name())
        })
        .collect();
    let missing: Vec<String> = faults
        .iter()
        .filter(|fault| count(**fault, Fate::Installed) == 0)
        .map(|fault| {
            let why = inflicted.iter().find(|it| it.fault == *fault).map(|it| it.evidence.as_str());
            format!("{} ({})", fault.name(), why.unwrap_or("the time was too short for it"))
        })
        .collect();
    if missing.is_empty() {
        Verdict::held(PROMISE, if listed.is_empty() { "none was asked for".into() } else { listed.join(", ") })
    } else {
        Verdict::unknown(PROMISE, format!("not seen: {}", missing.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Outcome;

    fn op(process: Option<u64>, f: &str) -> Op {
        let value = serde_json::Value::Null;
        Op { index: 0, time: 0, process, kind: Kind::Ok, f: f.into(), value, peer: None, error: None }
    }

    fn fault(fault: Fault, fate: Fate) -> Inflicted {
        let (what, evidence) = (String::new(), String::new());
        Inflicted { number: 0, fault, what, targets: Vec::new(), fate, evidence, began: 0, ended: 0 }
    }

    /// Missing evidence is never [`Outcome::Violated`]: it says nothing of the product.
    #[test]
    fn too_little_traffic_or_a_fault_that_did_not_bite_is_no_pass() {
        let judge = |history: &[Op], inflicted: &[Inflicted]| {
            let verdicts = check(history, inflicted, &["read"], &[Fault::Kill]);
            verdicts.into_iter().map(|verdict| verdict.outcome).collect::<Vec<_>>()
        };
        let enough = vec![op(Some(1), "read"); TRAFFIC_FLOOR];
        let bitten = [fault(Fault::Kill, Fate::Installed)];
        assert_eq!(judge(&enough, &bitten), [Outcome::Held, Outcome::Held]);
        assert_eq!(judge(&enough[1..], &bitten), [Outcome::Unknown, Outcome::Held]);
        assert_eq!(judge(&vec![op(Some(1), "write"); 99], &bitten), [Outcome::Unknown, Outcome::Held]);
        assert_eq!(judge(&enough, &[fault(Fault::Kill, Fate::Skipped)]), [Outcome::Held, Outcome::Unknown]);
        let late = [vec![op(None, "kill")], enough].concat();
        assert_eq!(judge(&late, &bitten), [Outcome::Unknown, Outcome::Held]);
    }
}
