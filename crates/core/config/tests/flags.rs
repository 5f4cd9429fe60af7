//! Flags alone, and flags over a file.

mod common;

use common::{LEAST, check, check_flags, laws, texts};
use proptest::prelude::*;
use quell_config::{Flags, LatencySource, Raw, Selector};
use quell_types::BytesPerSecond;
use std::time::Duration;

fn flags(services: &[&str], batch: &[&str], links: &[&str], set: &[&str]) -> Flags {
    Flags {
        services: texts(services),
        batch: texts(batch),
        links: texts(links),
        law: None,
        set: texts(set),
    }
}

#[test]
fn flags_alone_make_a_configuration() {
    let config = check_flags(&Flags {
        services: texts(&["name=search,unit=redis.service,p99=3ms", "pid=12, p99.9 = 1 s"]),
        batch: texts(&["cgroup=/batch", "cgroup=/bulk,tasks=true,max_tasks=2,links=eth0,eth1"]),
        links: texts(&["name=eth0,capacity=1Gbit", "name=eth1,capacity=12.5MB/s"]),
        law: Some("none".into()),
        set: texts(&["agent.interval_s=0.5", "law.quell.cores=3", "agent.manage=0,2"]),
    })
    .unwrap();
    assert_eq!(config.agent.law, "none");
    assert_eq!(config.agent.interval, Duration::from_millis(500));
    assert_eq!(config.agent.manage.unwrap().to_string(), "0,2");
    assert_eq!(config.services[0].name.as_str(), "search");
    assert_eq!(config.services[1].name.as_str(), "pid-12");
    assert_eq!(config.services[1].slo.percentile_frac, 0.999);
    assert_eq!(config.batch[0].name.as_str(), "batch");
    assert_eq!(config.batch[1].links.len(), 2);
    assert_eq!(config.links[1].capacity, BytesPerSecond(12.5e6));
    assert_eq!(config.laws["quell"]["cores"].as_integer(), Some(3));
}

#[test]
fn flags_and_file_say_the_same() {
    let file = "[[service]]\ncgroup=\"/a\"\np95=\"20ms\"\nports=[80,81]\nadopt=true\npeak_qps=10\n\
                [[service]]\npid=3\np50=\"1ms\"\n\
                latency={prometheus=\"http://h:1/m\",metric=\"m\"}\n";
    let by_file = check(file).unwrap();
    let by_flags = check_flags(&flags(
        &[
            "cgroup=/a,p95=20ms,ports=80,81,adopt=true,peak_qps=10",
            "pid=3,p50=1ms,latency.prometheus=http://h:1/m,latency.metric=m",
        ],
        &[],
        &[],
        &[],
    ))
    .unwrap();
    for (a, b) in by_file.services.iter().zip(&by_flags.services) {
        assert_eq!((&a.name, &a.selector, a.slo), (&b.name, &b.selector, b.slo));
        assert_eq!((&a.latency, a.adopt, a.peak_qps), (&b.latency, b.adopt, b.peak_qps));
    }
}

#[test]
fn each_error_has_its_place_in_the_flag() {
    let one = |service: &str| flags(&[service], &[], &[], &[]);
    let good = "pid=1,p99=3ms";
    let cases = [
        (one("name=a,unit=redis,p99=3ms"), "--service", 13, "no suffix", "redis.service"),
        (one("pid=1,p98=3ms"), "--service", 7, "unknown key `p98`", "did you mean"),
        (one("pid=1,p99=3"), "--service", 11, "has no unit", "3ms"),
        (one("pid=x,p99=3ms"), "--service", 5, "\"x\" is no whole number", "1 to"),
        (one("search"), "--service", 1, "no key=value", "unit=redis.service"),
        (one("pid=1,p99=3ms,pid=2"), "--service", 15, "given twice", ""),
        (one("pid=1,p99=3ms,latency=x"), "--service", 23, "no source of latency", "ebpf"),
        (flags(&[good], &["p99=3ms,pid=4"], &[], &[]), "--batch", 1, "unknown key", "[[service]]"),
        (flags(&[good], &["cgroup=batch"], &[], &[]), "--batch", 8, "no absolute path", "/batch"),
        (flags(&[good], &[], &["name=eth0"], &[]), "--link", 1, "`capacity` is missing", "Mbit"),
        (flags(&[good], &[], &[], &["agent.intervl_s=1"]), "--set", 1, "unknown key", "interval_s"),
        (flags(&[good], &[], &[], &["service.p99=1"]), "--set", 1, "cannot be set", "agent"),
        (flags(&[good], &[], &[], &["agent.adopt"]), "--set", 1, "no path=value", "agent"),
        (flags(&[good], &[], &[], &["law.quell.cores=99"]), "--set", 17, "out of range", "64"),
        (
            Flags { law: Some("quel".into()), ..flags(&[good], &[], &[], &[]) },
            "--law",
            1,
            "there is no law `quel`",
            "`quell`",
        ),
    ];
    for (flags, flag, column, problem, help) in cases {
        let found = check_flags(&flags).unwrap_err().0;
        assert_eq!(found.len(), 1, "{flags:?}\n{found:#?}");
        let error = &found[0];
        assert_eq!(error.origin.to_string(), flag, "{error}");
        assert_eq!((error.line, error.column), (1, column), "{error}");
        assert!(error.problem.contains(problem), "{error}");
        assert!(error.help.as_deref().unwrap_or_default().contains(help), "{error}");
    }
}

#[test]
fn nothing_at_all_says_what_is_needed() {
    let found = check_flags(&Flags::default()).unwrap_err();
    assert!(found.to_string().contains("no service is configured"), "{found}");
    assert!(found.to_string().contains("--service unit=redis.service,p99=3ms"), "{found}");
}

#[test]
fn flags_win_over_the_file_key_by_key() {
    let file = format!(
        "{LEAST}peak_qps = 10\n[agent]\nlaw = \"quell\"\nadopt = true\n\
         [agent.experiments]\nenabled = false\n[[batch]]\ncgroup = \"/batch\"\n\
         [[link]]\nname = \"eth0\"\ncapacity = \"1Gbit\"\n"
    );
    let over = Flags {
        services: texts(&["name=redis,p95=9ms,pid=4", "pid=9,p50=1ms", "vm=build-7,p99=1ms"]),
        batch: texts(&["name=batch,tasks=true"]),
        links: texts(&["name=eth0,capacity=100Mbit"]),
        law: Some("none".into()),
        set: texts(&["agent.experiments.max_share=0.001"]),
    };
    let raw = Raw::from_toml("quell.toml", &file).merged(Raw::from_flags(&over));
    let config = raw.check(&laws()).unwrap();
    let names: Vec<_> = config.services.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["redis", "pid-9", "build-7"]);
    assert_eq!(config.services[2].selector, Selector::Vm("build-7".into()));
    let redis = &config.services[0];
    assert_eq!(redis.slo.percentile_frac, 0.95, "p95 takes the place of p99");
    assert_eq!(redis.selector, Selector::Pid(4), "pid takes the place of unit");
    assert_eq!(redis.peak_qps, Some(10.0), "what the flag does not say stays");
    assert!(config.batch[0].takes_tasks && config.batch.len() == 1);
    assert_eq!(config.links[0].capacity, BytesPerSecond(12.5e6));
    assert_eq!(config.agent.law, "none");
    assert!(config.agent.adopt && !config.agent.experiments.enabled);
    assert_eq!(config.agent.experiments.max_share_frac, 0.001);
}

#[test]
fn another_source_of_latency_takes_the_ports_away() {
    let file = format!("{LEAST}ports = [6379]\n");
    let over = flags(&["name=redis,latency.socket=/run/quell/r.sock"], &[], &[], &[]);
    let raw = Raw::from_toml("quell.toml", &file).merged(Raw::from_flags(&over));
    let config = raw.check(&laws()).unwrap();
    assert_eq!(config.services[0].latency, LatencySource::Socket("/run/quell/r.sock".into()));
}

#[test]
fn errors_of_file_and_flags_come_together_file_first() {
    let over = flags(&["pid=x,p99=1ms"], &[], &[], &["agent.adopt=maybe"]);
    let raw = Raw::from_toml("quell.toml", "[agent]\nlaw = 3\n").merged(Raw::from_flags(&over));
    let found = raw.check(&laws()).unwrap_err().0;
    let origins: Vec<_> = found.iter().map(|e| e.origin.to_string()).collect();
    assert_eq!(origins, ["quell.toml", "--service", "--set"], "{found:#?}");
}

proptest! {
    #[test]
    fn any_flags_are_answered(
        service in "(name|pid|p99|unit|latency.socket|latency)?=?[a-z0-9=,.\"/ ]{0,20}|.{0,20}",
        link in "(name=|capacity=)?.{0,10}",
        set in "(agent|law)?\\.?(quell|adopt|experiments)?(\\.cores|=|\\.){0,2}.{0,8}",
    ) {
        let flags = flags(&[&service, &service], &[&service], &[&link], &[&set]);
        let file = Raw::from_toml("f", LEAST);
        if let Err(errors) = file.merged(Raw::from_flags(&flags)).check(&laws()) {
            prop_assert!(errors.to_string().contains("error"));
        }
    }
}
