//! Unusual disks: a full one (a small file system in memory), one with a quota, and one that ignores case.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The highest number of files on a small disk.
const FILES: u32 = 2_000;

/// A mounted file system. It is unmounted when dropped.
pub struct SmallDisk {
    at: PathBuf,
    /// The file that contains the file system, if any.
    image: Option<TempDir>,
}

impl SmallDisk {
    /// Mounts a disk of this many KiB on a folder, which is created if necessary. Returns `None` if the system does
    /// not allow it or does not know this kind of disk.
    pub fn mount(at: &Path, kib: u32) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        let options = format!("size={kib}k,mode=0700,nr_inodes={FILES}");
        mount.args(["-t", "tmpfs", "-o"]).arg(options).arg("recall-test").arg(at);
        succeeds(&mut mount).then(|| Self { at: at.to_owned(), image: None })
    }

    /// Mounts a large disk with a quota of this many MiB, even for root. Needs btrfs-progs.
    pub fn with_quota(at: &Path, mib: u32) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let image = image(256 << 20);
        let file = image.path().join("disk");
        let program = |name: &str, arguments: &[&str], paths: &[&Path]| {
            succeeds(Command::new(name).args(arguments).args(paths))
        };
        if !program("mkfs.btrfs", &["-q", "-f"], &[&file]) || !program("mount", &["-o", "loop"], &[&file, at])
        {
            return None;
        }
        let disk = Self { at: at.to_owned(), image: Some(image) };
        let limit = format!("{mib}M");
        let is_limited = program("btrfs", &["quota", "enable"], &[at])
            && program("btrfs", &["qgroup", "limit", &limit], &[at]);
        is_limited.then_some(disk)
    }

    /// Mounts a disk on which names that differ only in case are the same file. Needs ntfs-3g.
    pub fn without_case(at: &Path) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let image = image(16 << 20);
        let file = image.path().join("disk");
        let options = "ignore_case,uid=0,gid=0,umask=077";
        let is_mounted = succeeds(Command::new("mkntfs").args(["-q", "-F"]).arg(&file))
            && succeeds(Command::new("lowntfs-3g").args(["-o", options]).arg(&file).arg(at));
        is_mounted.then(|| Self { at: at.to_owned(), image: Some(image) })
    }

    /// Uses up every byte.
    pub fn fill(&self) {
        let mut file = File::create(self.ballast()).unwrap();
        let mut size = 1 << 20;
        while size > 0 {
            if file.write_all(&vec![0; size]).is_err() {
                size /= 2;
            }
        }
    }

    /// Uses up all bytes except this many KiB.
    pub fn fill_but(&self, kib: u64) {
        self.fill();
        let ballast = File::options().write(true).open(self.ballast()).unwrap();
        let size = ballast.metadata().unwrap().len();
        ballast.set_len(size - (kib << 10)).unwrap();
    }

    /// Makes empty files until no more can be made. Bytes remain free.
    pub fn fill_with_files(&self) {
        let folder = self.at.join("files");
        std::fs::create_dir(&folder).unwrap();
        let made = (0..).take_while(|nth| File::create(folder.join(nth.to_string())).is_ok());
        assert!(made.count() > 0);
    }

    /// Removes these files.
    pub fn remove_files(&self) {
        std::fs::remove_dir_all(self.at.join("files")).unwrap();
    }

    /// Makes the disk read-only.
    pub fn make_read_only(&self) {
        self.remount("ro");
    }

    pub fn make_writable(&self) {
        self.remount("rw");
    }

    fn remount(&self, mode: &str) {
        let status = Command::new("mount").args(["-o", &format!("remount,{mode}")]).arg(&self.at).status();
        assert!(status.unwrap().success(), "cannot mount again: {mode}");
    }

    /// Frees the bytes again.
    pub fn make_room(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.at.join("ballast")
    }
}

/// Makes a folder with an empty file of this length.
fn image(length: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    File::create(folder.path().join("disk")).unwrap().set_len(length).unwrap();
    folder
}

fn succeeds(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The unmount is lazy, because a file that is still open must not keep the folder.
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        drop(self.image.take());
    }
}
