//! The mount table.

/// One line of `/proc/mounts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) point: String,
    pub(crate) kind: String,
    pub(crate) options: Vec<String>,
}

/// Reads `/proc/mounts`: `DEVICE POINT TYPE OPTIONS 0 0`. Lines that make no sense are passed over.
pub(crate) fn parse(text: &str) -> Vec<Mount> {
    let one = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let point = unescape(fields.next()?);
        let kind = fields.next()?.to_owned();
        let options = fields.next()?.split(',').map(str::to_owned).collect();
        point.starts_with('/').then_some(Mount { point, kind, options })
    };
    text.lines().filter_map(one).collect()
}

/// The directory within its file system that a mount shows, by mount point, from
/// `/proc/self/mountinfo`: other than `/` where a container sees a part of the tree as its root.
pub(crate) fn mounted_parts(mountinfo: &str) -> Vec<(String, String)> {
    let one = |line: &str| {
        let mut fields = line.split(' ').skip(3);
        let part = unescape(fields.next()?);
        Some((unescape(fields.next()?), part))
    };
    mountinfo.lines().filter_map(one).collect()
}

/// The kernel writes space, tab, newline, backslash and `#` as `\` and three octal digits.
pub(crate) fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\').and_then(octal_byte);
        out.push(octal.unwrap_or(bytes[at]));
        at += if octal.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn octal_byte(digits: &[u8]) -> Option<u8> {
    if !digits.iter().all(|d| (b'0'..=b'7').contains(d)) {
        return None;
    }
    let value = digits.iter().fold(0u32, |value, d| value * 8 + u32::from(d - b'0'));
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escaped_paths_come_back() {
        for (escaped, plain) in [
            ("/a\\040b", "/a b"),
            ("/a\\134040", "/a\\040"),
            ("/tab\\011end", "/tab\tend"),
            ("/\\999", "/\\999"),
            ("/\\04", "/\\04"),
            ("/\\777", "/\\777"),
            ("/\\303\\244", "/ä"),
        ] {
            assert_eq!(unescape(escaped), plain, "{escaped:?}");
        }
    }

    #[test]
    fn reads_a_mount_table() {
        let mounts =
            parse("cgroup /sys/fs/cgroup/cpu\\040x cgroup rw,relatime,cpu 0 0\nbroken\n\n");
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0].point, "/sys/fs/cgroup/cpu x");
        assert!(mounts[0].options.iter().any(|o| o == "cpu"));
        let info = "36 35 0:30 /docker/ab /sys/fs/cgroup/cpu rw shared:11 - cgroup cgroup rw,cpu\n";
        assert_eq!(mounted_parts(info), [("/sys/fs/cgroup/cpu".into(), "/docker/ab".into())]);
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "(/|\\\\|[0-7]{1,3}| |cgroup|,|\n|ä){0,40}") {
            let _ = (parse(&text), mounted_parts(&text), unescape(&text));
        }
    }
}
