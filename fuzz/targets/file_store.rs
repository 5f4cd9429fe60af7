//! Files of records: whatever a crash left, whole records stay and new ones follow them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::text;
use quell_platform::{FileStore, Store};
use std::path::PathBuf;
use std::sync::LazyLock;

static PATH: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("quell-fuzz-store-{}", std::process::id())));

fuzz_target!(|data: &[u8]| {
    std::fs::write(&*PATH, data).expect("the temporary folder can be written");
    let mut store = FileStore::open(&PATH).expect("any file opens");
    let whole = data.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let wanted: Vec<String> = text(&data[..whole]).lines().map(str::to_owned).collect();
    assert_eq!(store.read().expect("it can be read"), wanted);
    store.append("{}").expect("it can be written");
    let mut again = FileStore::open(&PATH).expect("it opens again").read().expect("it can be read");
    assert_eq!(again.pop().as_deref(), Some("{}"));
    assert_eq!(again, wanted, "an old record changed");
});
