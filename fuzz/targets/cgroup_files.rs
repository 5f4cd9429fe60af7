//! cpu.stat, PSI, memory.stat, cpu.max and `/proc/PID/cgroup`, against the readers of
//! quell-topology where both have one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_cgroup::fuzzing as cgroup;
use quell_fuzz::{Numbers, text};
use quell_topology::fuzzing as topology;

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    let _ = cgroup::numbers(&text);
    let _ = cgroup::throttling(&text);
    if let Some(ns) = topology::some_total_ns(&text) {
        assert_eq!(cgroup::some_total_ns(&text), Some(ns));
    }
    if let Some((quota, period)) = cgroup::cpu_max(&text) {
        let quota_text = quota.map_or_else(|| "max".to_owned(), |us| us.to_string());
        assert_eq!(cgroup::cpu_max(&format!("{quota_text} {period}\n")), Some((quota, period)));
    }
    for line in text.lines() {
        let Some(there) = topology::memberships(line).pop() else { continue };
        let (words, path) = cgroup::membership(line).expect("both read the same lines");
        assert_eq!(
            (words, path),
            (there.controllers.iter().map(String::as_str).collect(), &*there.path)
        );
    }
    written_numbers_come_back(&mut Numbers(data));
});

fn written_numbers_come_back(numbers: &mut Numbers<'_>) {
    let (periods, throttled, us) = (numbers.u64(), numbers.u64(), numbers.u64());
    let stat = format!(
        "usage_usec {us}\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {us}\n"
    );
    let ns = us.saturating_mul(1000);
    assert_eq!(cgroup::throttling(&stat), Some((periods, throttled, ns)));
    assert_eq!(cgroup::numbers(&stat)[4], Some(ns));
    let psi = format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\nfull total=1\n");
    assert_eq!(cgroup::some_total_ns(&psi), Some(ns));
}
