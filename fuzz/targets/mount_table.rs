//! The mount table: the reader of quell-cgroup against that of quell-resctrl, and paths of any
//! characters through the kernel's escapes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_cgroup::fuzzing::{mounted_parts, mounts, unescape};
use quell_fuzz::text;
use quell_resctrl::{CpuSupport, parse_mounts};

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    let _ = (mounted_parts(&text), unescape(&text), CpuSupport::parse(&text));
    let last = mounts(&text).into_iter().rfind(|(_, kind, _)| kind == "resctrl");
    if let (Some((point, _, options)), Some(mount)) = (last, parse_mounts(&text))
        && mount.path.starts_with("/")
    {
        assert_eq!(mount.path.to_str(), Some(point.as_str()));
        assert_eq!(mount.cdp, options.iter().any(|option| option == "cdp"));
    }
    escaped_paths_come_back(&format!("/{text}"));
});

/// As the kernel prints it (seq_path): blanks, backslashes and `#` in octal.
fn escaped_paths_come_back(path: &str) {
    let mut escaped = String::new();
    for c in path.chars() {
        match c {
            ' ' | '\t' | '\n' | '\r' | '\\' | '#' => {
                escaped.push_str(&format!("\\{:03o}", c as u32))
            }
            _ => escaped.push(c),
        }
    }
    assert_eq!(unescape(&escaped), path);
    let line = format!("resctrl {escaped} resctrl rw,cdp 0 0\n");
    let mount = parse_mounts(&line).expect("a mount");
    assert_eq!(mount.path.to_str(), Some(path));
    assert_eq!(mounts(&line)[0].0, path);
}
