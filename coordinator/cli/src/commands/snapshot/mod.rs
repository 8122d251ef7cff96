//! `rollcall snapshot`: to save one of a running cluster, to look into one, and to make a new cluster of one.

mod save;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Subcommand;

use crate::app::App;
use crate::args::{ReadArgs, RefoundArgs};
use crate::commands::local;
use crate::failure::{Exit, Outcome};
use crate::output::View as _;
use crate::view::{RefoundedView, SnapshotView};

/// What can be done with snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Save all of the cluster at one revision in a file; nothing stands still meanwhile
    #[command(after_help = "\
Examples:
  rollcall snapshot save /backup/rollcall-$(date +%F).snap
  rollcall --endpoints 10.0.0.3:7400 snapshot save --stale last.snap   what this peer has, without a leader")]
    Save {
        /// The file; it must not be there yet
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        read: ReadArgs,
    },
    /// Check a snapshot's file on this machine and show what is in it; exit code 1 where its audit chain is broken
    #[command(after_help = "\
Example:
  rollcall snapshot inspect /var/lib/rollcall/snapshots/00000000000000005000-00000000000000000002.snap")]
    Inspect {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Make a new cluster of one peer from a snapshot's file, in an empty data directory on this machine
    #[command(after_help = "\
Example:
  rollcall snapshot restore /backup/rollcall.snap --data-dir /var/lib/rollcall --advertise 10.0.0.1:7400
  … then start rollcall-coordinator there, and `rollcall cluster add-peer` for the others")]
    Restore {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        refound: RefoundArgs,
    },
}

/// Runs a command of this family.
pub async fn run(command: SnapshotCommand, app: &App) -> Outcome {
    match command {
        SnapshotCommand::Save { file, read } => save::run(&file, &read, app).await,
        SnapshotCommand::Inspect { file } => {
            let view: SnapshotView =
                local::ask(&[OsStr::new("snapshot"), OsStr::new("inspect"), file.as_os_str()]).await?;
            app.output.show(&view)?;
            Ok(if view.audit.verified { Exit::Done } else { Exit::NotWell })
        }
        SnapshotCommand::Restore { file, refound } => {
            let refound = refound.into_arguments();
            let mut arguments = vec![OsStr::new("snapshot"), OsStr::new("restore"), file.as_os_str()];
            arguments.extend(refound.iter().map(OsString::as_os_str));
            let view: RefoundedView = local::ask(&arguments).await?;
            app.output.show_change(&view, &view.to_table(app.output.page()))?;
            Ok(Exit::Done)
        }
    }
}
