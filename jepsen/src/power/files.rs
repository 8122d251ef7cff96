//! The kernel's file requests, answered from a [`Disk`] while it has power.
//!
//! Left to the kernel, as only it can know: permissions (`default_permissions`), locks, positions, copying. There are no
//! extended attributes, and no times of reading.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::power::ailment::{Call, Illness};
use crate::power::disk::{Attributes, Body, Bytes, Disk, Ino, Inode, Kept, Place, Refusal, Special};
use crate::power::mount::{PoweredGuard, Switched};

/// Nobody but this kernel changes the disk: what it was told stays true until it asks for a change itself.
const STAYS_TRUE: Duration = Duration::from_secs(3_600);

/// What `statfs` tells: 64 GiB, all free; a disk that is full of a sudden says so by its refusals.
const BLOCKS: u64 = 16 * 1024 * 1024;
const BLOCK_SIZE: u32 = 4_096;

/// fallocate's modes (linux/falloc.h).
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

/// The file system.
#[derive(Debug)]
pub(crate) struct Files {
    switched: Arc<Switched>,
    /// What open folders listed when they were opened: a name that goes meanwhile makes nobody miss another one.
    listings: Mutex<(u64, BTreeMap<u64, Vec<Listed>>)>,
}

#[derive(Debug, Clone)]
struct Listed {
    ino: Ino,
    kind: FileType,
    name: OsString,
}

impl Files {
    pub(crate) fn new(switched: Arc<Switched>) -> Self {
        Self { switched, listings: Mutex::default() }
    }

    /// Does something with the disk; EIO once it has no power.
    fn with<T>(&self, action: impl FnOnce(&mut PoweredGuard<'_>) -> Result<T, Errno>) -> Result<T, Errno> {
        action(&mut self.switched.powered().ok_or(Errno::EIO)?)
    }

    /// The same with what changes it: an ill disk refuses.
    fn change<T>(
        &self,
        call: Call,
        action: impl FnOnce(&mut PoweredGuard<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.with(|disk| match self.switched.ailment.refuses(call) {
            Some(Illness::FullDisk) => Err(Errno::ENOSPC),
            Some(Illness::BadDisk) => Err(Errno::EIO),
            None => action(disk),
        })
    }

    /// A sync. Where it fails, the kernel takes what it could not write for written: the next sync won't try again.
    fn sync(&self, ino: Ino) -> Result<(), Errno> {
        self.with(|disk| match self.switched.ailment.refuses(Call::Sync) {
            Some(_) => {
                disk.fail_sync(ino);
                Err(Errno::EIO)
            }
            None => Ok(disk.sync(ino)?),
        })
    }

    /// A new inode, told to the kernel.
    fn create_inode(&self, request: &Request, place: Place, mode: u32, body: Body) -> Result<FileAttr, Errno> {
        let at = SystemTime::now();
        self.change(Call::Create, |disk| {
            let mode = u16::try_from(mode & 0o7777).unwrap_or_default();
            // A folder that hands its group down (setgid) isn't used here.
            let (uid, gid) = (request.uid(), request.gid());
            let attributes = Attributes { mode, uid, gid, read_at: at, written_at: at, changed_at: at };
            let ino = disk.create(place, body, attributes)?;
            disk.looked_up(ino);
            Ok(attr(ino, disk.inode(ino)?))
        })
    }
}

impl From<Refusal> for Errno {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Self::ENOENT,
            Refusal::Exists => Self::EEXIST,
            Refusal::NotAFolder => Self::ENOTDIR,
            Refusal::IsAFolder => Self::EISDIR,
            Refusal::NotEmpty => Self::ENOTEMPTY,
            Refusal::Invalid => Self::EINVAL,
        }
    }
}

fn place(folder: INodeNo, name: &OsStr) -> Place {
    (folder.0, name.to_owned())
}

fn kind(inode: &Inode) -> FileType {
    match inode.body {
        Body::File(_) => FileType::RegularFile,
        Body::Folder(_) => FileType::Directory,
        Body::Link(_) => FileType::Symlink,
        Body::Special(Special::Pipe) => FileType::NamedPipe,
        Body::Special(Special::Socket) => FileType::Socket,
    }
}

fn attr(ino: Ino, inode: &Inode) -> FileAttr {
    let attributes = inode.attributes();
    let size = match &inode.body {
        Body::File(bytes) => bytes.len() as u64,
        Body::Link(target) => target.as_os_str().len() as u64,
        Body::Folder(_) | Body::Special(_) => 0,
    };
    let names = u32::try_from(inode.places.now.len()).unwrap_or(u32::MAX);
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: size.div_ceil(512),
        atime: attributes.read_at,
        mtime: attributes.written_at,
        ctime: attributes.changed_at,
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind(inode),
        perm: attributes.mode,
        nlink: if kind(inode) == FileType::Directory { 2 } else { names },
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: 0,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

fn time(time: TimeOrNow, now: SystemTime) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => now,
    }
}

fn size(number: u64) -> Result<usize, Errno> {
    usize::try_from(number).map_err(|_| Errno::EFBIG)
}

fn answer_entry(reply: ReplyEntry, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attr) => reply.entry(&STAYS_TRUE, &attr, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn answer_attr(reply: ReplyAttr, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attr) => reply.attr(&STAYS_TRUE, &attr),
        Err(errno) => reply.error(errno),
    }
}

fn answer_empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn answer_data(reply: ReplyData, result: Result<Vec<u8>, Errno>) {
    match result {
        Ok(data) => reply.data(&data),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.with(|disk| {
            let ino = disk.find(parent.0, name)?;
            disk.looked_up(ino);
            Ok(attr(ino, disk.inode(ino)?))
        });
        answer_entry(reply, found);
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        let _ = self.with(|disk| {
            disk.forgotten(ino.0, times);
            Ok(())
        });
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer_attr(reply, self.with(|disk| Ok(attr(ino.0, disk.inode(ino.0)?))));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        length: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let now = SystemTime::now();
        let set = self.with(|disk| {
            if let Some(length) = length {
                disk.resize(ino.0, size(length)?, now)?;
            }
            disk.set(ino.0, |attributes| {
                let mode = mode.and_then(|mode| u16::try_from(mode & 0o7777).ok());
                attributes.mode = mode.unwrap_or(attributes.mode);
                attributes.uid = uid.unwrap_or(attributes.uid);
                attributes.gid = gid.unwrap_or(attributes.gid);
                attributes.read_at = atime.map_or(attributes.read_at, |at| time(at, now));
                attributes.written_at = mtime.map_or(attributes.written_at, |at| time(at, now));
                attributes.changed_at = now;
            })?;
            Ok(attr(ino.0, disk.inode(ino.0)?))
        });
        answer_attr(reply, set);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self.with(|disk| match &disk.inode(ino.0)?.body {
            Body::Link(target) => Ok(target.as_os_str().as_encoded_bytes().to_vec()),
            Body::File(_) | Body::Folder(_) | Body::Special(_) => Err(Errno::EINVAL),
        });
        answer_data(reply, target);
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: u32, reply: ReplyEntry) {
        let body = match mode & 0o170_000 {
            0o100_000 => Body::File(Bytes::default()),
            0o010_000 => Body::Special(Special::Pipe),
            0o140_000 => Body::Special(Special::Socket),
            _ => return reply.error(Errno::EPERM),
        };
        answer_entry(reply, self.create_inode(request, place(parent, name), mode, body));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let body = Body::Folder(Kept::default());
        answer_entry(reply, self.create_inode(request, place(parent, name), mode, body));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.with(|disk| Ok(disk.unlink(&place(parent, name), SystemTime::now())?)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.with(|disk| Ok(disk.remove_folder(&place(parent, name), SystemTime::now())?)));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let body = Body::Link(target.to_owned());
        answer_entry(reply, self.create_inode(request, place(parent, name), 0o777, body));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let (from, to) = (place(parent, name), place(to_parent, to_name));
        let keep_target = flags.contains(RenameFlags::RENAME_NOREPLACE);
        answer_empty(reply, self.with(|disk| Ok(disk.rename(&from, &to, keep_target, SystemTime::now())?)));
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.with(|disk| {
            disk.link(ino.0, place(parent, name), SystemTime::now())?;
            disk.looked_up(ino.0);
            Ok(attr(ino.0, disk.inode(ino.0)?))
        });
        answer_entry(reply, linked);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // What the kernel has of the file in its cache stays true, as above.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let data = self.with(|disk| Ok(disk.read(ino.0, size(offset)?, length as usize)?.to_vec()));
        answer_data(reply, data);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.change(Call::Write, |disk| Ok(disk.write(ino.0, size(offset)?, data, SystemTime::now())?)) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing a file keeps nothing.
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer_empty(reply, self.sync(ino.0));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer_empty(reply, self.sync(ino.0));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.with(|disk| list(disk, ino.0)) {
            Ok(listing) => {
                let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
                listings.0 += 1;
                let handle = listings.0;
                listings.1.insert(handle, listing);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(listing) = listings.1.get(&handle.0) else { return reply.error(Errno::EBADF) };
        for (next, listed) in (1..).zip(listing).skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            if reply.add(INodeNo(listed.ino), next, listed.kind, &listed.name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCK_SIZE, 255, BLOCK_SIZE);
    }

    fn create(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        match self.create_inode(request, place(parent, name), mode, Body::File(Bytes::default())) {
            Ok(attr) => reply.created(&STAYS_TRUE, &attr, Generation(0), FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(errno),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = self.change(Call::Write, |disk| {
            let now = SystemTime::now();
            let (start, end) = (size(offset)?, size(offset.saturating_add(length))?);
            let Body::File(bytes) = &disk.inode(ino.0)?.body else { return Err(Errno::ENODEV) };
            let before = bytes.len();
            if mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 && start < before {
                disk.write(ino.0, start, &vec![0; end.min(before) - start], now)?;
            }
            if mode & KEEP_SIZE == 0 && end > before {
                disk.resize(ino.0, end, now)?;
            }
            Ok(())
        });
        answer_empty(reply, done);
    }
}

fn list(disk: &Disk, folder: Ino) -> Result<Vec<Listed>, Errno> {
    let parent = disk.parent(folder)?;
    let dots = [(folder, "."), (parent, "..")];
    let dots = dots.map(|(ino, name)| Listed { ino, kind: FileType::Directory, name: name.into() });
    let names = disk.list(folder)?;
    let listed = |(name, ino)| Ok(Listed { ino, kind: kind(disk.inode(ino)?), name });
    dots.into_iter().map(Ok).chain(names.into_iter().map(listed)).collect()
}
