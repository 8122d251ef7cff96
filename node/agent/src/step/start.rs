//! Starting the target, and watching it until the orders say that it has succeeded.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use rollcall_ident::ReleaseIdent;
use rollcall_steps::{
    Action, Event, Facts, Failure, FailureReason, Hook, Instance, Milestone, Phase, StepState, decide,
};

use super::engine::{Engine, failure};
use super::hooks::failure_of;
use crate::disk::JournalError;
use crate::hooks::{Exit, HookReason, StepFacts, TAIL_BYTES};

/// A new release whose process exits so often won't come up by being started once more.
const CRASH_LOOP_EXITS: u64 = 5;

impl Engine {
    /// `init`, then `run`. From its intent on the target is the current release.
    pub(super) async fn start(&mut self, with_init: bool) -> Result<(), JournalError> {
        self.begin(Phase::Starting).await?;
        let step = self.step();
        if let Some(instance) = self.instance_of(&step.opened.to) {
            // Started by an earlier life of the agent that didn't come to record it.
            return self.note_instance(instance).await;
        }
        let release = match self.target().await {
            Ok(release) => Arc::new(release),
            Err(failure) => return self.fail(Phase::Starting, failure).await,
        };
        self.context.hand_over(&release);
        if with_init
            && !self.is_to_end()
            && let Some(end) = self.run_hook(&release, Hook::Init, Phase::Starting).await?
        {
            if end.exit != Exit::Code(0) {
                return self.fail(Phase::Starting, failure_of(Hook::Init, end)).await;
            }
            if self.is_to_end() {
                self.append(&[Event::HookEnded { hook: Hook::Init }]).await?;
            }
        }
        // INVARIANT: who has lost the grant starts nothing any more.
        if self.is_to_end() {
            return Ok(());
        }
        let facts = StepFacts::of(&step, Phase::Starting);
        self.exits_before = self.process.borrow().exit_count;
        match self.supervisor.start(release, HookReason::Step(step.opened.reason), facts).await {
            Ok(instance) => self.note_instance(instance).await,
            Err(error) => self.fail(Phase::Starting, failure(FailureReason::HookNotExecutable, error)).await,
        }
    }

    fn instance_of(&self, release: &ReleaseIdent) -> Option<Instance> {
        self.process.borrow().instance.clone().filter(|instance| instance.release == *release)
    }

    async fn note_instance(&mut self, instance: Instance) -> Result<(), JournalError> {
        self.clock.note_started();
        self.append(&[Event::NewInstance(instance)]).await?;
        self.urge_status();
        Ok(())
    }

    /// Watches until something is to be done: other orders, a new instance after an exit, a crash loop.
    pub(super) async fn verify(&mut self, step: &StepState) -> Result<(), JournalError> {
        let recorded = step.milestones.iter().rev().find_map(|milestone| match milestone {
            Milestone::Started(instance) => Some(instance.clone()),
            _ => None,
        });
        loop {
            let seen = self.process.borrow_and_update().clone();
            if seen.exit_count.saturating_sub(self.exits_before) >= CRASH_LOOP_EXITS {
                let failure = self.crash_loop(seen.last_exit.as_deref());
                return self.fail(Phase::Verifying, failure).await;
            }
            if let Some(instance) = seen
                .instance
                .filter(|instance| instance.release == step.opened.to && Some(instance) != recorded.as_ref())
            {
                return self.note_instance(instance).await;
            }
            let facts = Facts { boot_id: self.context.node.boot_id };
            if decide(step, &facts, self.wanted(step)) != Action::Verify {
                self.clock.note_finish();
                return Ok(());
            }
            self.note_if_good();
            tokio::select! {
                _ = self.orders.changed() => {}
                _ = self.process.changed() => {}
                _ = self.health.changed() => {}
            }
        }
    }

    fn note_if_good(&mut self) {
        let rules = self.orders.borrow().as_ref().map(|orders| orders.health).unwrap_or_default();
        let health = self.health.borrow_and_update().clone();
        if health.instance.is_some() && health.health.is_good(rules) {
            self.clock.note_good();
        }
    }

    fn crash_loop(&self, last_exit: Option<&str>) -> Failure {
        let last = last_exit.unwrap_or("it has exited");
        Failure {
            reason: FailureReason::CrashLoop,
            detail: format!("the service has ended {CRASH_LOOP_EXITS} times since its start; at last {last}"),
            output: last_output(&self.context.layout.log("run")),
        }
    }
}

/// The end of the service's own log.
fn last_output(log: &std::path::Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES as u64)))?;
        let mut tail = Vec::new();
        file.take(TAIL_BYTES as u64).read_to_end(&mut tail)?;
        Ok(tail)
    };
    read().map(|tail| String::from_utf8_lossy(&tail).into_owned()).unwrap_or_default()
}
