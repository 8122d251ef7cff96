//! One connection to one Redis, with a deadline on everything.

use std::net::SocketAddr;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisError, RedisResult};

/// BOUND: on loopback a connection is there at once, or a process is frozen.
const CONNECTS_WITHIN: Duration = Duration::from_secs(1);

/// BOUND: an answer that takes longer counts as none. Above `WAIT`'s own limit, so that it may use that up.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// A connection that is used by one task only: `WAIT` speaks of the writes of its own connection.
pub struct Link {
    connection: MultiplexedConnection,
}

impl Link {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> RedisResult<Self> {
        let client = Client::open(format!("redis://{address}/"))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECTS_WITHIN))
            .set_response_timeout(Some(ANSWERS_WITHIN));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { connection })
    }

    /// Sends one command: its words in order.
    pub async fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> RedisResult<T> {
        command(words).query_async(&mut self.connection).await
    }

    /// Reads many keys at once.
    pub async fn get_all(&mut self, keys: &[&str]) -> RedisResult<Vec<Option<String>>> {
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.get(*key);
        }
        pipe.query_async(&mut self.connection).await
    }
}

/// Where a `MOVED` or `ASK` points to.
pub fn redirected_to(error: &RedisError) -> Option<SocketAddr> {
    let (address, _) = error.redirect_node()?;
    address.parse().ok()
}

fn command(words: &[&str]) -> redis::Cmd {
    let mut words = words.iter();
    let mut command = redis::cmd(words.next().copied().unwrap_or_default());
    for word in words {
        command.arg(*word);
    }
    command
}
