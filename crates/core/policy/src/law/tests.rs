//! Tests of what all laws share.

use super::*;

#[test]
fn names_are_read_back_and_others_are_refused() {
    for law in Law::ALL {
        assert_eq!(law.to_string().parse(), Ok(law));
        assert_eq!(serde_json::to_value(law).unwrap(), law.name());
    }
    let error = "Quell".parse::<Law>().unwrap_err().to_string();
    assert!(error.contains("\"Quell\"") && error.contains("heracles"), "{error}");
}

#[test]
fn every_law_is_built_by_default_under_its_own_name() {
    for law in Law::ALL {
        let policies = build(law, &LawParams::default()).unwrap();
        assert!(!policies.is_empty(), "{law}");
        assert!(policies.iter().all(|p| !p.period().is_zero()), "{law}");
        let names: Vec<&str> = policies.iter().map(|p| p.name()).collect();
        match law {
            Law::Alita => assert_eq!(names, ["bus-lock", "llc-bias", "power"]),
            one => assert_eq!(names, [one.name()]),
        }
    }
}

#[test]
fn a_table_that_is_left_out_keeps_its_defaults_and_an_unknown_key_is_refused() {
    let read = |text: &str| serde_json::from_str::<LawParams>(text);
    let params = read(r#"{"thesis":{"profile":"author"},"static":{"batch_cpu_set":"0-1"}}"#);
    let params = params.unwrap();
    assert_eq!(params.thesis, ThesisParams::of(crate::Profile::Author));
    assert_eq!(params.fixed.batch_cpu_set.unwrap().len(), 2);
    assert_eq!(params.heracles, HeraclesParams::default());
    for bad in [r#"{"thesis":{"top_period":1}}"#, r#"{"theses":{}}"#] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn parameters_that_contradict_each_other_are_refused_with_the_laws_name() {
    let mut params = LawParams::default();
    params.thesis.top_period_s = 0.0;
    let error = build(Law::Thesis, &params).err().unwrap().to_string();
    assert!(error.starts_with("law thesis: top_period_s = 0"), "{error}");
    assert!(build(Law::Heracles, &params).is_ok(), "other laws do not mind");
}

#[test]
fn laws_run_beside_others_unless_they_work_against_each_other() {
    let make = |law, beside: &[Law]| build_all(law, beside, &LawParams::default());
    let names = |law, beside: &[Law]| {
        let made = make(law, beside).map(|all| all.iter().map(|p| p.name()).collect());
        made.unwrap_or_else(|error| panic!("{error}"))
    };
    let names: [Vec<&str>; 3] = [
        names(Law::Quell, &[Law::BusLock, Law::Power]),
        names(Law::OsOnly, &[Law::Alita, Law::Culprit]),
        names(Law::Heracles, &[]),
    ];
    assert_eq!(names[0], ["quell", "bus-lock", "power"]);
    assert_eq!(names[1], ["os-only", "bus-lock", "llc-bias", "power", "culprit"]);
    assert_eq!(names[2], ["heracles"]);
    for (law, beside, why) in [
        (Law::Quell, vec![Law::Thesis], "only laws that limit polluters"),
        (Law::Thesis, vec![Law::Alita], "divides the caches"),
        (Law::Quell, vec![Law::Culprit], "experiments"),
        (Law::None, vec![Law::Power, Law::Alita], "twice"),
        (Law::Power, vec![Law::Power], "twice"),
    ] {
        let error = make(law, &beside).err().unwrap().to_string();
        assert!(error.contains(why), "{law} beside {beside:?}: {error}");
    }
}
