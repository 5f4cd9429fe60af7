//! Scenarios that are played: figures, determinism, degradation, faults.
#![allow(clippy::unwrap_used)]

use quell_simulate::*;
use quell_view::{Item, Plot};
use std::collections::BTreeSet;

fn play(text: &str, options: &Options) -> Simulated {
    let scenario = Scenario::parse("test", text).unwrap_or_else(|errors| panic!("{errors}"));
    simulate(&scenario, options, &|_, _| ()).unwrap()
}

fn figure<'a>(simulated: &'a Simulated, name: &str) -> &'a Figure {
    simulated.report.figures.iter().find(|f| f.name == name).unwrap()
}

/// A guarded service beside streams, in seconds of simulated time.
const GUARDED: &str = include_str!("golden/guarded.scenario");

#[test]
fn figures_are_laid_beside_what_is_expected() {
    let played = play(GUARDED, &Options { jobs: 2, ..Options::default() });
    for f in &played.report.figures {
        assert!(f.held && f.note.is_none(), "{f:?}");
    }
    assert_eq!(played.report.status, Status::Passed);
    let wrong = GUARDED.replace("= 0.4 within 0.05", "= 0.9 within 0.05");
    let played = play(&wrong, &Options { jobs: 1, ..Options::default() });
    assert_eq!(played.report.status, Status::Failed);
    let load = figure(&played, "load");
    assert!(!load.held && (load.ours.unwrap() - 0.4).abs() < 0.05 && load.paper == 0.9);
}

#[test]
fn a_scenario_is_repeated_to_the_byte_and_a_seed_changes_it() {
    let once = |seed, jobs| {
        let options = Options { seed: Some(seed), jobs, keep_journals: true, law: None };
        let played = play(GUARDED, &options);
        (played.report.digest, played.journals)
    };
    let first = once(3, 1);
    assert!(first.1.len() == 6 && first.1.iter().any(|(_, journal)| journal.len() > 1000));
    assert_eq!(first, once(3, 2), "whatever runs beside it");
    assert_ne!(first.0, once(4, 1).0);
}

#[test]
fn every_tick_is_looked_at_where_a_run_is_exact() {
    let options = || Options { jobs: 2, keep_journals: true, ..Options::default() };
    let exact = play(&GUARDED.replace("run 10s after 5s", "run 10s after 5s exact"), &options());
    assert_eq!(exact.report.status, Status::Passed);
    assert_ne!(exact.report.digest, play(GUARDED, &options()).report.digest, "it is another path");
}

/// Digests of the decision journals of all laws. They change with the simulator and with any law;
/// when that is meant, replace the file by what the failing test prints.
#[test]
fn the_journals_of_all_laws_are_the_golden_ones() {
    let played = play(GUARDED, &Options { jobs: 2, ..Options::default() });
    let lines: String =
        played.digests.iter().map(|(point, digest)| format!("{point}  {digest}\n")).collect();
    let golden = include_str!("golden/journals.txt");
    assert!(lines == golden, "the journals changed; their digests are now:\n{lines}");
}

#[test]
fn a_trace_has_a_plot_for_each_metric_and_a_line_for_each_point() {
    let asked =
        "print trace load_frac slack_frac emu_frac by policy where beside=stream policy=none|quell";
    let text =
        format!("{GUARDED}\n{asked}\n").replace("run 10s after 5s", "run 6s after 2s window 2s");
    let played = play(&text, &Options { jobs: 2, ..Options::default() });
    let plots: Vec<_> = played.section.items.iter().filter_map(plot_of).collect();
    let titles: Vec<&str> = plots.iter().map(|p| p.title.as_str()).collect();
    assert_eq!(titles, ["load_frac over time", "slack_frac over time", "emu_frac over time"]);
    for plot in plots {
        let names: Vec<&str> = plot.series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["none", "quell"]);
        let ends: Vec<f64> = plot.series[1].points.iter().map(|p| p.0.round()).collect();
        assert_eq!(ends, [2.0, 4.0, 6.0], "warming up is not shown");
        assert!(plot.series.iter().flat_map(|s| &s.points).all(|p| p.1.is_some()));
    }
}

fn plot_of(item: &Item) -> Option<&Plot> {
    match item {
        Item::Plot(plot) => Some(plot),
        _ => None,
    }
}

#[test]
fn another_law_takes_the_place_of_the_scenarios() {
    let law = "os-only".parse().ok();
    let played = play(GUARDED, &Options { law, jobs: 1, ..Options::default() });
    assert!(played.report.figures.is_empty(), "no figure is of this law");
}

#[test]
fn a_law_that_lacks_something_runs_degraded_and_says_how() {
    let bare =
        GUARDED.replace("  threads 1\n", "  threads 1\n  without cat\n  without monitoring\n");
    let played = play(&bare, &Options { jobs: 1, ..Options::default() });
    let said = played.report.degraded.join("; ");
    assert!(said.contains("no cache can be divided"), "{said}");
    assert!(figure(&played, "load").held);
}

#[test]
fn events_happen_at_their_moment_and_faults_do_not_stop_the_law() {
    let text = "\
scenario events \"things happen\"
machine e5-2683v4
  cores 4
  threads 1
service xapian
  load 10%
batch jobs
policy quell
at 10s load xapian 60%
at 12s start integer x 2 in jobs
at 13s lose 2
at 14s refuse 2
at 15s blind xapian
at 16s stall
at 17s cpus jobs 0-1
at 18s agent-dies
run 15s after 10s
expect \"load\" load_frac >= 0.5
expect \"batch\" cpus of jobs >= 0.5
expect \"kept\" slo_kept_frac >= 0.9
";
    let played = play(text, &Options { jobs: 1, ..Options::default() });
    for f in &played.report.figures {
        assert!(f.held, "{f:?}");
    }
}

#[test]
fn a_peak_is_found_by_its_tail() {
    let text = "\
scenario peak \"a rate is found\"
machine e5-2683v4
  cores 2
  threads 1
service xapian
  peak p95 8ms
  load 100%
run 20s after 3s
policy none
expect \"tail at full load\" p95_ms = 8 within 1.5
";
    let played = play(text, &Options { jobs: 1, ..Options::default() });
    assert!(played.report.figures[0].held, "{:?}", played.report.figures);
}

#[test]
fn every_scenario_of_the_library_is_good_and_the_folder_holds_no_other() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios");
    let files = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name());
    let files: BTreeSet<String> = files.map(|f| f.into_string().unwrap()).collect();
    let listed: BTreeSet<String> = LIBRARY.iter().map(|(id, _)| format!("{id}.scenario")).collect();
    assert_eq!(files, listed);
    for (id, _) in LIBRARY {
        let scenario = find(id).unwrap().unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(scenario.id, *id);
        assert!(scenario.runs() > 0 && !scenario.source.is_empty(), "{id}");
    }
    assert!(find("T-E99").is_none());
}

#[test]
fn a_pending_scenario_says_why_and_what_it_expects() {
    let text = "\
scenario later \"needs what is not there yet\"
pending \"needs the law tomorrow\"
machine vm2
service xapian
policy tomorrow
run 10s
expect \"kept\" slo_kept_frac >= 0.9
";
    let played = play(text, &Options::default());
    assert_eq!(played.report.status, Status::Pending);
    assert!(played.report.pending.unwrap().contains("tomorrow"));
    assert!(played.report.figures.iter().all(|f| !f.held && f.ours.is_none()));
}

/// A polluter of the memory bus that begins at 5 s and ends at 20 s; the law begins at 10 s.
const BUS: &str = "\
scenario bus \"a polluter of the memory bus\"
machine platinum-8163
  cores 8
vary policy none bus-lock alita
service xapian
  workers 4
  cpus 0-3
  load 40%
batch polluter
  cpus 8-11,24-27
batch calm
  run integer x 4
  cpus 4-7,20-23
policy $policy beside power when policy=bus-lock
policy $policy when policy=none
policy $policy when policy=alita
at 5s start split-lock x 4 in polluter
at 10s policy-begins
run 5s after 15s
expect \"blocked\" blocked_frac where policy=none >= 0.5
expect \"less blocked\" max blocked_frac where policy=bus-lock|alita <= 0.12
expect \"eight clocks\" max knobs_turned where policy=bus-lock|alita <= 8
expect \"turned\" min knobs_turned where policy=bus-lock|alita >= 8
expect \"the calm keep all\" instructions_per_s of calm where policy=alita over policy=none >= 0.98
";

#[test]
fn a_law_that_begins_later_slows_the_polluter_alone_and_lets_go_when_it_stops() {
    let options = Options { jobs: 2, ..Options::default() };
    let played = play(BUS, &options);
    for f in &played.report.figures {
        assert!(f.held, "{f:?}");
    }
    let stopped = BUS.replace("run 5s after 15s", "at 20s stop polluter\nrun 5s after 80s");
    let end = stopped.find("expect").unwrap();
    let stopped = format!("{}expect \"free\" max knobs_turned <= 0\n", &stopped[..end]);
    let played = play(&stopped, &options);
    assert!(played.report.figures[0].held, "{:?}", played.report.figures);
}

/// The same where no clock can be set, by a polluter in a real-time class, which CPU bandwidth does not hold.
#[test]
fn a_polluter_that_no_bandwidth_holds_is_held_by_its_freezer_where_no_clock_can_be_set() {
    let text = "\
scenario real-time \"split locks of real-time threads\"
machine platinum-8163
  cores 8
  without modulation
vary policy none bus-lock alita
vary class usual real-time
program locks
  like split-lock
  class $class
service xapian
  workers 4
  cpus 0-3
  load 40%
batch polluter
  run locks x 4
  cpus 8-11,24-27
batch calm
  run integer x 4
  cpus 4-7,20-23
policy $policy
run 10s after 10s
expect \"blocked\" min blocked_frac where policy=none >= 0.5
expect \"less blocked\" max blocked_frac where policy=bus-lock|alita <= 0.2
expect \"requests\" max mean_ms where policy=bus-lock|alita over policy=none <= 0.7
expect \"the calm keep all\" min instructions_per_s of calm where policy=bus-lock|alita over policy=none >= 0.98
";
    let played = play(text, &Options { jobs: 2, ..Options::default() });
    for f in &played.report.figures {
        assert!(f.held, "{f:?}");
    }
}

/// Who shares a cache with a service: sweeps of one, two or three groups, a group with use for all
/// of the cache, one with a large array that fits beside the service.
const CACHE: &str = "\
scenario cache \"who is confined\"
machine platinum-8163
  sockets 1
vary mix one two three rival large
vary policy none llc-bias
program rival
  base_cpi 0.8
  apki 22
  mpki 0B:20 64MiB:5
  working_set 128MiB
  overlap 2
service xapian
  workers 4
  cpus 0-3
  load 60%
batch one
  run stream-dram x 2 when mix=one|two|three
  run rival x 4 when mix=rival
  run stream-llc of 16MiB x 4 when mix=large
  cpus 4-7
batch two
  run stream-dram x 2 when mix=two|three
  cpus 8-11
batch three
  run stream-dram x 2 when mix=three
  cpus 12-15
batch calm
  run integer x 4
  cpus 16-19
policy $policy
run 30s after 40s
expect \"confined\" min knobs_turned where mix=one|two|three policy=llc-bias >= 1
expect \"at most one at each end\" max knobs_turned where mix=one|two|three policy=llc-bias <= 2
expect \"better\" max mean_ms where mix=one|two policy=llc-bias over policy=none <= 0.97
expect \"the calm keep all\" min instructions_per_s of calm where policy=llc-bias over policy=none >= 0.98
expect \"who has use for it is left\" max knob_writes where mix=rival|large policy=llc-bias <= 0
expect \"and loses nothing\" min instructions_per_s of one where mix=rival|large policy=llc-bias over policy=none >= 0.999
";

#[test]
fn only_who_sweeps_a_cache_that_others_want_is_confined_and_freed_when_it_stops() {
    let options = Options { jobs: 2, ..Options::default() };
    let played = play(CACHE, &options);
    for f in &played.report.figures {
        assert!(f.held, "{f:?}");
    }
    let stops = "at 40s stop one\nat 40s stop two\nat 40s stop three\nrun 5s after 370s";
    let stopped = CACHE.replace("run 30s after 40s", stops);
    let end = stopped.find("expect").unwrap();
    let stopped = format!("{}expect \"free\" max knobs_turned <= 0\n", &stopped[..end]);
    let played = play(&stopped, &options);
    assert!(played.report.figures[0].held, "{:?}", played.report.figures);
}

#[test]
fn rows_of_a_service_beside_batch() {
    let asked = LcBeOptions {
        service: "xapian".into(),
        machine: "e5-2683v4".into(),
        cores: Some(2),
        batch: Batch::None,
        loads: vec![0.2, 0.4],
        law: "none".parse().unwrap(),
        options: Options { jobs: 2, ..Options::default() },
    };
    let rows = lc_be(&asked, &|_, _| ()).unwrap();
    assert_eq!(rows.schema, "quell.lc-be/1");
    let loads: Vec<f64> = rows.rows.iter().map(|r| r.load_frac).collect();
    assert_eq!(loads, [0.2, 0.4]);
    let [low, high] = rows.rows.as_slice() else { panic!("{rows:?}") };
    assert!(high.cpu_utilisation_frac > 1.5 * low.cpu_utilisation_frac, "{rows:?}");
    assert!(high.egress_mbit_per_s > 1.5 * low.egress_mbit_per_s && low.p95_ms.is_some());
    let unknown = LcBeOptions { machine: "e5-2683v5".into(), ..asked };
    let error = format!("{:#}", lc_be(&unknown, &|_, _| ()).unwrap_err());
    assert!(error.contains("did you mean `e5-2683v4`"), "{error}");
}

#[test]
fn speed_is_measured_twice() {
    let speed = speed(2).unwrap();
    assert!(speed.realtime_ratio > 0.0 && speed.realtime_ratio_every_tick > 0.0);
}
