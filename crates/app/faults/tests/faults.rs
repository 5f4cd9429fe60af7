//! Five thousand faults, and every seed that ever broke something.
#![allow(clippy::unwrap_used)]

use quell_faults::{Limits, replay, run};

#[test]
fn five_thousand_faults_break_nothing() {
    let limits = Limits { hours: 0.0, faults: 5_000, threads: 2, run: 3 };
    let done = run(&limits, |_| true).unwrap();
    let report = &done.report;
    println!("{}", done.coverage);
    println!(
        "{} faults in {:.1} hours, {} of {} cells",
        report.faults, report.hours, report.sites_covered, report.sites
    );
    assert!(report.faults >= 5_000);
    assert_eq!(report.broken_seeds, []);
}

#[test]
fn seeds_that_once_broke_something_hold() {
    for (seed, once) in [
        (17_179_902_066, "panic: growth of a counter that wrapped overflowed a window"),
        (17_180_011_977, "ours: a clock jump in an experiment, and its freezer was left to others"),
        (17_180_019_127, "as found: the medium denied that the knob journal had been replaced"),
        (17_183_930_846, "ours: a setting of our own was taken for a change by others"),
        (17_187_007_740, "ours: the same, with a write on its way"),
        (17_181_611_021, "as found: a CPU was unplugged, and the set left to others for it"),
        (17_182_028_804, "as found: the same"),
        (17_182_144_515, "as found: the same"),
        (281_492_156_984_323, "as found: two sets that must not overlap had changed places"),
        (281_492_158_342_270, "law: who left a cache kept its ways"),
        (281_526_516_555_092, "ours: a freezer was left to others in the middle of an experiment"),
        (51_539_683_480, "as found: an experiment on a group that others had frozen"),
        (51_539_835_029, "as found: an experiment on a group that others had frozen"),
        (562_967_133_305_887, "explained: of two laws' wishes the one that was outvoted"),
        (562_967_133_446_779, "law: a core that a service was given kept the slow clock of batch"),
        (562_967_133_448_816, "explained: what stands once the law above has let go"),
        (562_967_133_554_111, "law: the same, by its top frequency"),
        (562_967_133_719_969, "explained: the same, after a rotation of the journal"),
        (562_967_133_914_473, "explained: a law's limit, once the one beside it let go"),
        (
            562_967_139_586_524,
            "law: a sensor said that a service was gone, and its core was slowed at once",
        ),
        (562_967_141_020_893, "law: the same"),
        (562_967_144_958_394, "law: the same, by its top frequency"),
        (562_967_153_856_932, "law: the same"),
        (562_967_153_991_135, "law: the same"),
        (562_984_315_397_153, "law: the same"),
        (562_984_319_800_813, "law: the same"),
        (562_984_321_677_790, "law: the same, with a batch group"),
        (562_984_324_316_623, "law: the same"),
        (562_984_328_400_291, "law: the same"),
        (562_984_330_183_064, "law: the same"),
        (562_984_331_173_327, "law: the same"),
        (562_984_332_602_835, "law: the same"),
        (562_984_333_356_467, "law: the same"),
        (562_984_333_812_160, "law: the same"),
        (
            562_967_141_230_610,
            "apart: a foreign set took CPUs that a set on its way had not yet left",
        ),
        (562_984_330_178_580, "apart: the same"),
        (
            562_984_317_451_695,
            "explained: two laws' limits that the kernel rounds to one above the other",
        ),
        (
            562_984_325_802_578,
            "law: a hold was not written, since a sensor that stalled still showed the last one",
        ),
        (
            562_984_323_587_663,
            "law: a group came back while the sensors stalled, and nobody could see it",
        ),
    ] {
        assert_eq!(replay(seed).unwrap().broken, None, "{once}");
    }
}

#[test]
fn an_episode_is_played_again_exactly() {
    let seed = (9 << 10) | 5;
    let played = replay(seed).unwrap();
    assert!(played.faults > 5, "{played:?}");
    assert_eq!(replay(seed).unwrap(), played);
}
