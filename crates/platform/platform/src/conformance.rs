//! What every platform must keep: one test body for the table, for fixture trees, for the real
//! machine, and for whatever comes later.
//!
//! Each check panics with what went wrong; [`run`] plays them all on platforms made afresh.

use crate::platform::{Platform, Scope};
use quell_types::{
    Action, CapabilityReport, CpuBandwidth, Gap, GaugeReading, Knob, KnobRange, Reading, Sample,
    Setting, TenantReading,
};
use std::sync::Arc;
use std::time::Duration;

const SOON: Duration = Duration::from_millis(20);
/// How many samples a write may take to show.
const PATIENCE: usize = 150;

/// Plays all checks. `make` gives a fresh platform each time; at least one knob must be
/// controllable on it.
///
/// # Panics
/// With the broken promise.
pub fn run<P: Platform>(mut make: impl FnMut() -> P) {
    time_and_counters_never_go_back(&mut make());
    a_write_shows_in_a_later_sample(&mut make());
    an_unknown_knob_is_an_outcome_and_changes_nothing(&mut make());
    restore_brings_back_the_first_settings(&mut make());
    an_absent_capability_is_a_gap(&make().capabilities());
}

/// Reads a full sample, soon.
fn sample<P: Platform>(platform: &mut P) -> Sample {
    match platform.sample(SOON, Scope::Full) {
        Ok(sample) => sample,
        Err(error) => panic!("a sample must be had: {error}"),
    }
}

/// Time rises from sample to sample, counters never fall while the workload is the same.
///
/// # Panics
/// If not.
pub fn time_and_counters_never_go_back<P: Platform>(platform: &mut P) {
    let mut before = sample(platform);
    for _ in 0..5 {
        let now = sample(platform);
        assert!(now.time > before.time, "time went from {:?} to {:?}", before.time, now.time);
        for (tenant, reading) in &now.tenants {
            if let Some(old) = before.tenants.get(tenant) {
                never_back(&tenant.to_string(), old, reading);
            }
        }
        if let (Ok(old), Ok(new)) = (&before.host.gauge, &now.host.gauge) {
            gauge_goes_on(old, new);
        }
        before = now;
    }
}

/// Its counts never fall, and nobody has more samples than there are. (None wraps that soon.)
fn gauge_goes_on(old: &GaugeReading, new: &GaugeReading) {
    let fell = old.all.slots.iter().zip(&new.all.slots).any(|(old, new)| new < old);
    assert!(!fell, "the gauge fell: {old:?} {new:?}");
    let (before, now) = (old.pauses, new.pauses);
    let pauses_fell = now.timed_ns < before.timed_ns || now.lost_ns < before.lost_ns;
    assert!(!pauses_fell, "late timers went back: {before:?} {now:?}");
    let passes_fell = old.passes.slots.iter().zip(&new.passes.slots).any(|(old, new)| new < old);
    assert!(!passes_fell, "passes of lines went back: {old:?} {new:?}");
    assert!(now.lost_ns <= now.timed_ns, "more time was lost than passed: {now:?}");
    for beside in new.beside.values().chain([&new.others]) {
        let more = beside.slots.iter().zip(&new.all.slots).any(|(beside, all)| beside > all);
        assert!(!more, "more samples beside somebody than in all: {new:?}");
    }
}

fn never_back(tenant: &str, old: &TenantReading, new: &TenantReading) {
    if old.identity != new.identity {
        return;
    }
    let grows = |what: &str, old: &Reading<u64>, new: &Reading<u64>| {
        if let (Ok(old), Ok(new)) = (old, new) {
            assert!(new >= old, "{what} of {tenant} went back from {old} to {new}");
        }
    };
    grows("CPU time", &old.cpu_ns, &new.cpu_ns);
    grows("faults", &old.page_faults, &new.page_faults);
    grows("bytes sent", &old.egress_bytes, &new.egress_bytes);
    let stood = |r: &TenantReading| r.waits.clone().map(|w| w.own_ns + w.others_ns + w.nobody_ns);
    grows("waits", &stood(old), &stood(new));
    if let (Ok(old), Ok(new)) = (&old.waits, &new.waits) {
        for (behind, old_ns) in &old.behind_ns {
            let new_ns = new.behind_ns.get(behind).copied().unwrap_or(0);
            grows(&format!("waits behind {behind}"), &Ok(*old_ns), &Ok(new_ns));
        }
        let (old, new) = (&old.elsewhere, &new.elsewhere);
        assert_eq!(old.cpus, new.cpus, "other CPUs beside {tenant}");
        for (other, old_ns) in &old.tenants_ns {
            let new_ns = new.tenants_ns.get(other).copied().unwrap_or(0);
            grows(&format!("waits while {other} ran elsewhere"), &Ok(*old_ns), &Ok(new_ns));
        }
        grows("waits beside idle CPUs", &Ok(old.nobody_ns), &Ok(new.nobody_ns));
    }
    if let (Ok(old), Ok(new)) = (&old.company, &new.company) {
        for (beside, old) in &old.tenants {
            let new = new.tenants.get(beside).copied().unwrap_or_default();
            grows(&format!("time beside {beside}"), &Ok(old.cpu_ns), &Ok(new.cpu_ns));
            grows(&format!("sends beside {beside}"), &Ok(old.sends), &Ok(new.sends));
        }
    }
    let requests = |r: &TenantReading| r.requests.clone().map(|r| r.requests);
    grows("requests", &requests(old), &requests(new));
}

/// Every controllable knob takes another setting of its range, and a later sample shows it.
///
/// # Panics
/// If not.
pub fn a_write_shows_in_a_later_sample<P: Platform>(platform: &mut P) {
    let ranges = platform.setup().knobs.clone();
    assert!(!ranges.is_empty(), "conformance needs a knob to turn");
    for (knob, range) in ranges {
        let first = setting_of(&sample(platform), &knob);
        for to in other_settings(&first, &range) {
            apply(platform, &knob, &to);
            let shown = wait_for(platform, &knob, &to);
            assert_eq!(shown, Ok(to.clone()), "{knob} was set to {to}");
        }
        apply(platform, &knob, &first);
        assert_eq!(wait_for(platform, &knob, &first), Ok(first), "{knob} set back");
    }
    if let Err(error) = platform.restore() {
        panic!("restore: {error}");
    }
}

/// A knob that is not there is answered by a failed outcome, and nothing changes.
///
/// # Panics
/// If not.
pub fn an_unknown_knob_is_an_outcome_and_changes_nothing<P: Platform>(platform: &mut P) {
    let before = sample(platform).knobs;
    let knob = Knob::CpuWeight { tenant: "quell-nobody".into() };
    apply(platform, &knob, &Setting::Weight(7));
    let after = sample(platform);
    let told =
        |o: &&quell_types::Outcome| matches!(&o.action, Action::Set { knob: k, .. } if k == &knob);
    let outcome = after.outcomes.iter().find(told);
    assert!(outcome.is_some_and(|o| o.error.is_some()), "outcomes: {:?}", after.outcomes);
    assert_eq!(before, after.knobs);
}

/// After any writes, restore brings back what the first sample showed.
///
/// # Panics
/// If not.
pub fn restore_brings_back_the_first_settings<P: Platform>(platform: &mut P) {
    let ranges = platform.setup().knobs.clone();
    let first = sample(platform).knobs;
    for (knob, range) in &ranges {
        let Some(Ok(now)) = first.get(knob) else { continue };
        for to in other_settings(now, range) {
            apply(platform, knob, &to);
        }
    }
    if let Err(error) = platform.restore() {
        panic!("restore: {error}");
    }
    let mut after = Arc::default();
    for _ in 0..PATIENCE {
        after = sample(platform).knobs;
        if after == first {
            return;
        }
    }
    assert_eq!(first, after, "restore must bring the first settings back");
}

/// What is absent says why.
///
/// # Panics
/// If not.
pub fn an_absent_capability_is_a_gap(reports: &[CapabilityReport]) {
    for report in reports {
        let quell_types::Capability::Absent(why) = &report.capability else { continue };
        assert!(!why.is_empty(), "{:?} is absent without a reason", report.kind);
        assert!(!report.without.is_empty(), "{:?}: what does Quell do without?", report.kind);
    }
}

fn setting_of(sample: &Sample, knob: &Knob) -> Setting {
    match sample.knobs.get(knob) {
        Some(Ok(setting)) => setting.clone(),
        other => panic!("{knob} is said to be controllable and reads {other:?}"),
    }
}

fn apply<P: Platform>(platform: &mut P, knob: &Knob, to: &Setting) {
    if let Err(error) = platform.apply(&Action::Set { knob: knob.clone(), to: to.clone() }) {
        panic!("applying must not lose the platform: {error}");
    }
}

fn wait_for<P: Platform>(platform: &mut P, knob: &Knob, wanted: &Setting) -> Reading<Setting> {
    let mut shown = Err(Gap::Pending);
    for _ in 0..PATIENCE {
        shown = sample(platform).knobs.get(knob).cloned().unwrap_or(Err(Gap::Pending));
        if shown.as_ref() == Ok(wanted) {
            break;
        }
    }
    shown
}

/// Settings of the range that differ from `now` and that every kernel takes as they are.
fn other_settings(now: &Setting, range: &KnobRange) -> Vec<Setting> {
    let candidates = match range {
        KnobRange::Cpus { within, .. } => vec![Setting::Cpus(within.first(1))],
        KnobRange::Bandwidth { .. } => vec![
            Setting::Bandwidth(CpuBandwidth::limited(0.5, Duration::from_millis(10))),
            Setting::Bandwidth(CpuBandwidth::limited(0.2, Duration::from_millis(100))),
            Setting::Bandwidth(CpuBandwidth::unlimited()),
        ],
        KnobRange::Weight { .. } => vec![Setting::Weight(200), Setting::Weight(50)],
        KnobRange::Flag => vec![Setting::Flag(true), Setting::Flag(false)],
        KnobRange::Rate { min } => {
            let rate = quell_types::BytesPerSecond(min.0.max(1_250_000.0));
            vec![Setting::Rate(Some(rate)), Setting::Rate(None)]
        }
        KnobRange::Ways { full, min_bits, .. } => {
            let low = (1u64 << (*min_bits).max(1)) - 1;
            vec![Setting::Ways(full & low), Setting::Ways(*full)]
        }
        KnobRange::Percent { min, .. } => vec![Setting::Percent(*min), Setting::Percent(100)],
        KnobRange::Frequency { min, max } => {
            vec![Setting::Frequency(*min), Setting::Frequency(*max)]
        }
        KnobRange::Duty { parts } => vec![Setting::Duty(1), Setting::Duty(*parts)],
        KnobRange::Nodes { within } => vec![Setting::Nodes(within.first(1))],
    };
    candidates.into_iter().filter(|candidate| candidate != now).collect()
}
