use super::*;

const FILE: Attributes = attributes(0o644);

const fn attributes(mode: u16) -> Attributes {
    let at = SystemTime::UNIX_EPOCH;
    Attributes { mode, uid: 0, gid: 0, read_at: at, written_at: at, changed_at: at }
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH
}

/// A disk in a tiny language: paths instead of numbers.
struct Tried(Disk);

impl Tried {
    fn new(durability: Durability) -> Self {
        Self(Disk::new(durability, now()))
    }

    fn ino(&self, path: &str) -> Result<Ino, Refusal> {
        path.split('/').filter(|name| !name.is_empty()).try_fold(ROOT, |at, name| self.0.find(at, OsStr::new(name)))
    }

    fn place(&self, path: &str) -> Place {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        (self.ino(folder).unwrap(), name.into())
    }

    fn folder(&mut self, path: &str) {
        let place = self.place(path);
        self.0.create(place, Body::Folder(Kept::default()), attributes(0o755)).unwrap();
    }

    fn write(&mut self, path: &str, text: &str) {
        let ino = self.ino(path).unwrap_or_else(|_| {
            let place = self.place(path);
            self.0.create(place, Body::File(Bytes::default()), FILE).unwrap()
        });
        self.0.resize(ino, 0, now()).unwrap();
        self.0.write(ino, 0, text.as_bytes(), now()).unwrap();
    }

    fn sync(&mut self, path: &str) {
        let ino = self.ino(path).unwrap();
        self.0.sync(ino).unwrap();
    }

    fn rename(&mut self, from: &str, to: &str) {
        let (from, to) = (self.place(from), self.place(to));
        self.0.rename(&from, &to, false, now()).unwrap();
    }

    fn unlink(&mut self, path: &str) {
        let place = self.place(path);
        self.0.unlink(&place, now()).unwrap();
    }

    fn text(&self, path: &str) -> Option<String> {
        let ino = self.ino(path).ok()?;
        Some(String::from_utf8(self.0.read(ino, 0, 1_000).ok()?.to_vec()).unwrap())
    }

    /// After the power was cut: the same for programs and for the next cut.
    fn cut(&mut self) -> Loss {
        let loss = self.0.cut();
        assert_eq!(self.0.cut(), Loss::default(), "a second cut takes nothing more");
        loss
    }
}

const BOTH: [Durability; 2] = [Durability::Journaled, Durability::Strict];

#[test]
fn an_unsynced_write_is_lost_and_a_synced_one_is_kept() {
    for durability in BOTH {
        let mut disk = Tried::new(durability);
        disk.write("a", "old");
        disk.sync("a");
        disk.sync("");
        disk.write("a", "newer");
        assert_eq!(disk.text("a").as_deref(), Some("newer"), "programs see what they wrote");
        let loss = disk.cut();
        assert_eq!((disk.text("a").as_deref(), loss.names), (Some("old"), 0));
        assert!(loss.bytes >= 3, "{loss:?}");
    }
}

#[test]
fn a_files_sync_keeps_its_name_on_a_journaled_disk_only() {
    let names_after_cut = |durability| {
        let mut disk = Tried::new(durability);
        disk.folder("d");
        disk.folder("d/e");
        disk.write("d/e/a", "text");
        disk.sync("d/e/a");
        disk.cut();
        disk.text("d/e/a")
    };
    assert_eq!(names_after_cut(Durability::Journaled).as_deref(), Some("text"));
    assert_eq!(names_after_cut(Durability::Strict), None);
}

#[test]
fn a_folders_sync_keeps_names_but_no_content() {
    for durability in BOTH {
        let mut disk = Tried::new(durability);
        disk.write("a", "text");
        disk.sync("");
        disk.cut();
        assert_eq!(disk.text("a").as_deref(), Some(""));
    }
}

#[test]
fn a_strict_disk_wants_each_folder_on_the_way_synced() {
    let mut disk = Tried::new(Durability::Strict);
    disk.folder("d");
    disk.write("d/a", "text");
    disk.sync("d/a");
    disk.sync("d");
    disk.cut();
    assert_eq!(disk.ino("d"), Err(Refusal::NotFound));
    disk.folder("d");
    disk.write("d/a", "text");
    disk.sync("d/a");
    disk.sync("d");
    disk.sync("");
    disk.cut();
    assert_eq!(disk.text("d/a").as_deref(), Some("text"));
}

#[test]
fn a_rename_without_its_folders_sync_is_lost() {
    for durability in BOTH {
        let mut disk = Tried::new(durability);
        disk.write("a", "old");
        disk.sync("a");
        disk.sync("");
        disk.write("a.new", "new");
        disk.sync("a.new");
        disk.rename("a.new", "a");
        assert_eq!(disk.text("a").as_deref(), Some("new"));
        disk.cut();
        assert_eq!(disk.text("a").as_deref(), Some("old"));
        let kept_aside = (durability == Durability::Journaled).then_some("new");
        assert_eq!(disk.text("a.new").as_deref(), kept_aside);

        disk.write("a.new", "new");
        disk.sync("a.new");
        disk.rename("a.new", "a");
        disk.sync("");
        disk.cut();
        assert_eq!((disk.text("a").as_deref(), disk.text("a.new")), (Some("new"), None));
    }
}

#[test]
fn a_rename_onto_a_file_without_the_new_ones_sync_leaves_it_empty() {
    let mut disk = Tried::new(Durability::Strict);
    disk.write("a", "old");
    disk.sync("a");
    disk.sync("");
    disk.write("a.new", "new");
    disk.rename("a.new", "a");
    disk.sync("");
    disk.cut();
    assert_eq!(disk.text("a").as_deref(), Some(""));
}

#[test]
fn a_move_between_folders_is_kept_as_a_whole_whichever_is_synced() {
    for durability in BOTH {
        for synced in ["from", "to"] {
            let mut disk = Tried::new(durability);
            for folder in ["from", "to", "from/d"] {
                disk.folder(folder);
            }
            disk.write("from/d/a", "text");
            for path in ["from/d/a", "from/d", "from", "to", ""] {
                disk.sync(path);
            }
            disk.rename("from/d", "to/d");
            disk.sync(synced);
            disk.cut();
            assert_eq!((disk.text("from/d/a"), disk.text("to/d/a").as_deref()), (None, Some("text")), "{synced}");
        }
    }
}

#[test]
fn what_moves_into_a_new_folder_takes_it_along() {
    let mut disk = Tried::new(Durability::Strict);
    disk.write("a", "text");
    disk.sync("a");
    disk.sync("");
    disk.folder("new");
    disk.rename("a", "new/a");
    disk.sync("");
    disk.cut();
    assert_eq!(disk.text("new/a").as_deref(), Some("text"));
}

#[test]
fn an_unsynced_unlink_is_undone() {
    for durability in BOTH {
        let mut disk = Tried::new(durability);
        disk.write("a", "text");
        disk.sync("a");
        disk.sync("");
        disk.unlink("a");
        assert_eq!(disk.cut().names, 1);
        assert_eq!(disk.text("a").as_deref(), Some("text"));
        disk.unlink("a");
        disk.sync("");
        assert_eq!(disk.cut(), Loss::default());
        assert_eq!(disk.text("a"), None);
    }
}

#[test]
fn an_unsynced_change_of_permissions_is_lost() {
    let mut disk = Tried::new(Durability::Journaled);
    disk.write("a", "");
    disk.sync("a");
    let ino = disk.ino("a").unwrap();
    disk.0.set(ino, |attributes| attributes.mode = 0o600).unwrap();
    disk.cut();
    assert_eq!(disk.0.inode(ino).unwrap().attributes().mode, 0o644);
    disk.0.set(ino, |attributes| attributes.mode = 0o600).unwrap();
    disk.sync("a");
    disk.cut();
    assert_eq!(disk.0.inode(ino).unwrap().attributes().mode, 0o600);
}

#[test]
fn a_hard_link_needs_its_own_folders_sync() {
    let mut disk = Tried::new(Durability::Strict);
    for folder in ["d", "e"] {
        disk.folder(folder);
    }
    disk.write("d/a", "text");
    for path in ["d/a", "d", ""] {
        disk.sync(path);
    }
    let (ino, place) = (disk.ino("d/a").unwrap(), disk.place("e/b"));
    disk.0.link(ino, place, now()).unwrap();
    disk.sync("d/a");
    disk.sync("d");
    disk.cut();
    assert_eq!((disk.text("d/a").as_deref(), disk.text("e/b")), (Some("text"), None));
}

#[test]
fn what_nobody_can_reach_gives_its_room_back() {
    for durability in BOTH {
        let mut disk = Tried::new(durability);
        let empty = disk.0.inodes.len();
        disk.write("a", "text");
        let ino = disk.ino("a").unwrap();
        disk.0.looked_up(ino);
        disk.unlink("a");
        assert_eq!(disk.text_of(ino).as_deref(), Some("text"), "it's still open");
        disk.0.forgotten(ino, 1);
        assert_eq!(disk.0.inodes.len(), empty);

        disk.write("b", "text");
        disk.sync("b");
        disk.sync("");
        disk.unlink("b");
        assert_eq!(disk.0.inodes.len(), empty + 1, "a cut would bring it back");
        disk.sync("");
        assert_eq!(disk.0.inodes.len(), empty);
    }
}

impl Tried {
    fn text_of(&self, ino: Ino) -> Option<String> {
        Some(String::from_utf8(self.0.read(ino, 0, 1_000).ok()?.to_vec()).unwrap())
    }
}

#[test]
fn what_can_not_be_done_is_refused() {
    let mut disk = Tried::new(Durability::Journaled);
    disk.folder("d");
    disk.folder("d/e");
    disk.write("d/a", "");
    let refused = |disk: &mut Tried, from: &str, to: &str, keep| {
        let (from, to) = (disk.place(from), disk.place(to));
        disk.0.rename(&from, &to, keep, now()).unwrap_err()
    };
    assert_eq!(refused(&mut disk, "d", "d/e/d", false), Refusal::Invalid);
    assert_eq!(refused(&mut disk, "d/a", "d/e", false), Refusal::IsAFolder);
    assert_eq!(refused(&mut disk, "d/e", "d/a", false), Refusal::NotAFolder);
    assert_eq!(refused(&mut disk, "d/a", "d/e", true), Refusal::Exists);
    assert_eq!(refused(&mut disk, "d/none", "x", true), Refusal::NotFound);
    let d = disk.place("d");
    assert_eq!(disk.0.remove_folder(&d, now()), Err(Refusal::NotEmpty));
    assert_eq!(disk.0.unlink(&d, now()), Err(Refusal::IsAFolder));
    assert_eq!(disk.0.find(disk.ino("d/a").unwrap(), OsStr::new("x")), Err(Refusal::NotAFolder));
}
