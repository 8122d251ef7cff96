//! A peer: the real one, on a simulated machine, and somebody who looks at all that it applies.

use std::sync::Arc;
use std::time::Duration;

use rollcall_coordinator::app::App;
use rollcall_coordinator::config::Config;
use rollcall_coordinator::raft::{Consensus, Tuning};
use rollcall_ident::Revision;
use rollcall_rollout::{Command, Proposal};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::judge::Judge;
use crate::machines::Machines;
use crate::network::{self, PORT};

/// BOUND: records of a history that are looked at at once.
const PAGE: usize = 512;

/// How often the planner that errs looks whether it is to.
const LOOK: Duration = Duration::from_millis(100);

/// Where a peer is reached.
#[must_use]
pub fn address(name: &str) -> String {
    format!("{name}:{PORT}")
}

/// Runs a peer's process until it ends by itself; the machine tells what becomes of it.
pub async fn run(peer: usize, machines: Arc<Machines>, tuning: Tuning, judge: Judge) -> turmoil::Result {
    machines.boot(peer);
    let (name, data_dir) = machines.with(peer, |machine, _| (machine.name.clone(), machine.data_dir.clone()));
    judge.restarted(&name);
    judge.note(&name, "begins");
    let config = Config {
        machine_id: format!("m-{name}"),
        data_dir,
        grpc: address(&name),
        advertise: Some(address(&name)),
        http: String::new(),
        tuning,
    };
    let listens = (std::net::Ipv4Addr::UNSPECIFIED, PORT).into();
    match App::start_on(config, listens, network::listen().await?).await {
        Ok(app) => {
            tokio::spawn(observe(name.clone(), app.peer().running(), judge.clone()));
            tokio::spawn(err(app.peer().running(), machines, judge.clone()));
            app.failed().await;
            judge.note(&name, "has failed");
            judge.count("peers failed");
        }
        Err(error) => {
            judge.note(&name, format_args!("doesn't start: {}", describe(&error)));
            judge.count("peers not started");
        }
    }
    Ok(())
}

/// What an error says, without the paths of this machine.
fn describe(error: &rollcall_coordinator::app::AppError) -> String {
    let text = error.to_string();
    text.split(['/', ':']).next().unwrap_or_default().to_owned()
}

/// A planner that errs: where this peer leads, it proposes what it is told to, right or wrong.
async fn err(mut running: watch::Receiver<Option<Consensus>>, machines: Arc<Machines>, judge: Judge) {
    let Ok(running) = running.wait_for(Option::is_some).await.map(|running| running.clone()) else { return };
    let Some(consensus) = running else { return };
    loop {
        sleep(LOOK).await;
        if !consensus.leadership().borrow().is_some_and(|leadership| leadership.is_me) {
            continue;
        }
        let Some(name) = machines.take_err() else { continue };
        let view = consensus.state();
        let node = view.state.nodes().values().find(|node| node.name.as_str() == name).map(|node| node.id);
        let rollout = view.state.rollouts().values().find(|rollout| rollout.is_active()).map(|rollout| rollout.id);
        let (Some(rollout), Some(node)) = (rollout, node) else { continue };
        let command = Command::GrantToken { rollout, node, based_on: view.state.revision() };
        let outcome = consensus.propose(Proposal::internal(command)).await.map(|applied| applied.outcome.is_ok());
        judge.count("errors in planning");
        judge.note("--", format_args!("the planner chose {name}, granted: {outcome:?}"));
    }
}

/// Shows the judge each state that the peer applies, and each record of its history.
async fn observe(name: String, mut running: watch::Receiver<Option<Consensus>>, judge: Judge) {
    let Ok(running) = running.wait_for(Option::is_some).await.map(|running| running.clone()) else { return };
    let Some(consensus) = running else { return };
    let mut watch = consensus.applied();
    let mut view = watch.current();
    let mut leader = None;
    let mut next = Revision(1);
    loop {
        judge.applied(&name, &view.state);
        let leads = *consensus.leadership().borrow();
        let now = leads.map(|leadership| (leadership.peer, leadership.term, leadership.is_me));
        if now != leader {
            leader = now;
            judge.note(&name, format_args!("sees as leader {now:?}"));
            let is_me = leads.is_some_and(|leadership| leadership.is_me);
            judge.leads(&name, is_me);
            if is_me {
                judge.count("leaders");
            }
        }
        while let Ok(page) = consensus.history().read(next, PAGE).await {
            page.records.iter().for_each(|record| judge.recorded(&name, record));
            if page.next <= next || page.records.is_empty() {
                break;
            }
            next = page.next;
        }
        view = match watch.changed().await {
            Some(view) => view,
            None => return,
        };
    }
}
