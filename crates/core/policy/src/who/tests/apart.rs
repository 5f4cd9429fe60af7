//! Tests of `who` on a host that runs the CPUs on cores of one cache now, and of two then.

use super::*;

/// For a second and a half, or some times as long, they share no cache, and then they do: half of the time.
fn now_and_then(step: u32) -> bool {
    (step / 6).wrapping_mul(2_654_435_761) >> 31 == 1
}

/// In how many worlds such a culprit is named within half a minute, and somebody else is.
fn named_in(worlds: u64, ratio: f64, sees_apart: bool) -> (usize, usize) {
    let (mut right, mut wrong) = (0, 0);
    for seed in 1..=worlds {
        let mut world = world(&[("c", libm::log(ratio))], 700 + seed);
        (world.apart, world.sees_apart) = (now_and_then, sees_apart);
        let mut named = BTreeSet::new();
        for _ in 0..120 {
            world.step();
            named.extend(world.named());
        }
        right += usize::from(named.contains("c"));
        wrong += usize::from(named.iter().any(|name| name != "c"));
    }
    (right, wrong)
}

#[test]
fn who_hurts_by_a_cache_is_named_though_the_host_takes_it_away_half_of_the_time() {
    let ((blind, _), (seeing, wrong)) = (named_in(60, 1.3, false), named_in(60, 1.3, true));
    assert!(seeing >= 48 && wrong == 0, "{seeing} of 60 named, {wrong} wrong");
    assert!(seeing >= blind + 10, "seen {seeing}, not seen {blind} of 60");
}

#[test]
fn looks_wait_until_the_cpus_share_a_cache_again_but_not_for_ever() {
    let mut world = world(&[("c", 0.3)], 5);
    world.apart = |step| step >= 8;
    let mut before = 0;
    for step in 0..160 {
        world.step();
        match step {
            // One that began right before.
            0..=8 => before = world.looks.len(),
            9..=120 => assert_eq!(world.looks.len(), before, "step {step}"),
            _ => {}
        }
    }
    assert!(world.looks.len() > before, "there may be harm by something else");
    assert!(before >= 4, "{before}");
}
