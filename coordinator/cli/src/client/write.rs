//! What goes with every request that changes something.

use nix::unistd::{User, geteuid, gethostname};
use rollcall_proto::v1::WriteOptions;
use uuid::Uuid;

use crate::args::WriteArgs;

impl WriteArgs {
    /// As requests carry it. Made once per command, so that all its tries have one request id.
    pub fn into_wire(self) -> WriteOptions {
        WriteOptions {
            reason: self.reason.unwrap_or_default(),
            request_id: self
                .request_id
                .map_or_else(|| Uuid::new_v4().to_string(), |request_id| request_id.as_str().to_owned()),
            expected_revision: self.expected_revision.unwrap_or(0),
            actor: self.actor.filter(|actor| !actor.is_empty()).unwrap_or_else(operator),
        }
    }
}

/// Who asks, unless they say so: `user@host`, as the operating system knows them.
pub fn operator() -> String {
    let uid = geteuid();
    let user = match User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        _ => format!("uid-{uid}"),
    };
    let host = gethostname().map_or_else(|_| "unknown-host".to_owned(), |host| host.to_string_lossy().into_owned());
    format!("{user}@{host}")
}
