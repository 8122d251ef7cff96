//! `rollcall snapshot save`: a peer's snapshot comes here in chunks, and gets its name once all of it is on this disk.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rollcall_proto::v1;
use rollcall_proto::v1::save_snapshot_response::Part;
use tempfile::NamedTempFile;
use tokio_stream::StreamExt as _;
use tonic::Streaming;

use crate::app::App;
use crate::args::ReadArgs;
use crate::client::{clusters, read_options, refusal_of_stream};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::View as _;
use crate::view::SavedSnapshotView;

/// BOUND: for the next part to come. The first one comes when the peer has written its snapshot: for the state of 100,000
/// nodes that is seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a file is named that isn't whole.
const UNFINISHED_SUFFIX: &str = ".unfinished";

/// What came of one peer.
enum Attempt {
    Whole(SavedSnapshotView),
    Broken(String),
}

/// Saves a snapshot as `file`, which must not be there yet.
pub async fn run(file: &Path, read: &ReadArgs, app: &App) -> Outcome {
    if file.symlink_metadata().is_ok() {
        return Err(exists(file));
    }
    let folder = folder_of(file);
    let mut broken = Vec::new();
    for _ in app.client.addresses() {
        match attempt(file, &folder, read, app).await? {
            Attempt::Whole(view) => {
                app.output.show_change(&view, &view.to_table(app.output.page()))?;
                return Ok(Exit::Done);
            }
            Attempt::Broken(what) => {
                app.client.prefer_another();
                broken.push(what);
            }
        }
    }
    Err(Failure::TimedOut(format!("no peer sent a whole snapshot; nothing was left\n  {}", broken.join("\n  "))))
}

/// Dropped before it is whole, the file is gone.
async fn attempt(file: &Path, folder: &Path, read: &ReadArgs, app: &App) -> Result<Attempt, Failure> {
    let request = v1::SaveSnapshotRequest { options: read_options(read) };
    let mut stream =
        app.client.call(request, async |channel, request| clusters(channel).save_snapshot(request).await).await?;
    let Some(Part::Head(head)) = next(&mut stream).await? else {
        return Ok(Attempt::Broken("the stream ended before its head".to_owned()));
    };
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut unfinished = tempfile::Builder::new()
        .prefix(&format!("{name}."))
        .suffix(UNFINISHED_SUFFIX)
        .tempfile_in(folder)
        .map_err(|error| Failure::Failed(format!("can't write in {}: {error}", folder.display())))?;
    let (mut hasher, mut came) = (blake3::Hasher::new(), 0);
    let end = loop {
        match next(&mut stream).await? {
            Some(Part::Chunk(chunk)) => {
                unfinished.write_all(&chunk).map_err(|error| cant_write(unfinished.path(), &error))?;
                hasher.update(&chunk);
                came += chunk.len() as u64;
            }
            Some(Part::End(end)) => break end,
            Some(Part::Head(_)) => return Err(Failure::incomplete_answer("an order in the parts of its snapshot")),
            None => {
                let peer = head.answering_peer_id;
                return Ok(Attempt::Broken(format!("peer {peer} sent {came} of {} bytes and no more", head.bytes)));
            }
        }
    };
    if came != head.bytes || hasher.finalize().as_bytes() != end.digest.as_slice() {
        let peer = head.answering_peer_id;
        return Ok(Attempt::Broken(format!("what came from peer {peer} isn't what it sent")));
    }
    keep(unfinished, file, folder)?;
    Ok(Attempt::Whole(SavedSnapshotView::new(file, head)))
}

/// The next part; none where the stream broke off or fell silent.
async fn next(stream: &mut Streaming<v1::SaveSnapshotResponse>) -> Result<Option<Part>, Failure> {
    match tokio::time::timeout(PATIENCE, stream.next()).await {
        Ok(Some(Ok(message))) => Ok(message.part),
        Ok(Some(Err(status))) => refusal_of_stream(status).map(|()| None),
        Ok(None) | Err(_) => Ok(None),
    }
}

/// ORDER: on the disk first, then under its name, and the name on the disk.
fn keep(unfinished: NamedTempFile, file: &Path, folder: &Path) -> Result<(), Failure> {
    unfinished.as_file().sync_all().map_err(|error| cant_write(unfinished.path(), &error))?;
    unfinished.persist_noclobber(file).map_err(|error| match error.error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(file),
        _ => cant_write(file, &error.error),
    })?;
    let synced = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Failure::Failed(format!("can't sync {}: {error}", folder.display())))
}

fn folder_of(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

fn exists(file: &Path) -> Failure {
    Failure::Usage(format!("{} is there already: choose another name, or move it away", file.display()))
}

fn cant_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("can't write {}: {error}", path.display()))
}
