//! Where a peer is.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// A peer's gRPC address, `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAddress(String);

impl PeerAddress {
    /// An address that is known to be one.
    pub fn from_static(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> Self {
        Self(address.to_string())
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for PeerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let is_host = |host: &str| {
            !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '@' | '?' | '#'))
        };
        match text.rsplit_once(':') {
            Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(format!("{text:?} is not a peer's address: expected host:port, like 10.0.0.1:7400")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port() {
        for good in ["127.0.0.1:7400", "peer-1.example:1", "[::1]:7400"] {
            assert!(good.parse::<PeerAddress>().is_ok(), "{good}");
        }
        for bad in ["", "peer", "peer:", ":7400", "peer:x", "peer:0", "peer:70000", "http://peer:7400", "a b:1"] {
            assert!(bad.parse::<PeerAddress>().is_err(), "{bad}");
        }
    }
}
