//! The power goes: what was not kept is gone.

use std::collections::BTreeSet;

#[cfg(doc)]
use crate::power::disk::Bytes;
use crate::power::disk::{Body, Disk, ROOT};

/// What a power cut took with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loss {
    /// Bytes of files that were written and not synced, and were not only files that vanished as a whole.
    pub bytes: usize,
    /// Names that were added, removed or changed, and not synced.
    pub names: usize,
}

impl Disk {
    /// Writes some of what waits for a sync back, as a kernel does that has time for it: see [`Bytes::write_back`]. How many
    /// bytes that were.
    pub fn write_back(&mut self, mut is_written: impl FnMut() -> bool) -> usize {
        let files = self.inodes.values_mut().filter_map(|inode| match &mut inode.body {
            Body::File(bytes) => Some(bytes),
            Body::Folder(_) | Body::Link(_) | Body::Special(_) => None,
        });
        files.map(|bytes| bytes.write_back(&mut is_written)).sum()
    }

    /// Forgets everything that was not kept; how much that was.
    pub fn cut(&mut self) -> Loss {
        let mut loss = Loss::default();
        for inode in self.inodes.values_mut() {
            inode.looked_up = 0;
            inode.attributes.now = inode.attributes.kept;
            inode.places.now.clone_from(&inode.places.kept);
            match &mut inode.body {
                Body::File(bytes) => loss.bytes += bytes.forget(),
                Body::Folder(names) => {
                    let all: BTreeSet<_> = names.now.keys().chain(names.kept.keys()).collect();
                    loss.names += all.iter().filter(|name| names.now.get(**name) != names.kept.get(**name)).count();
                    names.now.clone_from(&names.kept);
                }
                Body::Link(_) | Body::Special(_) => {}
            }
        }
        self.drop_unreachable();
        loss
    }

    /// A folder that was synced, but never its name, is lost with everything in it.
    fn drop_unreachable(&mut self) {
        let (mut reached, mut open) = (BTreeSet::new(), vec![ROOT]);
        while let Some(ino) = open.pop() {
            if reached.insert(ino)
                && let Ok(names) = self.names(ino)
            {
                open.extend(names.now.values());
            }
        }
        self.inodes.retain(|ino, _| reached.contains(ino));
        for inode in self.inodes.values_mut() {
            for places in [&mut inode.places.now, &mut inode.places.kept] {
                places.retain(|(folder, _)| reached.contains(folder));
            }
        }
    }
}
