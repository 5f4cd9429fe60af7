//! Whether and where resctrl is mounted, and what the CPU says of it.

use crate::ResctrlError;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A mounted resctrl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where, below the root that was asked.
    pub path: PathBuf,
    /// Whether L3 code and data are allotted apart (`-o cdp`).
    pub cdp: bool,
    /// Whether the MB line is in MB/s (`-o mba_MBps`).
    pub mba_mbps: bool,
}

/// Where the kernel has a folder for it, below the root.
const POINT: &str = "sys/fs/resctrl";

/// Where resctrl can be mounted on the machine below `root`: none if it is mounted, or if CPU or
/// kernel have none.
#[must_use]
pub fn mountable(root: &Path) -> Option<PathBuf> {
    let mounts = fs::read_to_string(root.join("proc/mounts")).ok()?;
    (parse_mounts(&mounts).is_none() && is_supported(root)).then(|| root.join(POINT))
}

fn is_supported(root: &Path) -> bool {
    let filesystems = fs::read_to_string(root.join("proc/filesystems")).unwrap_or_default();
    filesystems.split_ascii_whitespace().any(|word| word == "resctrl")
}

/// Mounts resctrl at `at`, without options: percentages, and code and data alike. The kernel takes
/// one mount at a time.
///
/// # Errors
/// If the kernel refuses (no root, no folder, no such hardware).
pub fn mount(at: &Path) -> Result<(), ResctrlError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("resctrl", at, "resctrl", flags, None::<&std::ffi::CStr>)
        .map_err(|error| ResctrlError::io("mount resctrl at", at, error.into()))
}

/// Unmounts what is mounted at `at`; nothing there is no error. All groups go with it.
///
/// # Errors
/// If it is in use.
pub fn unmount(at: &Path) -> Result<(), ResctrlError> {
    match rustix::mount::unmount(at, UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(ResctrlError::io("unmount resctrl from", at, error.into())),
    }
}

/// What the CPU offers (flags of /proc/cpuinfo).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSupport {
    /// `GenuineIntel`, `AuthenticAMD` …; empty if it does not say.
    pub vendor: String,
    flags: BTreeSet<String>,
}

impl CpuSupport {
    /// Reads proc/cpuinfo below `root`; a missing file offers nothing.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        Self::parse(&fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default())
    }

    /// From the text of /proc/cpuinfo (its first CPU).
    #[must_use]
    pub fn parse(cpuinfo: &str) -> Self {
        let field = |name: &str| {
            cpuinfo.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim())
            })
        };
        let flags = field("flags").unwrap_or_default();
        Self {
            vendor: field("vendor_id").unwrap_or_default().to_owned(),
            flags: flags.split_ascii_whitespace().map(str::to_owned).collect(),
        }
    }

    /// Whether it has a flag (`cat_l3`, `cdp_l3`, `mba`, `cqm_mbm_total` …).
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    /// Whether it is an AMD (or Hygon) CPU, whose MB values are absolute and masks may have holes.
    #[must_use]
    pub fn is_amd(&self) -> bool {
        matches!(self.vendor.as_str(), "AuthenticAMD" | "HygonGenuine")
    }

    /// The flags of resource control that it has.
    #[must_use]
    pub fn resource_flags(&self) -> Vec<&str> {
        let known =
            ["rdt_a", "cat_l3", "cat_l2", "cdp_l3", "mba", "cqm_occup_llc", "cqm_mbm_total"];
        known.into_iter().filter(|flag| self.has(flag)).collect()
    }
}

/// The last resctrl mount in the text of /proc/mounts; its path is that of the file.
#[must_use]
pub fn parse_mounts(mounts: &str) -> Option<Mount> {
    let mount = |line: &str| {
        let mut fields = line.split(' ');
        let (_, path, kind, options) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let has = |name: &str| options.split(',').any(|option| option == name);
        (kind == "resctrl").then(|| Mount {
            path: PathBuf::from(unescape(path)),
            cdp: has("cdp"),
            mba_mbps: has("mba_MBps"),
        })
    };
    mounts.lines().rev().find_map(mount)
}

/// Undoes the octal escapes (`\040`) of /proc/mounts: each stands for one byte.
fn unescape(path: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let code = after.first_chunk().filter(|_| first == b'\\').and_then(octal_byte);
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn octal_byte(digits: &[u8; 3]) -> Option<u8> {
    let value = digits.iter().try_fold(0u32, |value, digit| {
        matches!(digit, b'0'..=b'7').then(|| value * 8 + u32::from(digit - b'0'))
    })?;
    u8::try_from(value).ok()
}

/// Finds the mount below `root`, or says why there is none and what to do.
pub(crate) fn find(root: &Path, cpu: &CpuSupport) -> Result<Mount, String> {
    let mounts = fs::read_to_string(root.join("proc/mounts"))
        .map_err(|e| format!("{}: {e}", root.join("proc/mounts").display()))?;
    if let Some(mut mount) = parse_mounts(&mounts) {
        mount.path = root.join(mount.path.strip_prefix("/").unwrap_or(&mount.path));
        return Ok(mount);
    }
    if is_supported(root) {
        return Err("resctrl is supported but not mounted; \
                    run `mount -t resctrl resctrl /sys/fs/resctrl`, or set \
                    agent.mount_resctrl = true and Quell mounts it while it guards"
            .to_owned());
    }
    let flags = cpu.resource_flags();
    Err(if flags.is_empty() {
        "the CPU (or the hypervisor) offers no cache or bandwidth control".to_owned()
    } else {
        format!(
            "the CPU has {} but this kernel has no resctrl (CONFIG_X86_CPU_RESCTRL)",
            flags.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_single_bytes_and_octal_only() {
        for (escaped, path) in [
            (r"/a\040b\134", r"/a b\"),
            (r"/\303\244", "/ä"),
            (r"/\+12", r"/\+12"),
            (r"/\777", r"/\777"),
            (r"/\04", r"/\04"),
            (r"/\ä12", r"/\ä12"),
        ] {
            assert_eq!(unescape(escaped), path, "{escaped}");
        }
    }
}
