//! `rollcall audit`: every change with who, why and what proves it; and whether the copies of the peers are what was
//! agreed on.

mod chain;
mod verify;

use clap::Args;
use rollcall_proto::v1;

use crate::app::App;
use crate::client::events;
use crate::failure::{Exit, Failure, Outcome};
use crate::view::{AuditRecordView, List};

use chain::Noted;

/// BOUND: one page.
const PAGE: u32 = 500;

/// Show every change with its actor, reason and hash, or verify that nothing of it was altered
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rollcall audit --since 1042
  rollcall --endpoints 10.0.0.1:7400,10.0.0.2:7400 audit --verify
  rollcall audit --verify --expect 1042:13edc123d61056df74b88bb25a37c0f58b809ab7849c9f6ce3ed1bfacc461095")]
pub struct AuditArgs {
    /// Check the chain of hashes in the copy of every endpoint; exit code 1 where one isn't what was agreed on
    #[arg(long)]
    pub verify: bool,
    /// Only changes after this revision
    #[arg(long, value_name = "REVISION", default_value_t = 0)]
    pub since: u64,
    /// Print at most so many
    #[arg(long, value_name = "N", conflicts_with = "verify")]
    pub limit: Option<usize>,
    /// The hash that was noted at a revision before: the chain must lead through it
    #[arg(long, value_name = "REVISION:HASH", requires = "verify")]
    pub expect: Option<Noted>,
}

/// Runs the command.
pub async fn run(args: AuditArgs, app: &App) -> Outcome {
    if args.verify {
        return verify::run(args.since, args.expect, app).await;
    }
    let list = fetch(args.since, args.limit.unwrap_or(usize::MAX), app).await?;
    app.output.show(&list)?;
    Ok(Exit::Done)
}

async fn fetch(since: u64, limit: usize, app: &App) -> Result<List<AuditRecordView>, Failure> {
    let mut list = List { revision: since, items: Vec::new() };
    loop {
        let request = v1::AuditRequest { since_revision: list.revision, limit: PAGE };
        let page = app.client.call(request, async |channel, request| events(channel).audit(request).await).await?;
        list.items.extend(page.records.into_iter().map(AuditRecordView::from));
        let is_end = !page.more || page.revision <= list.revision;
        list.revision = page.revision.max(list.revision);
        if is_end || list.items.len() >= limit {
            list.items.truncate(limit);
            return Ok(list);
        }
    }
}
