//! `rollcall doctor`: what keeps the cluster from doing its work.

use clap::Args;
use rollcall_proto::v1;

use crate::app::App;
use crate::args::ReadArgs;
use crate::client::{clusters, read_options};
use crate::failure::{Exit, Outcome};
use crate::view::{At, DoctorView};

/// Look for what keeps the cluster from doing its work, and say what to do; exit code 1 where there is an error
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rollcall doctor
  rollcall doctor -o json | jq -r '.findings[].advice'")]
pub struct DoctorArgs {
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Runs the command. Warnings alone are no error.
pub async fn run(args: DoctorArgs, app: &App) -> Outcome {
    let request = v1::DoctorRequest { options: read_options(&args.read) };
    let response = app.client.call(request, async |channel, request| clusters(channel).doctor(request).await).await?;
    let view = At { revision: response.revision, item: DoctorView::from(response) };
    app.output.show(&view)?;
    Ok(if view.item.error_count() > 0 { Exit::NotWell } else { Exit::Done })
}
