//! A node comes back to a rollout that was paused, stopped, superseded, finished or aborted meanwhile: to the agent those are
//! orders that stand, are turned back, have another step, or none. Nothing is skipped, nothing is done twice.

use rollcall_proto::v1::Go;

use crate::support::{Agent, Coordinator, Machine, Package, eventually, step};

/// What became of the rollout while the node was away.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    /// It runs, or was paused or stopped behind commit point B: the step goes on.
    Stands,
    /// Paused or stopped before commit point B, aborted behind it.
    TurnedBack,
    /// It has ended without the node: skipped, revoked, finished, removed.
    Gone,
    /// Another rollout has granted the node its next step.
    Superseded,
}

const ALL: [Meanwhile; 4] = [Meanwhile::Stands, Meanwhile::TurnedBack, Meanwhile::Gone, Meanwhile::Superseded];

async fn running(old: Package, new: Package) -> (Machine, Coordinator, Agent) {
    let machine = Machine::with(&[old, new]);
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    (machine, coordinator, agent)
}

async fn until_logged(machine: &Machine, text: &str) {
    eventually(text, || machine.log().contains(text).then_some(())).await;
}

fn goes_on(coordinator: &Coordinator, meanwhile: Meanwhile) {
    match meanwhile {
        Meanwhile::Stands => {}
        Meanwhile::TurnedBack => coordinator.go(Go::TurnBack),
        Meanwhile::Gone => coordinator.order(|orders| orders.step = None),
        Meanwhile::Superseded => {
            coordinator.drive(true);
            coordinator.order(|orders| orders.step = Some(step(1, Some(1), 21, Go::Prepare)));
        }
    }
}

/// The node goes away at commit point B, drained.
#[tokio::test]
async fn back_from_before_the_stop() {
    for meanwhile in ALL {
        let (machine, coordinator, agent) = running(Package::new(1), Package::new(2)).await;
        coordinator.order_step_up_to(2, Some(1), 20, Go::Drain);
        coordinator.until_event("drained", 2).await;
        agent.kill();
        coordinator.drive(false);
        goes_on(&coordinator, meanwhile);
        let _agent = machine.start(&coordinator);
        match meanwhile {
            Meanwhile::Stands => {
                coordinator.drive(true);
                coordinator.until_finished(20).await;
            }
            Meanwhile::TurnedBack => {
                coordinator.until_event("turned_back", 1).await;
            }
            Meanwhile::Gone => until_logged(&machine, "step closed group=app.default ending=Withdrawn").await,
            Meanwhile::Superseded => {
                coordinator.until_finished(21).await;
            }
        }
        let goes_on = matches!(meanwhile, Meanwhile::Stands);
        // A step of its own of the first release has drained it once more, and brought it up again.
        let again = usize::from(matches!(meanwhile, Meanwhile::Superseded));
        assert_eq!(machine.starts("drain", 1), 1 + again, "{meanwhile:?}");
        assert_eq!(machine.starts("run", 1), 1 + again, "{meanwhile:?}");
        assert_eq!(machine.starts("install", 2), usize::from(goes_on), "{meanwhile:?}");
        // Once for the first step, once for each drain that was undone or has succeeded.
        let undrained = machine.starts("undrain", 1) + machine.starts("undrain", 2);
        assert_eq!(undrained, 2 + again, "{meanwhile:?}");
    }
}

/// The machine goes away inside `install`, with everything that runs on it.
#[tokio::test]
async fn back_from_after_the_stop() {
    for meanwhile in ALL {
        let (machine, coordinator, agent) = running(Package::new(1), Package::new(2).gate("install")).await;
        coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
        machine.until_started("install", 2, 1).await;
        agent.kill();
        machine.kill_everything();
        machine.open("install");
        coordinator.drive(false);
        goes_on(&coordinator, meanwhile);
        let _agent = machine.start(&coordinator);
        match meanwhile {
            Meanwhile::Stands => {
                coordinator.drive(true);
                coordinator.until_finished(20).await;
            }
            Meanwhile::TurnedBack => {
                coordinator.until_event("turned_back", 1).await;
            }
            Meanwhile::Gone => until_logged(&machine, "step closed group=app.default ending=Withdrawn").await,
            Meanwhile::Superseded => {
                coordinator.until_finished(21).await;
            }
        }
        // The install that was cut off is settled where the step goes on, and not even begun where it doesn't.
        let (installs, runs) = match meanwhile {
            Meanwhile::Stands => (2, 1),
            Meanwhile::TurnedBack | Meanwhile::Gone | Meanwhile::Superseded => (1, 0),
        };
        assert_eq!((machine.starts("install", 2), machine.starts("run", 2)), (installs, runs), "{meanwhile:?}");
        assert_eq!((machine.starts("drain", 1), machine.starts("pre-stop", 1)), (1, 1), "{meanwhile:?}");
        let brought_up = usize::from(matches!(meanwhile, Meanwhile::Superseded));
        assert_eq!(machine.starts("run", 1), 1 + brought_up, "{meanwhile:?}");
    }
}

/// The node's own part was done; what it has reported nobody has answered.
#[tokio::test]
async fn back_to_a_rollout_that_has_ended_without_an_answer() {
    let (machine, coordinator, agent) = running(Package::new(1), Package::new(2)).await;
    coordinator.mute(true);
    coordinator.run_step(2, Some(1), 20).await;
    agent.kill();
    coordinator.mute(false);
    coordinator.order(|orders| orders.step = None);
    let _agent = machine.start(&coordinator);
    coordinator.until_event("finished", 3).await;
    coordinator.until("version 2 to be healthy", |said| said.hellos.len() == 2 && said.is_healthy(2)).await;
    for (hook, version) in [("drain", 1), ("install", 2), ("run", 2), ("undrain", 2)] {
        assert_eq!(machine.starts(hook, version), 1, "starts of {hook}");
    }
}
