//! How much of the machine may be taken: what is free, less a reserve of a tenth and a gibibyte at
//! least, so that the machine stays usable at 100 %.

use crate::PressureError;
use rustix::fs::{StatFs, fstatfs};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The least reserve.
const LEAST_RESERVE: u64 = 1 << 30;
/// `statfs` of a file system that keeps its files in memory.
const TMPFS: i64 = 0x0102_1994;

/// What a resource has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
}

impl Room {
    /// What may be taken.
    fn usable(self) -> u64 {
        self.free_bytes.saturating_sub(self.reserve())
    }

    fn reserve(self) -> u64 {
        (self.total_bytes / 10).max(LEAST_RESERVE)
    }

    /// The 100 % of `what`: all that may be taken, or what was asked for. Says so if that had to be
    /// scaled down; an error if not even one `least` can be had.
    pub(crate) fn whole(
        self,
        what: &'static str,
        asked: Option<u64>,
        least: u64,
    ) -> Result<(u64, Option<String>), PressureError> {
        let (usable, reserve) = (self.usable(), self.reserve());
        if usable < least {
            let free_bytes = self.free_bytes;
            return Err(PressureError::NoRoom { what, free_bytes, reserve_bytes: reserve });
        }
        let note = asked.filter(|asked| *asked > usable).map(|asked| {
            let (asked, usable, reserve) = (asked >> 20, usable >> 20, reserve >> 20);
            format!(
                "{what} scaled down from {asked} to {usable} MiB: {reserve} MiB stay in reserve"
            )
        });
        Ok((asked.unwrap_or(usable).clamp(least, usable), note))
    }
}

/// Memory, as `/proc/meminfo` and the limits of the control groups around this process say.
pub(crate) fn memory() -> Option<Room> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    memory_of(&meminfo, &own, Path::new("/sys/fs/cgroup"))
}

fn memory_of(meminfo: &str, own: &str, root: &Path) -> Option<Room> {
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    let mut room = Room { free_bytes: field("MemAvailable:")?, total_bytes: field("MemTotal:")? };
    for (folder, limit, usage) in groups(own, root) {
        let number = |file: &str| -> Option<u64> {
            std::fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
        };
        if let (Some(limit), Some(usage)) = (number(limit), number(usage)) {
            room.total_bytes = room.total_bytes.min(limit);
            room.free_bytes = room.free_bytes.min(limit.saturating_sub(usage));
        }
    }
    Some(room)
}

/// The memory groups of a process up to the root, with the names of their files, v1 and v2.
fn groups(own: &str, root: &Path) -> Vec<(PathBuf, &'static str, &'static str)> {
    let mut groups = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (tops, limit, usage): (&[&str], _, _) = match controllers {
            "" => (&["", "unified"], "memory.max", "memory.current"),
            v1 if v1.split(',').any(|name| name == "memory") => {
                (&["memory"], "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        for top in tops {
            let top = root.join(top);
            let folder = top.join(path.trim_start_matches('/'));
            let up = folder.ancestors().take_while(|folder| folder.starts_with(&top));
            groups.extend(up.map(|folder| (folder.to_owned(), limit, usage)));
        }
    }
    groups
}

/// The file system that this file lies on, and whether it keeps files in memory.
pub(crate) fn disk(file: impl AsFd, path: &Path) -> Result<(Room, bool), PressureError> {
    let seen: StatFs = fstatfs(file)
        .map_err(|e| PressureError::system("cannot look at the file system of", path, e))?;
    let block = u64::try_from(seen.f_bsize).unwrap_or(4096);
    let room = Room {
        free_bytes: seen.f_bavail.saturating_mul(block),
        total_bytes: seen.f_blocks.saturating_mul(block),
    };
    #[allow(clippy::useless_conversion, reason = "the type differs between processors")]
    let in_memory = i64::try_from(seen.f_type).is_ok_and(|kind| kind == TMPFS);
    Ok((room, in_memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_tenth_and_a_gibibyte_at_least_stay() {
        let room = |free, total| Room { free_bytes: free * GIB, total_bytes: total * GIB };
        assert_eq!(room(90, 100).whole("memory", None, 1).unwrap(), (80 * GIB, None));
        assert_eq!(room(4, 4).whole("memory", None, 1).unwrap(), (3 * GIB, None));
        assert_eq!(room(4, 4).whole("memory", Some(GIB), 1).unwrap(), (GIB, None));
        let (whole, note) = room(4, 4).whole("memory", Some(5 * GIB), 1).unwrap();
        assert_eq!(whole, 3 * GIB);
        assert!(note.unwrap().contains("from 5120 to 3072 MiB: 1024 MiB stay"));
        let none = room(1, 4).whole("memory", None, 1).unwrap_err().to_string();
        assert!(none.contains("memory") && none.contains("1024 MiB"), "{none}");
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let meminfo = "MemTotal: 8388608 kB\nMemAvailable: 6291456 kB\n";
        let seen = |own: &str| memory_of(meminfo, own, root.path()).unwrap();
        assert_eq!(seen("0::/a/b\n"), Room { free_bytes: 6 * GIB, total_bytes: 8 * GIB });
        write("a/memory.max", "4294967296\n");
        write("a/memory.current", "1073741824\n");
        write("a/b/memory.max", "max\n");
        assert_eq!(seen("0::/a/b\n"), Room { free_bytes: 3 * GIB, total_bytes: 4 * GIB });
        write("memory/c/memory.limit_in_bytes", "2147483648\n");
        write("memory/c/memory.usage_in_bytes", "0\n");
        let both = seen("5:cpu,memory:/c\n0::/a\n");
        assert_eq!(both, Room { free_bytes: 2 * GIB, total_bytes: 2 * GIB });
        assert_eq!(memory_of("MemTotal: 1 kB\n", "", root.path()), None);
    }

    #[test]
    fn this_machine_has_memory_and_a_disk() {
        assert!(memory().unwrap().total_bytes > 0);
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::open(folder.path()).unwrap();
        let (room, _) = disk(&file, folder.path()).unwrap();
        assert!(room.total_bytes >= room.free_bytes && room.total_bytes > 0);
    }
}
