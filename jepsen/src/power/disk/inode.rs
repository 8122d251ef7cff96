//! One file, folder or link: as it is, and as it would be after a power cut.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::power::disk::bytes::Bytes;

/// An inode's number.
pub type Ino = u64;

/// A name in a folder.
pub type Place = (Ino, OsString);

/// Something now, and what of it would survive.
#[derive(Debug, Clone, Default)]
pub struct Kept<T> {
    /// As programs see it.
    pub now: T,
    /// After a power cut.
    pub kept: T,
}

/// Who owns it, who may use it, and its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions, without the kind.
    pub mode: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The last read. Kept up only by who sets it.
    pub read_at: SystemTime,
    /// The last change of the content.
    pub written_at: SystemTime,
    /// The last change of anything.
    pub changed_at: SystemTime,
}

/// What an inode holds.
#[derive(Debug, Clone)]
pub enum Body {
    /// A regular file.
    File(Bytes),
    /// A folder's names.
    Folder(Kept<BTreeMap<OsString, Ino>>),
    /// A symbolic link's target.
    Link(PathBuf),
    /// A named pipe or a socket: nothing that could be lost.
    Special(Special),
}

/// What programs meet at under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
}

/// One inode.
#[derive(Debug, Clone)]
pub struct Inode {
    /// `kept` is `None` until anything of it has become durable.
    pub attributes: Kept<Option<Attributes>>,
    /// What it holds.
    pub body: Body,
    /// Under which names it can be found; a folder under one at most.
    pub places: Kept<BTreeSet<Place>>,
    /// How often somebody was told its number and has not given it back.
    pub looked_up: u64,
}

impl Inode {
    /// A new one, under no name yet.
    pub fn new(body: Body, attributes: Attributes) -> Self {
        let attributes = Kept { now: Some(attributes), kept: None };
        Self { attributes, body, places: Kept::default(), looked_up: 0 }
    }

    /// As programs see them.
    pub fn attributes(&self) -> Attributes {
        self.attributes.now.expect("every inode is made with attributes, and a cut removes those without")
    }

    /// Whether neither programs nor the disk after a power cut can reach it.
    pub fn is_garbage(&self) -> bool {
        self.looked_up == 0 && self.places.now.is_empty() && self.places.kept.is_empty()
    }
}
