//! Tests of what is drawn, refused and told. Nothing here locks the bus.

use super::super::draw::names as group_names;
use super::*;
use quell_service::SearchParams;

fn options() -> BusTrialOptions {
    BusTrialOptions {
        bursts: BusBursts {
            bursts: 10,
            length: Duration::from_millis(400),
            pause: Duration::from_secs(5),
            rest_percent: 0,
        },
        hurts_everyone: true,
        seed: 1,
        service: ServiceSpec::Search(SearchParams::default()),
        json: None,
        report: None,
        program: "/bin/false".into(),
    }
}

#[test]
fn without_consent_or_out_of_bounds_nothing_begins() {
    assert!(options().check().is_ok());
    let refused = |change: fn(&mut BusTrialOptions)| {
        let mut options = options();
        change(&mut options);
        let said = bus_trial(&options, &Interrupt::default(), &|_| panic!("it began"));
        said.unwrap_err().to_string()
    };
    assert!(refused(|o| o.hurts_everyone = false).contains("--i-know-this-hurts-everyone"));
    assert!(refused(|o| o.bursts.bursts = 11).contains("1 to 10"));
    assert!(refused(|o| o.bursts.length = Duration::from_millis(600)).contains("10 to 500"));
    assert!(refused(|o| o.bursts.length = Duration::from_millis(199)).contains("less than 200 ms"));
    assert!(refused(|o| o.bursts.pause = Duration::from_secs(1)).contains("2 to 30"));
    assert!(refused(|o| o.bursts.pause = Duration::from_secs(8)).contains("70 s at most"));
}

#[test]
fn one_is_drawn_and_the_others_leave_much_of_a_cpu() {
    let mut culprits = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let drawn = draw(seed);
        assert_eq!(drawn.members, draw(seed).members);
        culprits.insert(drawn.culprit.unwrap());
        for (index, member) in drawn.members.iter().enumerate() {
            let kernel = member.kernel().unwrap();
            if Some(index) == drawn.culprit {
                assert_eq!(kernel.resource, "bus-lock");
            } else {
                assert!((10.0..=30.0).contains(&kernel.intensity), "{kernel:?}");
                assert!(!["bus-lock", "llc-capacity"].contains(&kernel.resource), "{kernel:?}");
            }
        }
    }
    assert_eq!(culprits.len(), USUAL_GROUPS);
}

const S: u64 = 1_000_000_000;

/// A course of 24 s: a burst at 5, 10, 15 and 20 s, in which requests take and cost more, the culprit
/// named at 10.2 s and limited from then on, which leaves a tenth of the harm.
fn course() -> Seen {
    let culprit = draw(1).culprit.unwrap();
    let harm = |at_ns: u64| match (at_ns % (5 * S) < 2 * S / 5 && at_ns >= 5 * S, at_ns < 11 * S) {
        (true, true) => 3.0,
        (true, false) => 1.2,
        (false, _) => 1.0,
    };
    let window = |tenth: u64| {
        let start_monotonic_ns = tenth * S / 10;
        let ms = 2.0 * harm(start_monotonic_ns);
        Window {
            start_monotonic_ns,
            start_s: 0.0,
            length_s: 0.1,
            offered: 50,
            answered: 50,
            failed: 0,
            backlog: 0,
            offered_qps: 500.0,
            answered_qps: 500.0,
            mean_ms: Some(ms),
            p50_ms: Some(ms),
            p95_ms: Some(2.0 * ms),
            p99_ms: None,
            p999_ms: None,
            short: false,
        }
    };
    let mut used_ns = 0.0;
    let used = (0..1200).map(|step| {
        let at_ns = step * S / 50;
        let now = used_ns as u64;
        used_ns += 20e6 * 0.5 * harm(at_ns);
        (at_ns, now)
    });
    let moment = |tenth: u64| {
        let mut limit_cpus = vec![None; USUAL_GROUPS];
        limit_cpus[culprit] = (tenth >= 103).then_some(0.05);
        Moment { at_ns: tenth * S / 10, cpu_ns: vec![0; USUAL_GROUPS], limit_cpus }
    };
    let burst = |number: u32| {
        let from_ns = u64::from(number) * 5 * S;
        BusBurst { number, from_ns, to_ns: from_ns + 2 * S / 5, locks: 300_000 }
    };
    let mut names = Names::default();
    let suspect = |name: &str| Said { suspected: [name.to_owned()].into(), ..Said::default() };
    names.hear(6 * S, &suspect(&group_names(USUAL_GROUPS)[(culprit + 1) % USUAL_GROUPS]));
    let named =
        Said { named: [group_names(USUAL_GROUPS)[culprit].clone()].into(), ..Said::default() };
    names.hear(10 * S + S / 5, &named);
    names.hear(12 * S, &named);
    Seen {
        start_ns: 0,
        bursts: (1..=4).map(burst).collect(),
        names,
        windows: (0..240).map(window).collect(),
        used: used.collect(),
        moments: (0..240).map(moment).collect(),
    }
}

#[test]
fn each_burst_is_told_against_the_quiet_before_it_and_those_under_the_limit_apart() {
    let report = BusTrialReport::new(&options(), &draw(1), 500.0, &course());
    assert_eq!((report.named_in_burst, report.limited_in_burst), (Some(2), Some(2)));
    assert!(report.innocents_named.is_empty() && report.innocents_limited.is_empty());
    assert_eq!(report.innocents_suspected.len(), 1);
    assert_eq!((report.free.bursts, report.limited.bursts), (2, 2));
    let near = |ratio: Option<f64>, wanted: f64| (ratio.unwrap() - wanted).abs() < 0.02;
    for (medians, harm) in [(report.free, 3.0), (report.limited, 1.2)] {
        assert!(near(medians.mean_ratio, harm) && near(medians.p95_ratio, harm), "{medians:?}");
        assert!(near(medians.cost_ratio, harm), "{medians:?}");
    }
    assert_eq!(report.bursts[3].limit_cpus, Some(0.05));
    let words = report.in_words();
    assert!(words.contains("named in burst 2, limited in burst 2"), "{words}");
    assert!(words.contains("while limited: 2 bursts, mean 1.20"), "{words}");
}

#[test]
fn a_trial_that_was_ended_early_tells_what_there_is() {
    let report = BusTrialReport::new(&options(), &draw(1), 500.0, &Seen::default());
    assert_eq!((report.named_in_burst, report.free), (None, Medians::default()));
    assert!(report.in_words().contains("named never"));
    let mut starved = course();
    starved.windows.retain(|window| window.mean_ms == Some(2.0));
    let report = BusTrialReport::new(&options(), &draw(1), 500.0, &starved);
    assert_eq!(report.bursts[0].mean_ratio, None, "nothing was answered in it");
}

#[test]
fn the_page_shows_the_course() {
    let seen = course();
    let report = BusTrialReport::new(&options(), &draw(1), 500.0, &seen);
    let text = report::page(&report, &seen).to_text(100);
    assert!(text.contains("The service's tail") && text.contains("CPUs of him"), "{text}");
}
