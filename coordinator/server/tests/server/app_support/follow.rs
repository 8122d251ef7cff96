//! An agent that follows its orders, and goes to another peer when its session ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rollcall_proto::v1;
use rollcall_proto::v1::{peer_message, report, step_report};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::agent::{Identity, Session, on_step, prefetched};

/// What an agent lived through.
#[derive(Debug, Default)]
pub struct Diary {
    /// Each peer that hosted it.
    pub hosts: Vec<String>,
    /// Each step event it reported, in order.
    pub events: Vec<String>,
}

pub struct Follower {
    pub diary: Arc<Mutex<Diary>>,
    task: JoinHandle<()>,
}

impl Follower {
    /// Connects to the first of `peers`, and to the next whenever a session ends.
    pub fn start(identity: Identity, peers: Vec<String>) -> Self {
        let diary = Arc::<Mutex<Diary>>::default();
        let task = tokio::spawn(follow(identity, peers, diary.clone()));
        Self { diary, task }
    }

    pub fn hosts(&self) -> Vec<String> {
        self.diary.lock().unwrap().hosts.clone()
    }

    pub fn events(&self) -> Vec<String> {
        self.diary.lock().unwrap().events.clone()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(mut identity: Identity, peers: Vec<String>, diary: Arc<Mutex<Diary>>) {
    for peer in peers.iter().cycle() {
        let Ok(mut session) = Session::open(peer, identity.hello()).await else {
            // A pause between tries, not a wait for anything.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        diary.lock().unwrap().hosts.push(peer.clone());
        session.beat();
        while let Ok(message) = session.next().await {
            if let peer_message::Kind::Orders(orders) = message {
                for group in orders.groups {
                    act(&mut identity, &mut session, &group, &diary).await;
                }
            }
        }
    }
}

/// Does the one thing that the orders ask for now; what it reports brings the next orders.
async fn act(identity: &mut Identity, session: &mut Session, orders: &v1::GroupOrders, diary: &Mutex<Diary>) {
    if !orders.prefetch.is_empty() {
        session.say(prefetched(&orders.group, &orders.prefetch)).await;
    }
    let Some(step) = &orders.step else { return };
    let event = match (step.go(), step.phase()) {
        (v1::Go::TurnBack, _) => step_report::Event::TurnedBack(v1::TurnedBack {}),
        (v1::Go::Finish, _) => step_report::Event::Finished(v1::Finished { total_us: 1, ..v1::Finished::default() }),
        (_, v1::Phase::Granted) => step_report::Event::Accepted(v1::Accepted {}),
        (_, v1::Phase::Preparing) => step_report::Event::Prepared(v1::Prepared {}),
        (_, v1::Phase::Draining) => step_report::Event::Drained(v1::Drained {}),
        (_, v1::Phase::Stopping) => step_report::Event::Stopped(v1::Stopped { killed: false }),
        (_, v1::Phase::Installing) => step_report::Event::Installed(v1::Installed { hook_ran: true }),
        (_, v1::Phase::Starting) => {
            identity.release.clone_from(&step.to);
            identity.pid += 1_000;
            step_report::Event::Started(v1::Started { instance: Some(identity.instance()) })
        }
        _ => return,
    };
    diary.lock().unwrap().events.push(format!("{event:?}").split('(').next().unwrap_or_default().to_owned());
    let has_started = matches!(event, step_report::Event::Started(_));
    session.say(on_step(orders, event)).await;
    if has_started {
        session.say(report::Kind::Status(identity.status())).await;
    }
}
