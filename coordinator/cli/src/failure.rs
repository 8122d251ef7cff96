//! How a command ends when it doesn't do what it was asked: the exit code, and what the operator reads.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 1 | refused, or failed |
//! | 2 | the call or an input file can't be used; nothing was sent |
//! | 3 | no peer can be reached, or there is no leader |
//! | 4 | timed out |

use std::fmt;
use std::io;

/// A command's result: its exit code when it did what it was asked.
pub type Outcome = Result<Exit, Failure>;

/// How a command that worked tells what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0.
    Done,
    /// 1: it worked, and what it was to report on isn't well. What is wrong has been printed.
    NotWell,
    /// 3: it worked, and found the cluster without a leader.
    NoLeader,
    /// 10: a plan that would change something.
    Changes,
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NotWell => 1,
            Self::NoLeader => 3,
            Self::Changes => 10,
        }
    }
}

/// Why a command didn't do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// The cluster's answer is no, and why.
    Refused {
        /// The enum's name, as `google.rpc.ErrorInfo` carries it; else the gRPC code's.
        reason: String,
        /// For people.
        message: String,
        /// What to do next.
        hint: Option<String>,
    },
    /// Something went wrong on this side, or a peer's answer makes no sense.
    Failed(String),
    /// The call or an input file can't be used. Nothing was sent.
    Usage(String),
    /// No peer can be reached, or none has a leader.
    Unreachable(String),
    /// Nothing came in the time that was given.
    TimedOut(String),
    /// Whoever read the output is gone: no news for anybody.
    OutputClosed,
}

impl Failure {
    /// The process's exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Refused { .. } | Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
            Self::TimedOut(_) => 4,
        }
    }

    /// A failure on this side, with its chain of causes.
    pub fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self::Failed(format!("{:#}", error.into()))
    }

    /// A peer's answer lacks what the API promises.
    pub fn incomplete_answer(what: &str) -> Self {
        Self::Failed(format!(
            "the peer's answer lacks {what}; do it and this command have the same version? see `rollcall cluster status`"
        ))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { reason, message, hint } => {
                write!(f, "refused: {reason}: {message}")?;
                hint.as_ref().map_or(Ok(()), |hint| write!(f, "\n  {hint}"))
            }
            Self::Failed(message) => write!(f, "failed: {message}"),
            Self::Usage(message) => write!(f, "error: {message}"),
            Self::Unreachable(message) => write!(f, "unreachable: {message}"),
            Self::TimedOut(message) => write!(f, "timed out: {message}"),
            Self::OutputClosed => Ok(()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::OutputClosed } else { Self::failed(error) }
    }
}
