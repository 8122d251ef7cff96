//! A peer: the real one, on a simulated machine, and somebody who looks at all that it applies.

use std::sync::Arc;

use rollcall_coordinator::app::App;
use rollcall_coordinator::config::Config;
use rollcall_coordinator::raft::{Consensus, Tuning};
use rollcall_ident::Revision;
use tokio::sync::watch;

use crate::judge::Judge;
use crate::machines::Machines;
use crate::network::{self, PORT};

/// BOUND: records of a history that are looked at at once.
const PAGE: usize = 512;

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
            if leads.is_some_and(|leadership| leadership.is_me) {
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
