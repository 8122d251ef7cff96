//! `rollout status --watch`: a rollout to its end, as it happens.
//!
//! A terminal gets a bar per node ([`bars`]); anything else gets a line per change ([`lines`]); programs get one
//! document per change. A stream that breaks is opened again at another peer: the watch lasts as long as the rollout.

mod bars;
mod clock;
mod lines;
mod position;

use std::io::IsTerminal as _;
use std::time::Duration;

use rollcall_proto::v1;
use tokio_stream::StreamExt as _;
use tonic::{Status, Streaming};

use crate::app::App;
use crate::args::{Format, RolloutSubject};
use crate::client::{RECONNECT_AFTER, refusal_of_stream, rollouts};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, duration};
use crate::view::{At, RolloutView};

/// How often what moves by itself is drawn: clocks and soaks.
const TICK: Duration = Duration::from_millis(100);

/// How a watch is shown.
enum Screen<'a> {
    Bars(Box<bars::Bars>),
    Lines(lines::Lines<'a>),
    Documents(&'a Output),
}

/// Watches a rollout to its end. 0 only when it has succeeded.
pub async fn watch(subject: &RolloutSubject, app: &App) -> Outcome {
    let mut watch = Watch { app, subject: subject.clone(), screen: Screen::open(&app.output), last: None };
    let outcome = match app.config.watch_timeout {
        Some(limit) => match tokio::time::timeout(limit, watch.run()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(watch.timed_out(limit)),
        },
        None => watch.run().await,
    };
    watch.screen.close();
    outcome
}

struct Watch<'a> {
    app: &'a App,
    subject: RolloutSubject,
    screen: Screen<'a>,
    last: Option<RolloutView>,
}

impl Watch<'_> {
    async fn run(&mut self) -> Outcome {
        loop {
            match self.open_drawing().await {
                Ok(stream) => {
                    if let Some(ended) = self.follow(stream).await? {
                        return outcome_of(&ended, self.app).await;
                    }
                }
                // The cluster is away for a while: only before the first answer is that the end.
                Err(Failure::Unreachable(_) | Failure::TimedOut(_)) if self.last.is_some() => {}
                Err(failure) => return Err(failure),
            }
            self.screen.reconnecting();
            self.app.client.prefer_another();
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
    }

    /// Opens a stream; meanwhile clocks go on and the picture stays alive.
    async fn open_drawing(&mut self) -> Result<Streaming<v1::GetRolloutResponse>, Failure> {
        let opening = open(&self.subject, self.app);
        tokio::pin!(opening);
        let mut ticks = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                stream = &mut opening => return stream,
                _ = ticks.tick() => self.screen.tick(),
            }
        }
    }

    /// Shows what a stream brings; the rollout when it has ended, `None` when the stream has.
    async fn follow(&mut self, mut stream: Streaming<v1::GetRolloutResponse>) -> Result<Option<RolloutView>, Failure> {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            let message = tokio::select! {
                message = stream.next() => message,
                _ = ticks.tick() => {
                    self.screen.tick();
                    continue;
                }
            };
            let Some(view) = rollout_of(message)? else { return Ok(None) };
            // A group's rollout may be superseded: the one that was watched first is watched to its end.
            if let Ok(subject) = view.item.rollout_id.parse() {
                self.subject = subject;
            }
            self.screen.update(&view)?;
            if view.item.is_ended() {
                return Ok(Some(view.item));
            }
            self.last = Some(view.item);
        }
    }

    fn timed_out(&self, limit: Duration) -> Failure {
        Failure::TimedOut(match &self.last {
            Some(rollout) => format!(
                "{} is {} after {}, with {}; it goes on without being watched\n  `rollcall explain {}` says what it waits on",
                rollout.rollout_id,
                rollout.status.replace('_', " "),
                duration(limit),
                rollout.progress(),
                rollout.rollout_id,
            ),
            None => format!("nothing was heard of the rollout within {}", duration(limit)),
        })
    }
}

async fn open(subject: &RolloutSubject, app: &App) -> Result<Streaming<v1::GetRolloutResponse>, Failure> {
    let (rollout_id, group) = subject.to_wire();
    let request = v1::WatchRolloutRequest { rollout_id, group };
    app.client.call(request, async |channel, request| rollouts(channel).watch(request).await).await
}

/// `None` where the stream has ended or broken.
fn rollout_of(message: Option<Result<v1::GetRolloutResponse, Status>>) -> Result<Option<At<RolloutView>>, Failure> {
    match message {
        Some(Ok(response)) => {
            let rollout = response.rollout.ok_or_else(|| Failure::incomplete_answer("the rollout"))?;
            let item = RolloutView::from(rollout).at_moment(response.now.as_ref());
            Ok(Some(At { revision: response.revision, item }))
        }
        Some(Err(status)) => refusal_of_stream(status).map(|()| None),
        None => Ok(None),
    }
}

async fn outcome_of(rollout: &RolloutView, app: &App) -> Outcome {
    if rollout.status == "succeeded" {
        return Ok(Exit::Done);
    }
    let next = match rollout.status.as_str() {
        "superseded" => format!("`rollcall rollout status {}` shows the one that took its place", rollout.group),
        _ => format!("`rollcall explain {}` says where its nodes stand", rollout.group),
    };
    let why = why_ended(rollout, app).await.map(|why| format!(": {why}")).unwrap_or_default();
    let status = rollout.status.replace('_', " ");
    Err(Failure::Failed(format!("{} ended as {status}{why}\n  {next}", rollout.rollout_id)))
}

/// What the coordinator says of an ended rollout, where it can be had.
async fn why_ended(rollout: &RolloutView, app: &App) -> Option<String> {
    let request = v1::ExplainRequest { subject: rollout.rollout_id.clone(), options: None };
    let answer = app.client.call(request, async |channel, request| rollouts(channel).explain(request).await).await;
    let why = answer.ok()?.chain.into_iter().find(|link| link.reason == "ended")?.text;
    // The status has been said.
    let said = [format!("it has ended, {}: ", rollout.status), format!("{}: ", rollout.status)];
    let why = said.iter().fold(why.as_str(), |why, said| why.strip_prefix(said).unwrap_or(why));
    (why != rollout.status).then(|| why.to_owned())
}

impl<'a> Screen<'a> {
    fn open(output: &'a Output) -> Self {
        match output.format() {
            Format::Json | Format::Yaml => Self::Documents(output),
            Format::Table if std::io::stdout().is_terminal() => Self::Bars(Box::new(bars::Bars::new())),
            Format::Table => Self::Lines(lines::Lines::new(output)),
        }
    }

    fn update(&mut self, view: &At<RolloutView>) -> Result<(), Failure> {
        match self {
            Self::Bars(bars) => {
                bars.update(&view.item);
                Ok(())
            }
            Self::Lines(lines) => lines.update(&view.item),
            Self::Documents(output) => output.show_next(view),
        }
    }

    fn tick(&mut self) {
        if let Self::Bars(bars) = self {
            bars.draw();
        }
    }

    fn reconnecting(&mut self) {
        match self {
            Self::Bars(bars) => bars.reconnecting(),
            Self::Lines(lines) => lines.reconnecting(),
            Self::Documents(_) => {}
        }
    }

    fn close(&mut self) {
        if let Self::Bars(bars) = self {
            bars.close();
        }
    }
}
