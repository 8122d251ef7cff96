//! Load: clients that ask one thing after the other, each as soon as the last was answered.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::client::Client;
use crate::times::Times;

/// A write that was acknowledged.
#[derive(Debug, Clone, Copy)]
pub struct Acknowledged {
    pub client: usize,
    pub number: u64,
    /// What it was acknowledged with.
    pub revision: u64,
}

/// What some clients got done.
#[derive(Debug)]
pub struct Spell {
    pub took: Duration,
    pub times: Times,
    /// Of writes.
    pub acknowledged: Vec<Acknowledged>,
}

impl Spell {
    /// Answers per second.
    pub fn rate(&self) -> f64 {
        self.times.count() as f64 / self.took.as_secs_f64()
    }
}

/// All clients write for so long. Nothing is killed meanwhile, so an error ends the measurement.
pub async fn write_for(clients: Vec<Client>, run: &str, lasts: Duration) -> Result<Spell> {
    let run = run.to_owned();
    drive(clients, lasts, move |mut client, number, count| {
        let run = run.clone();
        async move {
            let revision = client.write(&run, number, count).await?;
            Ok((client, Some(Acknowledged { client: number, number: count, revision })))
        }
    })
    .await
}

/// All clients read for so long; stale: from what the peers have.
pub async fn read_for(clients: Vec<Client>, is_stale: bool, lasts: Duration) -> Result<Spell> {
    drive(clients, lasts, move |mut client, _, _| async move {
        client.read(is_stale).await?;
        Ok((client, None))
    })
    .await
}

/// `ask` gets a client, its number, and how often it asked before.
async fn drive<A>(
    clients: Vec<Client>,
    lasts: Duration,
    ask: impl Fn(Client, usize, u64) -> A + Clone + Send + 'static,
) -> Result<Spell>
where
    A: Future<Output = Result<(Client, Option<Acknowledged>), tonic::Status>> + Send,
{
    let began = Instant::now();
    let until = began + lasts;
    let tasks: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(number, mut client)| {
            let ask = ask.clone();
            tokio::spawn(async move {
                let (mut times, mut acknowledged) = (Vec::new(), Vec::new());
                let mut count = 0;
                while Instant::now() < until {
                    let asked = Instant::now();
                    let (back, written) = ask(client, number, count).await?;
                    times.push(asked.elapsed());
                    acknowledged.extend(written);
                    client = back;
                    count += 1;
                }
                Ok::<_, tonic::Status>((times, acknowledged))
            })
        })
        .collect();
    let (mut times, mut acknowledged) = (Vec::new(), Vec::new());
    for task in tasks {
        let (some, written) = task.await?.context("a client got an error")?;
        times.extend(some);
        acknowledged.extend(written);
    }
    if times.is_empty() {
        bail!("nobody got an answer");
    }
    // The last answers come after the end: they count, and so does their time.
    Ok(Spell { took: began.elapsed(), times: Times::new(times), acknowledged })
}
