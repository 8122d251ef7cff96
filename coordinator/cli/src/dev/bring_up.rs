//! From started processes to a service that runs on every node.

use std::time::{Duration, Instant};

use rollcall_proto::v1;

use super::folder::Folder;
use super::sample;
use crate::app::App;
use crate::args::{ReadArgs, RolloutSubject, WriteArgs};
use crate::client::{channels, clusters, groups, read_options};
use crate::failure::{Failure, Outcome};
use crate::view::GroupView;
use crate::{group_file, live};

/// Agents and peers need seconds at most; a debug build on a busy machine a few more.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Makes a cluster of the peers, unless they are one already.
pub async fn form_cluster(folder: &Folder, dev: &App) -> Result<(), Failure> {
    let status = status(dev).await?;
    if status.condition == "uninitialized" {
        let peers = folder.endpoints().iter().skip(1).map(ToString::to_string).collect();
        let request = v1::InitClusterRequest { peers, options: options("make the cluster") };
        dev.client.call_first(request, async |channel, request| clusters(channel).init(request).await).await?;
    }
    until("the peers have elected no leader", async || {
        Ok((self::status(dev).await?.condition == "serving").then_some(()))
    })
    .await
}

/// Brings the sample service to every node; leaves alone what a kept folder has already.
pub async fn provide_service(folder: &Folder, dev: &App) -> Result<(), Failure> {
    if group(dev).await?.is_none() {
        let spec = group_file::load(&folder.path().join("hello.toml"))?;
        let request = v1::ApplyGroupRequest { spec: Some(spec), options: options("declare the sample service") };
        dev.client.call(request, async |channel, request| groups(channel).apply(request).await).await?;
    }
    let count = folder.nodes.len();
    until("not every agent has said hello", async || {
        let members = group(dev).await?.map(|group| group.members).unwrap_or_default();
        Ok((members.iter().filter(|member| member.presence == "present").count() >= count).then_some(()))
    })
    .await?;
    if !has_release(dev).await? {
        promote(dev).await?;
        dev.output.note(&format!("rolling {} out", sample::FIRST));
        watch_first_rollout(dev).await?;
    }
    until("not every node is healthy; `rollcall explain hello.default` says why", async || {
        let members = group(dev).await?.map(|group| group.members).unwrap_or_default();
        Ok((members.iter().filter(|member| member.health == "healthy").count() >= count).then_some(()))
    })
    .await
}

/// Where the log stands.
pub async fn revision(dev: &App) -> Result<u64, Failure> {
    Ok(status(dev).await?.revision)
}

async fn status(dev: &App) -> Result<v1::ClusterStatusResponse, Failure> {
    let request = v1::ClusterStatusRequest { options: read_options(&ReadArgs::default()) };
    dev.client.call(request, async |channel, request| clusters(channel).status(request).await).await
}

async fn group(dev: &App) -> Result<Option<GroupView>, Failure> {
    let request =
        v1::ListGroupsRequest { options: read_options(&ReadArgs::default()), ..v1::ListGroupsRequest::default() };
    let response = dev.client.call(request, async |channel, request| groups(channel).list(request).await).await?;
    Ok(response.groups.into_iter().map(GroupView::from).find(|group| group.name == sample::GROUP))
}

async fn has_release(dev: &App) -> Result<bool, Failure> {
    Ok(releases_of_channel(dev).await?.is_some_and(|count| count > 0))
}

/// `None` where there is no such channel yet.
async fn releases_of_channel(dev: &App) -> Result<Option<usize>, Failure> {
    let request = v1::ListChannelsRequest { options: read_options(&ReadArgs::default()) };
    let response = dev.client.call(request, async |channel, request| channels(channel).list(request).await).await?;
    let channel = response.channels.into_iter().find(|channel| channel.name == sample::CHANNEL);
    Ok(channel.map(|channel| channel.releases.len()))
}

async fn promote(dev: &App) -> Result<(), Failure> {
    let channel = sample::CHANNEL.to_owned();
    if releases_of_channel(dev).await?.is_none() {
        let request = v1::CreateChannelRequest { name: channel.clone(), options: options("the sample's channel") };
        dev.client.call(request, async |channel, request| channels(channel).create(request).await).await?;
    }
    let request = v1::PromoteRequest {
        ident: sample::FIRST.to_owned(),
        channel,
        digest: String::new(),
        options: options("the sample's first release"),
        more_idents: Vec::new(),
    };
    dev.client.call(request, async |channel, request| channels(channel).promote(request).await).await?;
    Ok(())
}

async fn watch_first_rollout(dev: &App) -> Result<(), Failure> {
    let group = sample::GROUP.parse().map_err(|_| Failure::Failed("the sample's group has no name".into()))?;
    let subject = RolloutSubject::Group(group);
    let watching = live::watch(&subject, dev);
    let outcome: Outcome = tokio::time::timeout(PATIENCE, watching).await.unwrap_or_else(|_| {
        Err(Failure::TimedOut(format!("the first rollout didn't end within {} s", PATIENCE.as_secs())))
    });
    outcome.map(|_| ())
}

fn options(reason: &str) -> Option<v1::WriteOptions> {
    Some(WriteArgs { reason: Some(format!("rollcall dev: {reason}")), ..WriteArgs::default() }.into_wire())
}

/// Looks again and again until there is something, or patience ends: then `what` hasn't come about.
async fn until<T>(what: &str, look: impl AsyncFn() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            return Err(Failure::TimedOut(format!("{what} within {} s", PATIENCE.as_secs())));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
