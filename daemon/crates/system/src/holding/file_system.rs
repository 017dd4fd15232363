//! Determines the kind of file system that contains a folder.
//!
//! Two mounts of a network or FUSE file system may share neither locks nor the memory that SQLite's write-ahead log
//! needs. On such file systems recall relies on neither.

use std::path::Path;

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// Mounted by one kernel only, so all processes see the same locks.
    Local,
    /// Another kernel or process may have mounted it as well. Contains the file system's name.
    Shared(&'static str),
}

impl FileSystem {
    /// Determines the kind for a path that may not exist yet. Counts as local if the system cannot tell.
    pub fn of(path: &Path) -> Self {
        path.ancestors().find_map(kind).unwrap_or(Self::Local)
    }

    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Local => None,
            Self::Shared(name) => Some(name),
        }
    }
}

#[cfg(target_os = "linux")]
fn kind(path: &Path) -> Option<FileSystem> {
    let found = rustix::fs::statfs(path).ok()?;
    // The type is a signed word on some machines and an unsigned one on others.
    let magic = u32::try_from(i128::from(found.f_type) & 0xffff_ffff).ok()?;
    Some(of_magic(magic))
}

/// Maps the magic numbers of `statfs(2)` and of the kernels' own headers.
#[cfg(target_os = "linux")]
fn of_magic(magic: u32) -> FileSystem {
    const SHARED: [(u32, &str); 17] = [
        (0x6573_5546, "FUSE"),
        (0x0000_6969, "NFS"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB"),
        (0x0000_517b, "SMB"),
        (0x0102_1997, "9P"),
        (0x00c3_6400, "Ceph"),
        (0x5346_414f, "AFS"),
        (0x6b41_4653, "AFS"),
        (0x0bd0_0bd0, "Lustre"),
        (0x0116_1970, "GFS2"),
        (0x7461_636f, "OCFS2"),
        (0x4750_4653, "GPFS"),
        (0x7375_7245, "Coda"),
        (0x786f_4256, "VirtualBox's shared folder"),
        (0xbacb_acbc, "VMware's shared folder"),
        (0x7c7c_6673, "Parallels' shared folder"),
    ];
    let named = SHARED.iter().find(|(known, _)| *known == magic);
    named.map_or(FileSystem::Local, |(_, name)| FileSystem::Shared(name))
}

/// macOS reports for each mount whether it is local. A FUSE file system is not local, unless its mount requests it.
#[cfg(target_os = "macos")]
fn kind(path: &Path) -> Option<FileSystem> {
    const LOCAL: u32 = 0x1000;
    let found = rustix::fs::statfs(path).ok()?;
    Some(match found.f_flags & LOCAL {
        0 => FileSystem::Shared("a network file system"),
        _ => FileSystem::Local,
    })
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn kind(_path: &Path) -> Option<FileSystem> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_and_fuse_file_systems_are_shared_and_others_local() {
        assert_eq!(of_magic(0x6573_5546), FileSystem::Shared("FUSE"));
        assert_eq!(of_magic(0x6969), FileSystem::Shared("NFS"));
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(of_magic(local), FileSystem::Local, "{local:x}");
        }
        assert_eq!(FileSystem::of(Path::new("/proc/there/is/no/such/place")), FileSystem::Local);
    }
}
