//! resctrl: schemata, counters, domains, modes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::text;
use quell_resctrl::{Line, Schemata, parse_assign_mode, parse_counter, parse_domain};

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    if let Ok(schemata) = text.parse::<Schemata>() {
        assert_eq!(schemata.to_string().parse(), Ok(schemata.clone()));
        assert_eq!(Schemata::new(schemata.lines().to_vec()), Ok(schemata.clone()));
        every_value_can_be_set(schemata);
    }
    if let Ok(count) = parse_counter(&text) {
        assert_eq!(parse_counter(&format!("{count}\n")), Ok(count));
    }
    if let Some(domain) = parse_domain(&text) {
        assert_eq!(parse_domain(&format!("mon_L3_{domain:02}")), Some(domain));
    }
    let _ = parse_assign_mode(&text);
});

fn every_value_can_be_set(mut schemata: Schemata) {
    for line in schemata.lines().to_vec() {
        let Line::Known(resource, values) = line else { continue };
        for (domain, value) in values {
            assert_eq!(schemata.get(resource, domain), Some(value));
            assert!(schemata.set(resource, domain, value ^ 1));
            assert_eq!(schemata.get(resource, domain), Some(value ^ 1));
        }
    }
}
