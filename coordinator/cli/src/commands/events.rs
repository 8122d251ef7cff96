//! `rollcall events`: the log for people and programs.

use clap::Args;
use rollcall_ident::GroupName;
use rollcall_proto::v1;
use tokio_stream::StreamExt as _;
use tonic::Streaming;
use tracing::debug;

use crate::app::App;
use crate::client::{events, is_compacted};
use crate::failure::{Exit, Failure, Outcome};
use crate::view::{EventView, List};

/// BOUND: one page.
const PAGE: u32 = 500;

/// Show what has changed, oldest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rollcall events --group redis.default
  rollcall events --follow --since 1042 -o json")]
pub struct EventsArgs {
    /// Go on with each event as it happens
    #[arg(long, short)]
    pub follow: bool,
    /// Only events after this revision
    #[arg(long, value_name = "REVISION", default_value_t = 0)]
    pub since: u64,
    /// Only events of this group
    #[arg(long, value_name = "GROUP")]
    pub group: Option<GroupName>,
    /// Print at most so many
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    pub limit: Option<usize>,
}

/// Runs the command.
pub async fn run(args: EventsArgs, app: &App) -> Outcome {
    let group = args.group.map(|group| group.to_string()).unwrap_or_default();
    if args.follow {
        let watching = follow(args.since, group, app);
        return match app.config.watch_timeout {
            // Whoever sets a time wants the events of that time: its end is no failure.
            Some(limit) => tokio::time::timeout(limit, watching).await.unwrap_or(Ok(Exit::Done)),
            None => watching.await,
        };
    }
    let list = fetch(args.since, group, args.limit.unwrap_or(usize::MAX), app).await?;
    app.output.show(&list)?;
    Ok(Exit::Done)
}

async fn fetch(since: u64, group: String, limit: usize, app: &App) -> Result<List<EventView>, Failure> {
    let mut list = List { revision: since, items: Vec::new() };
    while list.items.len() < limit {
        let request = v1::ListEventsRequest { since_revision: list.revision, group: group.clone(), limit: PAGE };
        let page = app.client.call(request, async |channel, request| events(channel).list(request).await).await?;
        let is_end = page.revision <= list.revision;
        list.items.extend(page.events.into_iter().map(EventView::from));
        if is_end {
            break;
        }
        list.revision = page.revision;
    }
    list.items.truncate(limit);
    Ok(list)
}

/// Prints events as they come, and goes on at another peer where a stream breaks: without a gap or a duplicate, since
/// each message says up to where everything has been sent. A peer that doesn't keep what comes next is passed over for
/// one that does.
pub async fn follow(mut since: u64, group: String, app: &App) -> Outcome {
    let peer_count = app.client.addresses().count();
    let mut refused_in_a_row = 0;
    loop {
        match follow_one(&mut since, &group, app).await {
            Ok(()) => refused_in_a_row = 0,
            Err(failure) if is_compacted(&failure) => {
                refused_in_a_row += 1;
                if refused_in_a_row >= peer_count {
                    return Err(failure);
                }
            }
            Err(failure) => return Err(failure),
        }
        debug!(since, "the stream of events ended; going on at another peer");
        app.client.prefer_another();
        tokio::time::sleep(crate::client::RECONNECT_AFTER).await;
    }
}

/// Follows at one peer until its stream breaks, and moves `since` on.
async fn follow_one(since: &mut u64, group: &str, app: &App) -> Result<(), Failure> {
    let request = v1::WatchEventsRequest { since_revision: *since, group: group.to_owned() };
    let mut stream: Streaming<v1::WatchEventsResponse> =
        app.client.call(request, async |channel, request| events(channel).watch(request).await).await?;
    while let Some(message) = stream.next().await {
        let message = match message {
            Ok(message) => message,
            Err(status) => return crate::client::refusal_of_stream(status),
        };
        for event in message.events {
            app.output.show_next(&EventView::from(event))?;
        }
        *since = (*since).max(message.revision);
    }
    Ok(())
}
