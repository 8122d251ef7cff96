//! What an operator says to a rollout that there is already: one verb, one command.

use clap::Args;
use rollcall_proto::v1;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::app::App;
use crate::args::{Format, ReadArgs, RolloutSubject, WriteArgs};
use crate::client::rollouts;
use crate::commands::rollout_status;
use crate::failure::{Exit, Failure, Outcome};
use crate::view::{At, RolloutView};
use crate::when::When;

/// What each verb takes.
#[derive(Debug, Args)]
pub struct VerbArgs {
    /// The rollout, or a group for its active one
    #[arg(value_name = "ID|GROUP")]
    pub subject: RolloutSubject,
    #[command(flatten)]
    pub write: WriteArgs,
}

/// What is said.
#[derive(Debug, Clone)]
pub enum Verb {
    Approve,
    Deny,
    Pause { until: Option<When> },
    Resume { until: Option<When> },
    Promote { full: bool },
    Next,
    Stop,
    Abort,
    Retry { node: Option<String> },
    Skip { node: String },
}

impl Verb {
    /// Says it, and shows what became of the rollout.
    pub async fn say(self, args: VerbArgs, app: &App) -> Outcome {
        let rollout_id = id_of(&args.subject, app).await?;
        let request = v1::RolloutVerbRequest {
            rollout_id,
            options: Some(args.write.into_wire()),
            node: self.node().unwrap_or_default().to_owned(),
            until: self.until().map(When::into_wire),
            full: matches!(self, Self::Promote { full: true }),
        };
        let response = app.client.call(request, async |channel, request| self.send(channel, request).await).await?;
        let rollout = response.rollout.ok_or_else(|| Failure::incomplete_answer("the rollout"))?;
        let view = At { revision: response.revision, item: RolloutView::from(rollout) };
        app.output.show_change(&view, &self.line(&view))?;
        if let Some(note) = self.note(&view.item).filter(|_| app.output.format() == Format::Table) {
            app.output.note(&note);
        }
        Ok(Exit::Done)
    }

    async fn send(
        &self,
        channel: Channel,
        request: Request<v1::RolloutVerbRequest>,
    ) -> Result<Response<v1::RolloutVerbResponse>, Status> {
        let mut rollouts = rollouts(channel);
        match self {
            Self::Approve => rollouts.approve(request).await,
            Self::Deny => rollouts.deny(request).await,
            Self::Pause { .. } => rollouts.pause(request).await,
            Self::Resume { .. } => rollouts.resume(request).await,
            Self::Promote { .. } => rollouts.promote(request).await,
            Self::Next => rollouts.next(request).await,
            Self::Stop => rollouts.stop(request).await,
            Self::Abort => rollouts.abort(request).await,
            Self::Retry { .. } => rollouts.retry(request).await,
            Self::Skip { .. } => rollouts.skip(request).await,
        }
    }

    fn node(&self) -> Option<&str> {
        match self {
            Self::Retry { node } => node.as_deref(),
            Self::Skip { node } => Some(node),
            _ => None,
        }
    }

    fn until(&self) -> Option<When> {
        match self {
            Self::Pause { until } | Self::Resume { until } => *until,
            _ => None,
        }
    }

    /// `r42 paused at revision 57, until 2026-12-01 02:00 UTC`.
    fn line(&self, view: &At<RolloutView>) -> String {
        let done = match self {
            Self::Approve => "approved",
            Self::Deny => "denied",
            Self::Pause { .. } => "paused",
            Self::Resume { .. } => "resumed",
            Self::Promote { full: false } => "promoted",
            Self::Promote { full: true } => "promoted in full",
            Self::Next => "may take its next step",
            Self::Stop => "stopped",
            Self::Abort => "aborted",
            Self::Retry { .. } => "tries again",
            Self::Skip { .. } => "goes on without it",
        };
        let rollout = &view.item;
        let until = self.until().map(|until| format!(", until {}", until.in_words())).unwrap_or_default();
        let now = if rollout.status == done || rollout.status == "running" {
            String::new()
        } else {
            format!("; it is {} now", rollout.status.replace('_', " "))
        };
        format!("{} {done} at revision {}{until}{now}", rollout.rollout_id, view.revision)
    }

    /// What a person has to do next, where it isn't what was asked for.
    fn note(&self, rollout: &RolloutView) -> Option<String> {
        match self {
            Self::Pause { .. } => None,
            Self::Resume { .. } if rollout.status == "paused" => {
                let id = &rollout.rollout_id;
                Some(format!("what paused it still holds; `rollcall explain {id}` says what"))
            }
            _ => rollout.asks_for(),
        }
    }
}

/// Of a group, its active rollout. Where that has ended meanwhile the coordinator refuses the verb, and a repeated
/// request is answered with its first outcome.
async fn id_of(subject: &RolloutSubject, app: &App) -> Result<String, Failure> {
    match subject {
        RolloutSubject::Id(id) => Ok(id.to_string()),
        RolloutSubject::Group(_) => {
            let latest = rollout_status::fetch(subject, &ReadArgs::default(), app).await?;
            Ok(latest.item.rollout_id)
        }
    }
}
