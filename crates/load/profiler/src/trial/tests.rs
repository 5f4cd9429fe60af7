//! Windows and looks at a host that is as a script says.

use super::testing::{Made, NO_TIME};
use super::*;
use crate::Watched;
use quell_pressure::{Options, allowed_cpus, arm};
use quell_types::Topology;

/// A trial of it beside a host that is as it says, and what was seen of that.
fn tried<T>(
    stretch: u32,
    effort: Effort,
    run: impl FnOnce(&mut Trial<'_>, Instant, &mut Watch) -> T,
) -> (T, Watched) {
    tried_with(Made::on_a_host(stretch), effort, run)
}

fn tried_with<T>(
    (mut subject, mut watch): (Made, Watch),
    effort: Effort,
    run: impl FnOnce(&mut Trial<'_>, Instant, &mut Watch) -> T,
) -> (T, Watched) {
    let (resource, stop) = (Resource::Integer, Stop::new().unwrap());
    let mut options = Options::new(resource);
    options.cpus = allowed_cpus().unwrap().first(1);
    let pressure = arm(&options, &Topology::default(), &stop).unwrap().start();
    let subject: &mut dyn Subject = &mut subject;
    let mut trial = Trial::new(subject, &pressure, effort, 0.95, &stop);
    let found = run(&mut trial, Instant::now() + effort.budget, &mut watch);
    (found, watch.seen())
}

/// The ratios at full pressure, and the verdict.
fn at_full(stretch: u32, effort: Effort) -> (Vec<f64>, Verdict, Watched) {
    let ((ratios, said), seen) = tried(stretch, effort, |trial, end, watch| {
        let mut found = Found::default();
        let said = trial.level(&mut found, 100.0, end, watch).unwrap();
        (found.levels.remove(0).ratios, said)
    });
    (ratios, said, seen)
}

#[test]
fn a_calm_host_changes_nothing() {
    let (ratios, said, seen) = at_full(0, NO_TIME);
    assert_eq!((ratios, said), (vec![1.0; 4], Verdict::Kept));
    assert_eq!((seen.disturbed_windows, seen.kept_windows), (0, 0));
}

#[test]
fn what_was_disturbed_is_measured_again() {
    let (ratios, said, seen) = at_full(2, NO_TIME);
    assert_eq!(said, Verdict::Kept, "{ratios:?}");
    assert!(ratios.len() >= 4 && ratios.iter().all(|ratio| *ratio == 1.0), "{ratios:?}");
    assert!(seen.disturbed_windows > 0 && seen.kept_windows == 0, "{seen:?}");
}

#[test]
fn a_host_that_never_settles_and_a_time_that_is_up_end_it() {
    let (ratios, said, seen) = at_full(u32::MAX, NO_TIME);
    assert_eq!((said, ratios.len()), (Verdict::Lost, MOST + AGAIN));
    assert_eq!(seen.kept_windows as usize, ratios.len(), "and it is told");
    let late = Effort { budget: Duration::ZERO, ..NO_TIME };
    let (ratios, _, seen) = at_full(u32::MAX, late);
    assert_eq!((ratios.len(), seen.kept_windows), (2, 2));
}

#[test]
fn levels_are_watched_as_long_as_there_is_patience() {
    for (patience_s, clean) in [(60, true), (0, false)] {
        let (levels, seen) = tried(4, NO_TIME, |trial, _, watch| {
            trial.levels_watched(&[50.0, 100.0], Duration::from_secs(patience_s), watch).unwrap()
        });
        let alike = levels.iter().flat_map(|level| &level.ratios).all(|ratio| *ratio == 1.0);
        assert_eq!((alike, seen.kept_windows == 0), (clean, clean), "{levels:?} {seen:?}");
        assert!(levels.iter().all(|level| level.ratios.len() >= NO_TIME.pairs), "{levels:?}");
    }
}

#[test]
fn pairs_of_the_grid_are_filled_up() {
    for (stretch, kept) in [(0, 0), (2, 0), (u32::MAX, 4 + AGAIN)] {
        let (level, seen) =
            tried(stretch, NO_TIME, |trial, end, watch| trial.pairs(50.0, end, watch).unwrap());
        assert_eq!(seen.kept_windows as usize, kept, "{stretch}: {seen:?} {:?}", level.ratios);
        assert!(level.ratios.len() >= 4);
        assert!(kept > 0 || level.ratios.iter().all(|ratio| *ratio == 1.0), "{:?}", level.ratios);
    }
}

#[test]
fn what_is_not_known_well_is_measured_until_it_is() {
    let unclear = || Found {
        levels: vec![Level { percent: 100.0, ratios: vec![0.8, 1.0] }],
        ..Found::default()
    };
    let refined = |time: Duration| {
        let run = |trial: &mut Trial<'_>, _: Instant, watch: &mut Watch| {
            let mut found = unclear();
            trial.refine(&mut found, Instant::now() + time, watch).unwrap();
            found
        };
        tried(0, NO_TIME, run).0
    };
    assert_eq!(refined(Duration::ZERO), unclear(), "no time");
    let found = refined(Duration::from_secs(60));
    assert!(unclear().tolerated(0.95).width() > NO_TIME.resolution);
    assert!(found.tolerated(0.95).width() <= NO_TIME.resolution, "{found:?}");
    assert!(found.levels[0].ratios.len() > 2 && found.levels.len() == 1, "{found:?}");
}

#[test]
fn a_further_turn_measures_what_is_not_known_well() {
    let known = |ratios: Vec<f64>, reporter: Vec<f64>| Found {
        levels: vec![Level { percent: 100.0, ratios }],
        reporter,
        ..Found::default()
    };
    let more = |known: &Found| {
        let run = |trial: &mut Trial<'_>, _: Instant, watch: &mut Watch| {
            trial.more(known, watch).unwrap()
        };
        tried(0, Effort { window: Duration::from_millis(2), ..NO_TIME }, run).0
    };
    let (unclear, clear) = (vec![0.8, 1.0], vec![1.0; 8]);
    let known_well = known(clear.clone(), clear.clone());
    assert_eq!(more(&known_well), Found::default());
    let unheard = known(clear.clone(), Vec::new());
    let found = more(&unheard);
    assert!(found.levels.is_empty() && !found.reporter.is_empty(), "{found:?}");
    let unsure = known(unclear, clear);
    let found = more(&unsure);
    assert!(
        found.levels[0].ratios.iter().all(|ratio| *ratio == 1.0),
        "only what is new: {found:?}"
    );
    assert!(found.reporter.is_empty(), "{found:?}");
    assert!(unsure.and(found).tolerated(0.95).width() <= NO_TIME.resolution);
}

#[test]
fn a_search_leaves_the_reporter_its_time() {
    let (longer, _) = tried(0, NO_TIME, |trial, end, _| {
        let free = trial.is_up(end);
        trial.kept = trial.listening_takes(Duration::from_secs(20));
        (free, trial.is_up(end))
    });
    assert_eq!(longer, (false, true), "four turns of twenty seconds are more than a minute");
}

#[test]
fn a_whole_trial_of_what_loses_nothing() {
    let (found, seen) = tried(0, NO_TIME, |trial, _, watch| trial.run(watch).unwrap());
    assert_eq!(found.tolerated(0.95).value, 100.0, "{found:?}");
    assert!(!found.disturbed && !found.cut_short && seen.kept_windows == 0, "{found:?}");
    let (found, _) = tried(u32::MAX, NO_TIME, |trial, _, watch| trial.run(watch).unwrap());
    assert!(found.disturbed, "the host never settles: {found:?}");
}

#[test]
fn a_command_in_runs_is_heard_while_it_is_pressed_on_in_full() {
    let short = Effort { window: Duration::from_millis(2), ..NO_TIME };
    for (stretch, level, is_heard) in [(0, 100.0, true), (2, 100.0, true), (0, 50.0, false)] {
        // On a busy machine a kernel may not get its CPU in so short a window, and is not heard in it.
        let told = (0..5).any(|_| {
            let ((pairs, heard), _) = tried(stretch, short, |trial, end, watch| {
                trial.heard = Some(Sieve::default());
                let mut found = Found::default();
                trial.level(&mut found, level, end, watch).unwrap();
                (found.levels[0].ratios.len(), trial.heard.take().map(|heard| heard.values().len()))
            });
            let heard = heard.unwrap();
            assert!(heard <= pairs, "{level} %, the host disturbs {stretch} windows");
            heard == if is_heard { pairs } else { 0 }
        });
        assert!(told, "{level} %, the host disturbs {stretch} windows");
    }
    let (made, watch) = Made::on_a_host(0);
    let ((found, kept), _) = tried_with((made.in_runs(), watch), short, |trial, _, watch| {
        (trial.run(watch).unwrap(), trial.kept)
    });
    assert_eq!(kept, Duration::ZERO, "nothing is set aside for the reporter");
    assert!(found.reporter.len() >= found.levels[0].ratios.len(), "{found:?}");
}

#[test]
fn what_would_not_be_over_in_time_is_not_begun() {
    let (short, long) = (Duration::from_millis(100), Duration::from_secs(25));
    for (in_runs, window, has_time) in
        [(false, short, true), (false, long, false), (true, short, true), (true, long, false)]
    {
        let (made, watch) = Made::on_a_host(0);
        let made = if in_runs { made.in_runs() } else { made };
        let (said, _) = tried_with((made, watch), NO_TIME, |trial, end, _| {
            trial.window = window;
            (trial.has_time_for_a_pair(end), trial.must_end(1, end))
        });
        assert_eq!(
            said,
            (has_time, !has_time),
            "{in_runs}: three windows of {window:?} in a minute"
        );
    }
    let (made, watch) = Made::on_a_host(0);
    let (pairs, _) = tried_with((made.in_runs(), watch), NO_TIME, |trial, end, _| {
        trial.window = Duration::from_secs(11);
        trial.pairs_until(end)
    });
    assert_eq!(pairs, 2, "two pairs are five windows");
}

#[test]
fn windows_are_shorter_where_time_is_short() {
    let ms = Duration::from_millis;
    let effort = Effort { window: ms(300), budget: ms(8000), ..NO_TIME };
    for (time, least, window) in
        [(9000, 0, 300), (2400, 0, 100), (240, 0, 40), (0, 0, 40), (240, 250, 250), (240, 600, 300)]
    {
        let found = effort.within(ms(time), ms(least));
        assert_eq!(found.window, ms(window), "{time} {least}");
        assert_eq!(found.budget, ms(time.min(8000)), "{time} {least}");
    }
    assert_eq!(NO_TIME.within(ms(10), ms(600)).window, Duration::ZERO, "never longer than wanted");
}
