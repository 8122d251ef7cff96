//! `snapshot save`: a file gets its name only once all of it came and is what was sent.

use std::path::Path;

use rollcall_proto::v1::save_snapshot_response::Part;
use rollcall_proto::v1::{SaveSnapshotResponse, SnapshotEnd, SnapshotHead};
use serde_json::Value;
use tonic::{Code, Status};

use crate::fake::{Fake, refusal};
use crate::{code, run, stderr, stdout};

const BYTES: &[u8] = b"all that there is to know";

type Parts = Vec<Result<SaveSnapshotResponse, Status>>;

fn part(part: Part) -> Result<SaveSnapshotResponse, Status> {
    Ok(SaveSnapshotResponse { part: Some(part) })
}

/// The whole of it, in small chunks.
fn whole() -> Parts {
    let cluster_id = "c1000000-0000-4000-8000-000000000001".to_owned();
    let head = SnapshotHead { cluster_id, revision: 1042, bytes: BYTES.len() as u64, answering_peer_id: 3 };
    let end = SnapshotEnd { digest: blake3::hash(BYTES).as_bytes().to_vec() };
    let chunks = BYTES.chunks(7).map(|chunk| part(Part::Chunk(chunk.to_vec())));
    [part(Part::Head(head))].into_iter().chain(chunks).chain([part(Part::End(end))]).collect()
}

fn save(fake: &Fake, folder: &Path, options: &str) -> std::process::Output {
    let file = folder.join("peer.snap");
    run(&fake.endpoint(), format!("snapshot save {} {options}", file.display()).trim_end())
}

fn files(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_whole_snapshot_gets_its_name_and_is_told() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.script().snapshots = [whole()].into();
    let output = save(&fake, folder.path(), "-o json");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let told: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&told["revision"], &told["bytes"], &told["peer_id"]), (&1042.into(), &25.into(), &"3".into()));
    assert_eq!(files(folder.path()), ["peer.snap"]);
    assert_eq!(std::fs::read(folder.path().join("peer.snap")).unwrap(), BYTES);
}

#[test]
fn half_a_stream_leaves_no_file_wherever_it_ends() {
    let all = whole().len();
    for length in 0..all {
        let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
        let mut broken: Parts = whole().into_iter().take(length).collect();
        // A stream may end in order, too: nothing but its end says that it's whole.
        if length % 2 == 1 {
            broken.push(Err(refusal(Code::Unavailable, "stopping", "the peer is stopping")));
        }
        fake.script().snapshots = [broken].into();
        let output = save(&fake, folder.path(), "");
        assert_eq!(code(&output), 4, "after {length} parts: {}", stderr(&output));
        assert!(stderr(&output).contains("nothing was left"), "{}", stderr(&output));
        assert_eq!(files(folder.path()), [""; 0], "after {length} parts");
    }
}

#[test]
fn what_is_not_what_was_sent_is_asked_for_again_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let (bad, good) = (Fake::start(), Fake::start());
    let mut changed = whole();
    changed[2] = part(Part::Chunk(b"changed".to_vec()));
    bad.script().snapshots = [changed.clone()].into();
    good.script().snapshots = [whole()].into();
    let file = folder.path().join("peer.snap");
    let line = format!("snapshot save {}", file.display());
    let output = run(&format!("{},{}", bad.endpoint(), good.endpoint()), &line);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(std::fs::read(&file).unwrap(), BYTES);

    let alone = tempfile::tempdir().unwrap();
    bad.script().snapshots = [changed].into();
    let output = save(&bad, alone.path(), "");
    assert!(code(&output) == 4 && stderr(&output).contains("isn't what it sent"), "{}", stderr(&output));
    assert_eq!(files(alone.path()), [""; 0]);
}

#[test]
fn a_file_that_is_there_is_never_written_over() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("peer.snap"), "yesterday's").unwrap();
    let output = save(&fake, folder.path(), "");
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("choose another name"), "{}", stderr(&output));
    assert_eq!(std::fs::read(folder.path().join("peer.snap")).unwrap(), b"yesterday's");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.script().snapshots = [whole()].into();
    let output = save(&fake, &folder.path().join("none"), "");
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("none"), "{}", stderr(&output));
}

#[test]
fn a_refusal_is_told_as_it_is() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.script().snapshots = [Vec::new()].into();
    fake.script().refusals = [refusal(Code::FailedPrecondition, "not_initialized", "no cluster yet")].into();
    let output = save(&fake, folder.path(), "");
    assert!(code(&output) == 1 && stderr(&output).contains("no cluster yet"), "{}", stderr(&output));
    assert_eq!(files(folder.path()), [""; 0]);
}
