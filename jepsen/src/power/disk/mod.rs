//! What a disk holds now, and what of it would still be there after a power cut. Pure: no clock, no IO.
//!
//! Everything that programs do changes what is there *now*. What is *kept* changes by syncs only (see `sync`), and a cut
//! makes the one out of the other. Real file systems write back more than they were asked for; this one only where it is
//! told to (see `cut`), so whoever forgot a sync loses.

mod bytes;
mod cut;
mod inode;
mod sync;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::SystemTime;

pub use bytes::Bytes;
pub use cut::Loss;
pub use inode::{Attributes, Body, Ino, Inode, Kept, Place, Special};

/// The root folder's number.
pub const ROOT: Ino = 1;

/// Which promises a sync gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// As ext4 with its journal: who syncs a file or a folder also keeps the names that lead to it.
    Journaled,
    /// As POSIX has it: a file's sync keeps its content, and only its folder's sync keeps its name.
    Strict,
}

/// Why an operation can't be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// ENOENT
    NotFound,
    /// EEXIST
    Exists,
    /// ENOTDIR
    NotAFolder,
    /// EISDIR
    IsAFolder,
    /// ENOTEMPTY
    NotEmpty,
    /// EINVAL
    Invalid,
}

/// A disk.
#[derive(Debug)]
pub struct Disk {
    durability: Durability,
    inodes: BTreeMap<Ino, Inode>,
    next: Ino,
}

impl Disk {
    /// An empty disk, whose root belongs to root.
    pub fn new(durability: Durability, now: SystemTime) -> Self {
        let attributes = Attributes { mode: 0o755, uid: 0, gid: 0, read_at: now, written_at: now, changed_at: now };
        let mut root = Inode::new(Body::Folder(Kept::default()), attributes);
        root.attributes.kept = Some(attributes);
        Self { durability, inodes: BTreeMap::from([(ROOT, root)]), next: ROOT + 1 }
    }

    /// An inode by its number.
    pub fn inode(&self, ino: Ino) -> Result<&Inode, Refusal> {
        self.inodes.get(&ino).ok_or(Refusal::NotFound)
    }

    /// The inode under a name.
    pub fn find(&self, folder: Ino, name: &OsStr) -> Result<Ino, Refusal> {
        self.names(folder)?.now.get(name).copied().ok_or(Refusal::NotFound)
    }

    /// The names in a folder, now.
    pub fn list(&self, folder: Ino) -> Result<Vec<(OsString, Ino)>, Refusal> {
        Ok(self.names(folder)?.now.iter().map(|(name, ino)| (name.clone(), *ino)).collect())
    }

    /// The folder that a folder lies in; the root in itself.
    pub fn parent(&self, folder: Ino) -> Result<Ino, Refusal> {
        Ok(self.inode(folder)?.places.now.first().map_or(ROOT, |(parent, _)| *parent))
    }

    /// A new inode under a new name.
    pub fn create(&mut self, place: Place, body: Body, attributes: Attributes) -> Result<Ino, Refusal> {
        match self.find(place.0, &place.1) {
            Ok(_) => return Err(Refusal::Exists),
            Err(Refusal::NotFound) => {}
            Err(other) => return Err(other),
        }
        let ino = self.next;
        self.next += 1;
        self.inodes.insert(ino, Inode::new(body, attributes));
        self.link_now(place, ino, attributes.changed_at);
        Ok(ino)
    }

    /// Another name for what is no folder.
    pub fn link(&mut self, ino: Ino, place: Place, at: SystemTime) -> Result<(), Refusal> {
        if matches!(self.inode(ino)?.body, Body::Folder(_)) {
            return Err(Refusal::IsAFolder);
        }
        if self.names(place.0)?.now.contains_key(&place.1) {
            return Err(Refusal::Exists);
        }
        self.link_now(place, ino, at);
        Ok(())
    }

    /// Removes a name of what is no folder.
    pub fn unlink(&mut self, place: &Place, at: SystemTime) -> Result<(), Refusal> {
        let ino = self.find(place.0, &place.1)?;
        if matches!(self.inode(ino)?.body, Body::Folder(_)) {
            return Err(Refusal::IsAFolder);
        }
        self.unlink_now(place, at);
        self.collect(ino);
        Ok(())
    }

    /// Removes an empty folder.
    pub fn remove_folder(&mut self, place: &Place, at: SystemTime) -> Result<(), Refusal> {
        let ino = self.find(place.0, &place.1)?;
        if !self.names(ino)?.now.is_empty() {
            return Err(Refusal::NotEmpty);
        }
        self.unlink_now(place, at);
        self.collect(ino);
        Ok(())
    }

    /// Gives something another place, in one go; what had that place is replaced, unless `keep_target` is asked for.
    pub fn rename(&mut self, from: &Place, to: &Place, keep_target: bool, at: SystemTime) -> Result<(), Refusal> {
        let ino = self.find(from.0, &from.1)?;
        let is_folder = matches!(self.inode(ino)?.body, Body::Folder(_));
        let replaced = self.names(to.0)?.now.get(&to.1).copied();
        if is_folder && self.is_below(to.0, ino) {
            return Err(Refusal::Invalid);
        }
        if let Some(replaced) = replaced {
            if keep_target {
                return Err(Refusal::Exists);
            }
            if replaced == ino {
                return Ok(());
            }
            match (&self.inode(replaced)?.body, is_folder) {
                (Body::Folder(names), true) if names.now.is_empty() => {}
                (Body::Folder(_), true) => return Err(Refusal::NotEmpty),
                (Body::Folder(_), false) => return Err(Refusal::IsAFolder),
                (_, true) => return Err(Refusal::NotAFolder),
                (_, false) => {}
            }
            self.unlink_now(to, at);
        }
        self.unlink_now(from, at);
        self.link_now(to.clone(), ino, at);
        if let Some(replaced) = replaced {
            self.collect(replaced);
        }
        Ok(())
    }

    /// Part of a file.
    pub fn read(&self, ino: Ino, offset: usize, length: usize) -> Result<&[u8], Refusal> {
        match &self.inode(ino)?.body {
            Body::File(bytes) => Ok(bytes.read(offset, length)),
            Body::Folder(_) => Err(Refusal::IsAFolder),
            Body::Link(_) | Body::Special(_) => Err(Refusal::Invalid),
        }
    }

    /// Writes into a file.
    pub fn write(&mut self, ino: Ino, offset: usize, data: &[u8], at: SystemTime) -> Result<(), Refusal> {
        self.change(ino, at, |bytes| bytes.write(offset, data))
    }

    /// Shortens a file or adds zeros.
    pub fn resize(&mut self, ino: Ino, length: usize, at: SystemTime) -> Result<(), Refusal> {
        self.change(ino, at, |bytes| bytes.resize(length))
    }

    /// Changes attributes.
    pub fn set(&mut self, ino: Ino, change: impl FnOnce(&mut Attributes)) -> Result<(), Refusal> {
        let inode = self.inode_mut(ino)?;
        let mut attributes = inode.attributes();
        change(&mut attributes);
        inode.attributes.now = Some(attributes);
        Ok(())
    }

    /// Somebody outside knows the number now.
    pub fn looked_up(&mut self, ino: Ino) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.looked_up += 1;
        }
    }

    /// Somebody outside gave the number back, so many times.
    pub fn forgotten(&mut self, ino: Ino, times: u64) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.looked_up = inode.looked_up.saturating_sub(times);
        }
        self.collect(ino);
    }

    fn change(&mut self, ino: Ino, at: SystemTime, how: impl FnOnce(&mut Bytes)) -> Result<(), Refusal> {
        match &mut self.inode_mut(ino)?.body {
            Body::File(bytes) => how(bytes),
            Body::Folder(_) => return Err(Refusal::IsAFolder),
            Body::Link(_) | Body::Special(_) => return Err(Refusal::Invalid),
        }
        self.set(ino, |attributes| (attributes.written_at, attributes.changed_at) = (at, at))
    }

    fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode, Refusal> {
        self.inodes.get_mut(&ino).ok_or(Refusal::NotFound)
    }

    fn names(&self, folder: Ino) -> Result<&Kept<BTreeMap<OsString, Ino>>, Refusal> {
        match &self.inode(folder)?.body {
            Body::Folder(names) => Ok(names),
            Body::File(_) | Body::Link(_) | Body::Special(_) => Err(Refusal::NotAFolder),
        }
    }

    fn names_mut(&mut self, folder: Ino) -> Option<&mut Kept<BTreeMap<OsString, Ino>>> {
        match &mut self.inodes.get_mut(&folder)?.body {
            Body::Folder(names) => Some(names),
            Body::File(_) | Body::Link(_) | Body::Special(_) => None,
        }
    }

    fn link_now(&mut self, place: Place, ino: Ino, at: SystemTime) {
        if let Some(names) = self.names_mut(place.0) {
            names.now.insert(place.1.clone(), ino);
        }
        self.touch_folder(place.0, at);
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.places.now.insert(place);
        }
    }

    fn unlink_now(&mut self, place: &Place, at: SystemTime) {
        let ino = self.names_mut(place.0).and_then(|names| names.now.remove(&place.1));
        self.touch_folder(place.0, at);
        if let Some(inode) = ino.and_then(|ino| self.inodes.get_mut(&ino)) {
            inode.places.now.remove(place);
        }
    }

    fn touch_folder(&mut self, folder: Ino, at: SystemTime) {
        // It exists: a name in it was just changed.
        let _ = self.set(folder, |attributes| (attributes.written_at, attributes.changed_at) = (at, at));
    }

    /// Whether a folder is the other one or lies below it.
    fn is_below(&self, folder: Ino, above: Ino) -> bool {
        let mut at = folder;
        while at != above {
            match self.parent(at) {
                Ok(parent) if at != ROOT => at = parent,
                _ => return false,
            }
        }
        true
    }

    /// Gives the room back of what nobody can reach.
    fn collect(&mut self, ino: Ino) {
        if ino != ROOT && self.inodes.get(&ino).is_some_and(Inode::is_garbage) {
            self.inodes.remove(&ino);
        }
    }
}

#[cfg(test)]
mod tests;
