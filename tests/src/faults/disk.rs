//! A disk that is full: a small file system in memory.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The most files of a small disk.
const FILES: u32 = 2_000;

/// A mounted file system; gone with its owner.
pub struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    /// Mounts one of this many KiB on a folder that is made if need be. `None` where that is not allowed or not known.
    pub fn mount(at: &Path, kib: u32) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        let options = format!("size={kib}k,mode=0700,nr_inodes={FILES}");
        mount.args(["-t", "tmpfs", "-o"]).arg(options).arg("recall-test").arg(at);
        let mounted = mount.stdout(Stdio::null()).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self { at: at.to_owned() })
    }

    /// Takes every byte that is left.
    pub fn fill(&self) {
        let mut file = File::create(self.ballast()).unwrap();
        let mut size = 1 << 20;
        while size > 0 {
            if file.write_all(&vec![0; size]).is_err() {
                size /= 2;
            }
        }
    }

    /// Takes every byte but this many KiB.
    pub fn fill_but(&self, kib: u64) {
        self.fill();
        let ballast = File::options().write(true).open(self.ballast()).unwrap();
        let size = ballast.metadata().unwrap().len();
        ballast.set_len(size - (kib << 10)).unwrap();
    }

    /// Makes empty files until no other file can be made, and bytes are left.
    pub fn fill_with_files(&self) {
        let folder = self.at.join("files");
        std::fs::create_dir(&folder).unwrap();
        let made = (0..).take_while(|nth| File::create(folder.join(nth.to_string())).is_ok());
        assert!(made.count() > 0);
    }

    /// Takes these files away.
    pub fn remove_files(&self) {
        std::fs::remove_dir_all(self.at.join("files")).unwrap();
    }

    /// From now on nobody may write.
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

    /// Gives the bytes back.
    pub fn make_room(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.at.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whoever still has a file open there must not keep the folder.
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}
