//! `audit --verify`: what it finds, and how it ends. And `snapshot inspect`, as far as it needs no snapshot.

use rollcall_proto::v1::{AuditHead, AuditRecord};
use serde_json::Value;

use crate::fake::{Fake, dead_endpoint};
use crate::{code, run, stderr, stdout};

fn verified(endpoints: &str, options: &str) -> (i32, Value) {
    let output = run(endpoints, format!("audit --verify -o json {options}").trim_end());
    (code(&output), serde_json::from_str(&stdout(&output)).expect("-o json prints JSON"))
}

/// What somebody makes who hashes everything behind a change anew.
fn forged(mut records: Vec<AuditRecord>, from: usize) -> Vec<AuditRecord> {
    records[from].record = b"nothing to see here".to_vec();
    for index in from..records.len() {
        if index > from {
            let before = &records[index - 1];
            records[index].previous = Some(AuditHead { revision: before.revision, hash: before.hash.clone() });
        }
        let previous = records[index].previous.clone().unwrap().hash;
        let hash = blake3::Hasher::new().update(&previous).update(&records[index].record).finalize();
        records[index].hash = hash.as_bytes().to_vec();
    }
    records
}

#[test]
fn a_whole_copy_is_verified_page_by_page_from_its_anchor() {
    let fake = Fake::start();
    let (code, found) = verified(&fake.endpoint(), "");
    assert_eq!((code, &found["verified"]), (0, &Value::Bool(true)), "{found}");
    let copy = &found["copies"][0];
    assert_eq!(
        (&copy["anchor_revision"], &copy["head_revision"], &copy["record_count"]),
        (&990.into(), &1042.into(), &3.into())
    );
    assert_eq!(fake.script().since, [0, 1020]);
}

#[test]
fn a_changed_record_is_named_and_ends_with_1() {
    let fake = Fake::start();
    fake.script().audit[1].record.push(b'!');
    let (code, found) = verified(&fake.endpoint(), "");
    assert_eq!((code, &found["verified"]), (1, &Value::Bool(false)));
    assert_eq!(found["copies"][0]["problem"]["revision"], 1020);
    let text = stdout(&run(&fake.endpoint(), "audit --verify"));
    assert!(text.contains("revision 1020 is the first that isn't right"), "{text}");
}

#[test]
fn a_removed_record_is_named_by_the_one_behind_it() {
    let fake = Fake::start();
    fake.script().audit.remove(1);
    assert_eq!(verified(&fake.endpoint(), "").1["copies"][0]["problem"]["revision"], 1042);
    // The last one: the state knows of it.
    let fake = Fake::start();
    let last = fake.script().audit.pop().unwrap();
    fake.script().audit_head = Some(AuditHead { revision: last.revision, hash: last.hash });
    assert_eq!(verified(&fake.endpoint(), "").1["copies"][0]["problem"]["revision"], 1042);
}

#[test]
fn a_chain_that_was_hashed_anew_is_told_by_the_state_and_placed_by_another_copy() {
    let (whole, fake) = (Fake::start(), Fake::start());
    let records = whole.script().audit.clone();
    let last = records.last().unwrap();
    fake.script().audit_head = Some(AuditHead { revision: last.revision, hash: last.hash.clone() });
    fake.script().audit = forged(records, 1);
    let (code, found) = verified(&fake.endpoint(), "");
    assert_eq!((code, &found["copies"][0]["problem"]["revision"]), (1, &1042.into()));
    // Even where its state was forged too.
    fake.script().audit_head = None;
    assert_eq!(verified(&fake.endpoint(), "").0, 0);
    let (code, found) = verified(&format!("{},{}", whole.endpoint(), fake.endpoint()), "");
    assert_eq!(
        (code, &found["copies"][0]["problem"], &found["copies"][1]["problem"]["revision"]),
        (1, &Value::Null, &1020.into())
    );
}

#[test]
fn a_hash_that_was_noted_before_must_be_met() {
    let fake = Fake::start();
    let (_, found) = verified(&fake.endpoint(), "");
    let head = found["copies"][0]["head_hash"].as_str().unwrap().to_owned();
    assert_eq!(verified(&fake.endpoint(), &format!("--expect 1042:{head}")).0, 0);
    for wrong in [format!("1042:{}", "ab".repeat(32)), format!("1041:{head}"), format!("2000:{head}")] {
        assert_eq!(verified(&fake.endpoint(), &format!("--expect {wrong}")).0, 1, "{wrong}");
    }
}

#[test]
fn a_copy_that_cant_be_had_is_no_success() {
    let fake = Fake::start();
    let output = run(&format!("{},{}", fake.endpoint(), dead_endpoint()), "audit --verify --timeout 500ms");
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("wasn't verified"), "{}", stderr(&output));
    assert_eq!(code(&run(&dead_endpoint(), "audit --verify --timeout 300ms")), 3);
}

#[test]
fn snapshot_inspect_says_what_it_needs_and_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    // Beside this command or in the PATH there may be a coordinator or none: a copy has none beside it.
    let alone = dir.path().join("rollcall");
    std::fs::copy(assert_cmd::cargo::cargo_bin!("rollcall"), &alone).unwrap();
    let inspect = |path: &std::path::Path| {
        let mut command = std::process::Command::new(&alone);
        command.env_clear().env("PATH", path).args(["snapshot", "inspect", "x.snap", "-o", "json"]);
        command.output().unwrap()
    };
    let output = inspect(dir.path());
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("rollcall-coordinator is neither"), "{}", stderr(&output));

    let stand_in = |script: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let program = dir.path().join("rollcall-coordinator");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    stand_in("echo \"rollcall-coordinator: $3: not a whole snapshot: torn\" >&2; exit 1");
    let output = inspect(dir.path());
    assert_eq!((code(&output), stderr(&output).as_str()), (1, "failed: x.snap: not a whole snapshot: torn\n"));
    stand_in("echo '{}'");
    assert!(stderr(&inspect(dir.path())).contains("another version"), "{}", stderr(&inspect(dir.path())));
}
