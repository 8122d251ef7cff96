//! The fake's rollouts.

use rollcall_proto::v1::rollout_service_server::RolloutService;
use rollcall_proto::v1::*;
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status};

use super::{Answers, Service};
use crate::samples::{self, REVISION};

impl Service {
    fn verb(&self, name: &str, request: RolloutVerbRequest) -> Result<Response<RolloutVerbResponse>, Status> {
        self.answer(|script| {
            let until = request.until.map(|until| format!("until {}", until.seconds)).unwrap_or_default();
            let full = if request.full { "in full" } else { "" };
            let words = [name, &request.rollout_id, &request.node, &until, full];
            let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
            script.verbs.push(words.join(" "));
            script.writes.extend(request.options);
            RolloutVerbResponse { revision: REVISION, rollout: script.rollout.clone() }
        })
    }
}

#[tonic::async_trait]
impl RolloutService for Service {
    type WatchStream = Answers<GetRolloutResponse>;

    async fn plan(&self, _: Request<PlanRolloutRequest>) -> Result<Response<PlanRolloutResponse>, Status> {
        self.answer(|script| {
            let mut plan = samples::plan();
            if script.is_plan_empty {
                plan.rounds.clear();
                plan.blockers.clear();
            }
            plan
        })
    }

    async fn start(&self, request: Request<StartRolloutRequest>) -> Result<Response<StartRolloutResponse>, Status> {
        let answer = StartRolloutResponse { revision: REVISION, rollout: Some(samples::rollout()) };
        self.write(request.into_inner().options, answer)
    }

    async fn get(&self, _: Request<GetRolloutRequest>) -> Result<Response<GetRolloutResponse>, Status> {
        self.answer(|script| GetRolloutResponse {
            revision: REVISION,
            now: samples::ago(0),
            rollout: script.rollout.clone(),
        })
    }

    async fn list(&self, _: Request<ListRolloutsRequest>) -> Result<Response<ListRolloutsResponse>, Status> {
        self.answer(|script| ListRolloutsResponse {
            revision: REVISION,
            rollouts: script.rollout.clone().into_iter().collect(),
            next_page_token: String::new(),
        })
    }

    async fn watch(&self, _: Request<WatchRolloutRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.answer(|script| {
            let answers = script.watches.pop_front().unwrap_or_default().into_iter().map(|answer| {
                answer.map(|rollout| GetRolloutResponse {
                    revision: REVISION,
                    now: samples::ago(0),
                    rollout: Some(rollout),
                })
            });
            let answers: Vec<_> = answers.collect();
            let stays_open = answers.last().is_none_or(Result::is_ok);
            let answers = tokio_stream::iter(answers).throttle(script.pace);
            // A watch that nothing ends stays open, as the real one does.
            let stream: Answers<_> =
                if stays_open { Box::pin(answers.chain(tokio_stream::pending())) } else { Box::pin(answers) };
            stream
        })
    }

    async fn pause(&self, request: Request<RolloutVerbRequest>) -> Result<Response<RolloutVerbResponse>, Status> {
        self.verb("pause", request.into_inner())
    }

    async fn resume(&self, request: Request<RolloutVerbRequest>) -> Result<Response<RolloutVerbResponse>, Status> {
        self.verb("resume", request.into_inner())
    }

    async fn stop(&self, request: Request<RolloutVerbRequest>) -> Result<Response<RolloutVerbResponse>, Status> {
        self.verb("stop", request.into_inner())
    }

    async fn retry(&self, request: Request<RolloutVerbRequest>) -> Result<Response<RolloutVerbResponse>, Status> {
        self.verb("retry", request.into_inner())
    }

    async fn approve(&self, request: Request<RolloutVerbRequest>) -> Result<Response<RolloutVerbResponse>, Status> {
        self.verb("approve", request.into_inner())
    }

    async fn deny(&self, request: Request<RolloutVerbRequest>) -> Result<Response<RolloutVerbResponse>, Status> {
        self.verb("deny", request.into_inner())
    }

    async fn promote(&self, request: Request<RolloutVerbRequest>) -> Result<Response<RolloutVerbResponse>, Status> {
        self.verb("promote", request.into_inner())
    }

    async fn next(&self, request: Request<RolloutVerbRequest>) -> Result<Response<RolloutVerbResponse>, Status> {
        self.verb("next", request.into_inner())
    }

    async fn abort(&self, request: Request<RolloutVerbRequest>) -> Result<Response<RolloutVerbResponse>, Status> {
        self.verb("abort", request.into_inner())
    }

    async fn skip(&self, request: Request<RolloutVerbRequest>) -> Result<Response<RolloutVerbResponse>, Status> {
        self.verb("skip", request.into_inner())
    }

    async fn undo(&self, request: Request<UndoRolloutRequest>) -> Result<Response<StartRolloutResponse>, Status> {
        let request = request.into_inner();
        self.0.lock().unwrap().asked.push(format!("undo {} {}", request.group, request.to_rollout_id));
        let rollout = Rollout { rollout_id: "r1043".to_owned(), target: samples::OLD.to_owned(), ..samples::rollout() };
        self.write(request.options, StartRolloutResponse { revision: REVISION, rollout: Some(rollout) })
    }

    async fn explain(&self, _: Request<ExplainRequest>) -> Result<Response<ExplainResponse>, Status> {
        self.answer(|script| {
            let ended = script.end.clone().map(|text| Explanation {
                subject: "rollout r1000".to_owned(),
                reason: "ended".to_owned(),
                text,
                ..Explanation::default()
            });
            let chain = ended.map_or_else(samples::explanations, |ended| vec![ended]);
            ExplainResponse { revision: REVISION, now: samples::ago(0), chain }
        })
    }
}
