//! Flags: `--service KEY=VALUE,…`, `--set PATH=VALUE` and the like.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_agent::{check_laws, known_laws};
use quell_config::{Flags, Laws, Raw};
use quell_fuzz::text;
use std::sync::OnceLock;

static LAWS: OnceLock<Laws> = OnceLock::new();
const FILE: &str = "[[service]]\nunit = \"redis.service\"\np99 = \"3ms\"\n";

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    let mut flags = Flags::default();
    for line in text.lines() {
        let Some((kind, value)) = line.split_at_checked(1) else { continue };
        let value = value.to_owned();
        match kind {
            "s" => flags.services.push(value),
            "b" => flags.batch.push(value),
            "l" => flags.links.push(value),
            "w" => flags.law = Some(value),
            _ => flags.set.push(value),
        }
    }
    let laws = LAWS.get_or_init(known_laws);
    let alone = Raw::from_flags(&flags).check(laws);
    let merged = Raw::from_toml("quell.toml", FILE).merged(Raw::from_flags(&flags)).check(laws);
    for checked in [alone, merged] {
        let told = checked.and_then(|checked| check_laws(&checked).map(|()| checked));
        if let Err(errors) = told {
            assert!(!errors.0.is_empty());
            let bad = |c: char| c.is_control() && c != '\n';
            assert!(!errors.to_string().contains(bad), "{errors:?}");
        }
    }
});
