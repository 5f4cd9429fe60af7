//! What another program may set a knob to.

use crate::dice::Dice;
use quell_types::{BytesPerSecond, CpuBandwidth, CpuSet, Kilohertz, KnobRange, Setting};
use std::time::Duration;

/// Any setting that the machine takes.
pub(crate) fn any_setting(dice: &mut Dice, range: &KnobRange) -> Setting {
    match range {
        KnobRange::Cpus { within, .. } => Setting::Cpus(some_of(dice, within)),
        KnobRange::Nodes { within } => Setting::Nodes(some_of(dice, within)),
        KnobRange::Duty { parts } => Setting::Duty(dice.between(1, u64::from(*parts)) as u32),
        KnobRange::Bandwidth { .. } => {
            let limits = [0.1, 0.5, 1.5];
            match dice.pick(&limits).filter(|_| !dice.one_in(4)) {
                Some(limit) => {
                    Setting::Bandwidth(CpuBandwidth::limited(*limit, Duration::from_millis(100)))
                }
                None => Setting::Bandwidth(CpuBandwidth::unlimited()),
            }
        }
        KnobRange::Weight { min, max } => {
            Setting::Weight(dice.between(u64::from(*min), u64::from(*max)) as u32)
        }
        KnobRange::Flag => Setting::Flag(dice.one_in(2)),
        KnobRange::Rate { min } => {
            let rate = (!dice.one_in(3)).then(|| BytesPerSecond(min.0 * dice.between(1, 9) as f64));
            Setting::Rate(rate)
        }
        KnobRange::Ways { full, min_bits, .. } => {
            let ways = u64::from(full.count_ones());
            let bits = dice.between(u64::from((*min_bits).max(1)), ways);
            let low = dice.between(0, ways - bits) + u64::from(full.trailing_zeros());
            Setting::Ways(((1u64 << bits) - 1) << low)
        }
        KnobRange::Percent { min, step } => {
            let step = (*step).max(1);
            let steps = u64::from((100 - min) / step);
            Setting::Percent(min + step * dice.between(0, steps) as u32)
        }
        KnobRange::Frequency { min, max } => {
            Setting::Frequency(Kilohertz(dice.between(min.0, max.0)))
        }
    }
}

/// Any of them, at least one.
pub(crate) fn some_of(dice: &mut Dice, within: &CpuSet) -> CpuSet {
    let all: Vec<u32> = within.iter().collect();
    let mut set: CpuSet = all.iter().copied().filter(|_| dice.one_in(2)).collect();
    if set.is_empty() {
        set.insert(dice.pick(&all).copied().unwrap_or(0));
    }
    set
}
