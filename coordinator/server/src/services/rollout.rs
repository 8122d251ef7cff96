//! `RolloutService`.

use rollcall_ident::{GroupName, NodeId, RolloutId, WallTime};
use rollcall_proto::v1;
use rollcall_proto::v1::rollout_service_server::RolloutService;
use rollcall_rollout::{Command, Rejection, Reply, Rollout, RolloutKind, RolloutVerb, State, Subject, explain};
use tonic::{Request, Response, Status};

use super::Answers;
use super::api::{Api, Call, Written, find_node};
use super::channel::unexpected;
use super::rollout_watch::watch;
use crate::convert;
use crate::raft::View;
use crate::world::off_the_runtime;

/// BOUND: a page; a rollout over a hundred nodes takes some fifty kilobytes.
const PAGE: (usize, usize) = (20, 100);

/// Rollouts.
pub struct Rollouts(pub Api);

type Started = Result<Response<v1::StartRolloutResponse>, Status>;
type Verb = Result<Response<v1::RolloutVerbResponse>, Status>;

#[tonic::async_trait]
impl RolloutService for Rollouts {
    async fn plan(
        &self,
        request: Request<v1::PlanRolloutRequest>,
    ) -> Result<Response<v1::PlanRolloutResponse>, Status> {
        let call = Call::of(&request);
        let v1::PlanRolloutRequest { group, target, options } = request.into_inner();
        let (group, target) = (convert::required("group", &group)?, convert::required("target", &target)?);
        let view = self.0.read(&call, options).await?;
        // It plays the whole rollout through: not on a thread that serves others.
        let played = off_the_runtime(move || {
            let preview = rollcall_rollout::preview(&view.state, &group, &target)?;
            Ok(convert::preview(view.revision, &group, &target, preview))
        });
        let plan = played.await.map_err(|error| Status::internal(format!("planning failed: {error}")))?;
        Ok(Response::new(plan.map_err(|rejection| convert::refused(&rejection))?))
    }

    async fn start(&self, request: Request<v1::StartRolloutRequest>) -> Started {
        let call = Call::of(&request);
        let v1::StartRolloutRequest { group, target, digest, options } = request.into_inner();
        let command = Command::StartRollout {
            group: convert::required("group", &group)?,
            target: convert::required("target", &target)?,
            digest: convert::optional("digest", &digest)?,
            kind: RolloutKind::Update,
        };
        self.begin(&call, options, command).await
    }

    async fn undo(&self, request: Request<v1::UndoRolloutRequest>) -> Started {
        let call = Call::of(&request);
        let v1::UndoRolloutRequest { group, to_rollout_id, options } = request.into_inner();
        let command = Command::UndoRollout {
            group: convert::required("group", &group)?,
            to: convert::optional("to_rollout_id", &to_rollout_id)?,
        };
        self.begin(&call, options, command).await
    }

    async fn get(&self, request: Request<v1::GetRolloutRequest>) -> Result<Response<v1::GetRolloutResponse>, Status> {
        let call = Call::of(&request);
        let v1::GetRolloutRequest { rollout_id, group, options } = request.into_inner();
        let wanted = Wanted::parse(&rollout_id, &group)?;
        let view = self.0.read(&call, options).await?;
        let rollout = wanted.find(&view.state)?;
        let now = self.0.now(&self.0.consensus()?, &view);
        Ok(Response::new(v1::GetRolloutResponse {
            revision: view.revision.0,
            now: Some(convert::moment(now)),
            rollout: Some(convert::rollout(&view.state, rollout, now.cluster_time)),
        }))
    }

    async fn list(
        &self,
        request: Request<v1::ListRolloutsRequest>,
    ) -> Result<Response<v1::ListRolloutsResponse>, Status> {
        let call = Call::of(&request);
        let v1::ListRolloutsRequest { group, options, page_size, page_token } = request.into_inner();
        let group = convert::optional::<GroupName>("group", &group)?;
        let size = convert::page_size(page_size, PAGE.0, PAGE.1);
        let after = convert::page_token::<RolloutId>(&page_token)?;
        let view = self.0.read(&call, options).await?;
        let now = self.0.now(&self.0.consensus()?, &view);
        let behind = view
            .state
            .rollouts()
            .values()
            .rev()
            .filter(|rollout| after.is_none_or(|after| rollout.id < after))
            .filter(|rollout| group.as_ref().is_none_or(|group| rollout.group == *group));
        let send = |rollout| convert::rollout(&view.state, rollout, now.cluster_time);
        let (rollouts, next_page_token) = convert::page(behind, size, |rollout| rollout.id.to_string(), send);
        Ok(Response::new(v1::ListRolloutsResponse { revision: view.revision.0, rollouts, next_page_token }))
    }

    type WatchStream = Answers<v1::GetRolloutResponse>;

    async fn watch(&self, request: Request<v1::WatchRolloutRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let call = Call::of(&request);
        let v1::WatchRolloutRequest { rollout_id, group } = request.into_inner();
        let wanted = Wanted::parse(&rollout_id, &group)?;
        let view = self.0.read(&call, None).await?;
        let id = wanted.find(&view.state)?.id;
        Ok(Response::new(Box::pin(watch(self.0.clone(), self.0.consensus()?, view, id))))
    }

    async fn approve(&self, request: Request<v1::RolloutVerbRequest>) -> Verb {
        self.steer(request, |_| Ok(RolloutVerb::Approve)).await
    }

    async fn deny(&self, request: Request<v1::RolloutVerbRequest>) -> Verb {
        self.steer(request, |_| Ok(RolloutVerb::Deny)).await
    }

    async fn pause(&self, request: Request<v1::RolloutVerbRequest>) -> Verb {
        self.steer(request, |words| Ok(RolloutVerb::Pause { until: words.until })).await
    }

    async fn resume(&self, request: Request<v1::RolloutVerbRequest>) -> Verb {
        self.steer(request, |words| Ok(RolloutVerb::Resume { until: words.until })).await
    }

    async fn promote(&self, request: Request<v1::RolloutVerbRequest>) -> Verb {
        self.steer(request, |words| Ok(RolloutVerb::Promote { full: words.full })).await
    }

    async fn next(&self, request: Request<v1::RolloutVerbRequest>) -> Verb {
        self.steer(request, |_| Ok(RolloutVerb::Next)).await
    }

    async fn stop(&self, request: Request<v1::RolloutVerbRequest>) -> Verb {
        self.steer(request, |_| Ok(RolloutVerb::Stop)).await
    }

    async fn abort(&self, request: Request<v1::RolloutVerbRequest>) -> Verb {
        self.steer(request, |_| Ok(RolloutVerb::Abort)).await
    }

    async fn retry(&self, request: Request<v1::RolloutVerbRequest>) -> Verb {
        self.steer(request, |words| Ok(RolloutVerb::Retry { node: words.node })).await
    }

    async fn skip(&self, request: Request<v1::RolloutVerbRequest>) -> Verb {
        self.steer(request, |words| {
            let node = words.node.ok_or_else(|| convert::FieldError::new("node", "is missing: whose step?"))?;
            Ok(RolloutVerb::Skip { node })
        })
        .await
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        let call = Call::of(&request);
        let v1::ExplainRequest { subject, options } = request.into_inner();
        let view = self.0.read(&call, options).await?;
        let now = self.0.now(&self.0.consensus()?, &view);
        let chain = resolve(&view.state, &subject).and_then(|subject| explain(&view.state, &subject));
        let chain = chain.ok_or_else(|| {
            let message = format!("there is no rollout, group or node {subject:?}");
            convert::not_found("unknown_subject", message)
        })?;
        Ok(Response::new(v1::ExplainResponse {
            revision: view.revision.0,
            now: Some(convert::moment(now)),
            chain: convert::explanations(chain),
        }))
    }
}

impl Rollouts {
    /// Starts one, and shows it.
    async fn begin(&self, call: &Call, options: Option<v1::WriteOptions>, command: Command) -> Started {
        let written = self.0.write(call, options, command).await?;
        let id = match written.reply {
            Reply::RolloutStarted(id) => id,
            other => return Err(unexpected(&other)),
        };
        let rollout = self.show(&written.view, id)?;
        Ok(Response::new(v1::StartRolloutResponse { revision: written.revision.0, rollout: Some(rollout) }))
    }

    /// Says the verb that `read` makes of the request's words, and shows the rollout as it is then.
    async fn steer(
        &self,
        request: Request<v1::RolloutVerbRequest>,
        read: fn(Words) -> Result<RolloutVerb, convert::FieldError>,
    ) -> Verb {
        let call = Call::of(&request);
        let v1::RolloutVerbRequest { rollout_id, options, node, until, full } = request.into_inner();
        let rollout = convert::required("rollout_id", &rollout_id)?;
        let node = if node.is_empty() {
            None
        } else {
            let view = self.0.read(&call, None).await?;
            Some(find_node(&view.state, &node)?.id)
        };
        let verb = read(Words { node, until: convert::wall_time("until", until)?, full })?;
        let written = self.0.write(&call, options, Command::Steer { rollout, verb }).await?;
        let Written { revision, view, .. } = written;
        let rollout = self.show(&view, rollout)?;
        Ok(Response::new(v1::RolloutVerbResponse { revision: revision.0, rollout: Some(rollout) }))
    }

    fn show(&self, view: &View, id: RolloutId) -> Result<v1::Rollout, Status> {
        let now = self.0.now(&self.0.consensus()?, view);
        let rollout = Wanted::Id(id).find(&view.state)?;
        Ok(convert::rollout(&view.state, rollout, now.cluster_time))
    }
}

/// What a request says beside the verb.
struct Words {
    node: Option<NodeId>,
    until: Option<WallTime>,
    full: bool,
}

/// Which rollout is asked for.
enum Wanted {
    Id(RolloutId),
    Of(GroupName),
}

impl Wanted {
    fn parse(rollout_id: &str, group: &str) -> Result<Self, Status> {
        match (rollout_id, group) {
            ("", "") => Err(convert::FieldError::new("rollout_id", "is missing; or name a group").into()),
            ("", group) => Ok(Self::Of(convert::required("group", group)?)),
            (id, _) => Ok(Self::Id(convert::required("rollout_id", id)?)),
        }
    }

    fn find<'a>(&self, state: &'a State) -> Result<&'a Rollout, Status> {
        match self {
            Self::Id(id) => state.rollouts().get(id).ok_or_else(|| convert::refused(&Rejection::UnknownRollout(*id))),
            Self::Of(group) if !state.groups().contains_key(group) => {
                Err(convert::refused(&Rejection::UnknownGroup(group.clone())))
            }
            Self::Of(group) => state
                .latest_rollout(group)
                .ok_or_else(|| convert::not_found("unknown_rollout", format!("group {group} has never had a rollout"))),
        }
    }
}

/// What a person may mean: a rollout's id, a group, a node's name or id.
fn resolve(state: &State, subject: &str) -> Option<Subject> {
    let rollout = subject.parse::<RolloutId>().ok().filter(|id| state.rollouts().contains_key(id));
    let group = || subject.parse::<GroupName>().ok().filter(|name| state.groups().contains_key(name));
    rollout
        .map(Subject::Rollout)
        .or_else(|| group().map(Subject::Group))
        .or_else(|| find_node(state, subject).ok().map(|node| Subject::Node(node.id)))
}
