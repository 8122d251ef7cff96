//! What a sync keeps.
//!
//! * A file's sync keeps its content, its length and its attributes, and not its name, unless the disk is `Journaled`.
//! * A folder's sync keeps the names in it: those that were added, and that others are gone.
//! * A rename is kept as a whole or not at all, whichever of its two folders is synced. Each file system in use promises
//!   that, though POSIX doesn't.

use std::ffi::OsString;

use crate::power::disk::{Body, Disk, Durability, Ino, Inode, Place, Refusal};

impl Disk {
    /// fsync or fdatasync of a file, a folder, or anything else that can be open.
    pub fn sync(&mut self, ino: Ino) -> Result<(), Refusal> {
        let inode = self.inode_mut(ino)?;
        inode.attributes.kept = inode.attributes.now;
        let mut changed: Vec<OsString> = Vec::new();
        match &mut inode.body {
            Body::File(bytes) => bytes.keep(),
            Body::Folder(names) => {
                let all = names.now.keys().chain(names.kept.keys());
                changed.extend(all.filter(|name| names.now.get(*name) != names.kept.get(*name)).cloned());
            }
            Body::Link(_) | Body::Special(_) => {}
        }
        for name in changed {
            self.keep_name(&(ino, name));
        }
        if self.durability == Durability::Journaled {
            self.keep_way_to(ino);
        }
        Ok(())
    }

    /// fsync that failed: what the file holds is taken for kept, and lost as soon as the kernel drops its copy of it.
    pub fn fail_sync(&mut self, ino: Ino) {
        if let Ok(Inode { body: Body::File(bytes), .. }) = self.inode_mut(ino) {
            bytes.give_up();
        }
    }

    /// The names that lead from the root to it.
    fn keep_way_to(&mut self, ino: Ino) {
        let mut open = vec![ino];
        while let Some(ino) = open.pop() {
            let Ok(inode) = self.inode(ino) else { continue };
            let places: Vec<Place> = inode.places.now.iter().cloned().collect();
            let gone = inode.places.kept.difference(&inode.places.now).cloned().collect::<Vec<Place>>();
            open.extend(places.iter().map(|(folder, _)| *folder));
            for place in places.iter().chain(&gone) {
                self.keep_name(place);
            }
        }
    }

    /// Makes what stands under one name now survive, and what belongs to the same rename with it.
    fn keep_name(&mut self, place: &Place) {
        let Some(names) = self.names_mut(place.0) else { return };
        let (now, before) = (names.now.get(&place.1).copied(), names.kept.get(&place.1).copied());
        if now == before {
            return;
        }
        match now {
            Some(ino) => names.kept.insert(place.1.clone(), ino),
            None => names.kept.remove(&place.1),
        };
        if let Some(inode) = before.and_then(|ino| self.inodes.get_mut(&ino)) {
            inode.places.kept.remove(place);
        }
        if let Some(inode) = now.and_then(|ino| self.inodes.get_mut(&ino)) {
            inode.places.kept.insert(place.clone());
            // A name leads to an inode that exists, though perhaps without its content.
            inode.attributes.kept = inode.attributes.kept.or(inode.attributes.now);
        }
        // ORDER: by now this name is done, so that following a rename comes to an end.
        for ino in [now, before].into_iter().flatten() {
            self.keep_other_names(ino);
            self.collect(ino);
        }
    }

    /// Where something moved: it is kept at its new place, and no more at the old one.
    fn keep_other_names(&mut self, ino: Ino) {
        let Ok(inode) = self.inode(ino) else { return };
        let places = &inode.places;
        // A name that was only added (a hard link) is no rename, and has to wait for its own sync.
        let moved = places.kept.is_empty() && !places.now.is_empty();
        let stale: Vec<Place> = places.kept.difference(&places.now).cloned().collect();
        for place in stale {
            self.keep_name(&place);
        }
        if moved {
            self.keep_way_to(ino);
        }
    }
}
