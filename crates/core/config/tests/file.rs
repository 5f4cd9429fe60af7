//! What a file may say and what it may not.

mod common;

use common::{LEAST, check, errors, lines};
use proptest::prelude::*;
use quell_config::{ConfigErrors, ForeignChange, LatencySource, Metrics, Raw, Selector};
use quell_types::{BytesPerSecond, Link};
use std::time::Duration;

#[test]
fn the_least_has_all_defaults() {
    let config = check(LEAST).unwrap();
    let agent = &config.agent;
    assert_eq!(agent.interval, Duration::from_secs(1));
    assert_eq!(agent.fast_interval, Duration::from_millis(250));
    assert_eq!(agent.state_dir, "/var/lib/quell");
    assert_eq!(agent.metrics, Metrics::Unix("/run/quell/metrics.sock".into()));
    assert_eq!(agent.on_foreign_change, ForeignChange::Reassert);
    assert_eq!(agent.law, "quell");
    assert!(!agent.adopt && agent.manage.is_none());
    assert!(agent.experiments.enabled);
    assert_eq!(agent.experiments.max_share_frac, 0.01);
    assert_eq!(agent.experiments.max_length, Duration::from_millis(200));
    let service = &config.services[0];
    assert_eq!(service.name.as_str(), "redis");
    assert_eq!(service.selector, Selector::Unit("redis.service".into()));
    assert_eq!((service.slo.percentile_frac, service.slo.target_s), (0.99, 0.003));
    assert_eq!(service.latency, LatencySource::Ebpf { ports: vec![] });
    assert!(config.batch.is_empty() && config.links.is_empty());
}

#[test]
fn the_state_folder_is_known_whatever_else_is_wrong_unless_it_may_have_been_meant() {
    let folder = |text: &str| Raw::from_toml("quell.toml", text).state_dir();
    let written = "[agent]\nintervall_s = 1\nstate_dir = \"/srv/q\"\n[[service]]\np99 = 3\n";
    assert!(check(written).is_err());
    assert_eq!(folder(written).unwrap(), "/srv/q");
    for (default, text) in [(true, ""), (true, LEAST), (true, "[[service]]\np99 = 3\n")] {
        assert_eq!(folder(text).is_ok_and(|f| f == "/var/lib/quell"), default, "{text}");
    }
    for (text, line) in [
        ("[agent]\nstate_dirs = \"/srv/q\"\n", 2),
        ("[agent]\nstate_dir = 7\n", 2),
        ("[agent]\nstate_dir = \"relative\"\n", 2),
        ("agent = 1\n", 1),
        ("[agent\n", 1),
    ] {
        assert_eq!(folder(text).unwrap_err().0[0].line, line, "{text}");
    }
}

const EVERYTHING: &str = r#"
[agent]
interval_s = "500ms"
fast_interval_s = 0.1
state_dir = "/srv/quell/"
metrics = "127.0.0.1:9464"
on_foreign_change = "give-up"
law = "none"
adopt = true
manage = "1-3"
experiments = { enabled = false, max_share = "0.5 %" }
[[service]]
name = "shop"
pid = 42
percentile = 99.5
target = "2 s"
peak_qps = 1_000
latency = { prometheus = "http://localhost/metrics", metric = "m", labels = { a = "b" } }
links = ["eth0"]
adopt = false
[[service]]
cgroup = "/a/b"
"p99.9" = "250us"
ports = [80, 443]
[[service]]
cgroup = "/a/c"
p99.9 = "250us"
latency.socket = "/run/quell/c.sock"
[[batch]]
cgroup = "/batch/"
tasks = true
max_tasks = 3
[[link]]
name = "eth0"
capacity = "100Mbit"
netns = "blue"
[law.quell]
settle_s = "250ms"
guard_frac = "40 %"
limit_bytes_per_s = "40GB/s"
cores = 3
literal = true
profile = "report"
steps = [1, 0.5]
free = { a = 1 }
"#;

#[test]
fn everything_can_be_said() {
    let config = check(EVERYTHING).unwrap();
    assert_eq!(config.agent.interval, Duration::from_millis(500));
    assert_eq!(config.agent.state_dir, "/srv/quell");
    assert_eq!(config.agent.experiments.max_share_frac, 0.005);
    let [shop, b, c] = &config.services[..] else { panic!("three services") };
    assert_eq!((shop.slo.percentile_frac, shop.slo.target_s), (0.995, 2.0));
    assert!(!shop.adopt && b.adopt, "a service says otherwise than the agent");
    assert_eq!(shop.links, [Link::from("eth0")]);
    assert_eq!(b.latency, LatencySource::Ebpf { ports: vec![80, 443] });
    assert_eq!(b.slo, c.slo, "p99.9 is understood with and without quotes");
    assert_eq!(c.latency, LatencySource::Socket("/run/quell/c.sock".into()));
    assert_eq!(config.batch[0].selector, Selector::Cgroup("/batch".into()));
    assert_eq!((config.batch[0].name.as_str(), config.batch[0].max_tasks), ("batch", 3));
    assert_eq!(config.links[0].capacity, BytesPerSecond(12.5e6));
    let law = config.law_parameters("quell");
    assert_eq!(law["settle_s"].as_float(), Some(0.25));
    assert_eq!(law["guard_frac"].as_float(), Some(0.4));
    assert_eq!(law["limit_bytes_per_s"].as_float(), Some(40e9));
    assert_eq!(law["steps"].as_array().map(Vec::len), Some(2));
    assert_eq!(law["free"]["a"].as_integer(), Some(1));
    assert!(config.law_parameters("none").is_empty());
}

/// What a text with one error is made of.
enum Text {
    /// `LEAST` and this after it.
    After(&'static str),
    /// A service of these keys.
    Service(&'static str),
    /// This.
    Whole(&'static str),
}
use Text::{After, Service, Whole};

impl Text {
    fn text(&self) -> String {
        match self {
            After(text) => format!("{LEAST}{text}"),
            Service(keys) => format!("[[service]]\n{keys}\n"),
            Whole(text) => (*text).to_owned(),
        }
    }
}

/// One error each: the text, where it is and what is said, and what would be right.
const ONE_ERROR: &[(Text, &str, &str)] = &[
    (After("[agent]\nintervall_s = 1"), "5:1 agent.intervall_s: unknown key", "`interval_s`"),
    (After("[agent]\np99 = 1"), "5:1 agent.p99: unknown key", "belongs to [[service]]"),
    (After("[agnet]"), "4:2 agnet: unknown table", "`agent`"),
    (After("[agent]\ninterval_s = 0"), "5:14 agent.interval_s: 0 is out of range", "0.05 to 60"),
    (After("[agent]\ninterval_s = nan"), "5:14 agent.interval_s: NaN", "0.05"),
    (After("[agent]\ninterval_s = true"), "5:14 agent.interval_s: a boolean is no time", "60"),
    (After("[agent]\ninterval_s = 0.1"), "agent.interval_s: the fast path is slower", "at most"),
    (After("[agent]\nstate_dir = \"var\""), "5:13 agent.state_dir: \"var\" is no abs", "absolute"),
    (After("[agent]\nstate_dir = \"/a/../b\""), "agent.state_dir: \"/a/../b\" has", "absolute"),
    (After("[agent]\nmetrics = \":9464\""), "5:11 agent.metrics", "127.0.0.1:9464"),
    (After("[agent]\non_foreign_change = \"giveup\""), "agent.on_foreign_change", "`give-up`"),
    (After("[agent]\nlaw = \"quel\""), "5:7 agent.law: there is no law `quel`", "`quell`"),
    (After("[agent]\nadopt = \"yes\""), "5:9 agent.adopt: \"yes\" is no boolean", "true or"),
    (After("[agent]\nmanage = \"3-1\""), "5:10 agent.manage: \"3-1\" is no CPU list", "0-3,8"),
    (After("[agent]\nmanage = \"\""), "5:10 agent.manage: the CPU list is empty", "0-3,8"),
    (After("[agent.experiments]\nmax_share = 0.5"), "agent.experiments.max_share", "0 to 0.01"),
    (After("[agent]\nexperiments = 1"), "5:15 agent.experiments: an integer where", "a table"),
    (After("agent = 1"), "service[0].agent: unknown key", "known here"),
    (
        Whole("[service]\nunit = \"a.service\"\np99 = \"1ms\""),
        "1:2 service: a table",
        "[[service]]",
    ),
    (Whole("service = [1]"), "1:12 service: an integer where", "[[service]]"),
    (Whole(""), "1:1 service: no service is configured", "--service"),
    (Service("p99 = \"3ms\""), "1:1 service[0].cgroup: no selector is given", "cgroup, unit, pid"),
    (Service("pid = 1\nunit = \"a.scope\"\np99 = \"3ms\""), "more than one selector", "exactly"),
    (Service("pid = 0\np99 = \"3ms\""), "2:7 service[0].pid: 0 is out of range", "1 to 4194304"),
    (
        Service("vm = \"a/b\"\nname = \"v\"\np99 = \"3ms\""),
        "\"a/b\" is no virtual machine's name",
        "virsh list",
    ),
    (Service("cgroup = \"/\"\np99 = \"3ms\""), "2:10 service[0].cgroup: the root group", "below"),
    (Service("cgroup = \"a\"\np99 = \"3ms\""), "2:10 service[0].cgroup: \"a\" is no abs", "/batch"),
    (
        Service("cgroup = \"/sys/fs/cgroup/cpu/a\"\np99 = \"3ms\""),
        "2:10 service[0].cgroup: the path begins with the mount point",
        "below the hierarchy's root",
    ),
    (Service("unit = \"redis\"\np99 = \"3ms\""), "2:8 service[0].unit", "\"redis.service\"?"),
    (Service("cgroup = \"/a b\"\np99 = \"3ms\""), "1:1 service[0].name: `a b`, which", "`name`"),
    (
        Service("name = \"-\"\npid = 1\np99 = \"3ms\""),
        "2:8 service[0].name: \"-\" is no",
        "up to 63",
    ),
    (Service("pid = 1"), "1:1 service[0].p50: no objective is given", "p99"),
    (Service("pid = 1\np95 = \"1ms\"\np99 = \"3ms\""), "4:7 service[0].p99: more than", "exactly"),
    (Service("pid = 1\npercentile = 99"), "service[0].target: `target` is missing", "percentile"),
    (Service("pid = 1\ntarget = \"3ms\""), "service[0].percentile: `percentile` is", "target"),
    (Service("pid = 1\npercentile = 0.99\ntarget = \"3ms\""), "3:14 service[0].percentile", "50"),
    (Service("pid = 1\np99 = 3"), "3:7 service[0].p99: an integer has no unit", "\"3ms\""),
    (Service("pid = 1\np99 = \"3\""), "3:7 service[0].p99: \"3\" has no unit", "ns, us, ms"),
    (Service("pid = 1\np99 = \"2h\""), "3:7 service[0].p99: \"2h\" is out of range", "10us to 60s"),
    (Service("pid = 1\nP99 = \"3ms\"\np95=\"3ms\""), "3:1 service[0].P99: unknown key", "`p99`"),
    (After("peak_qps = -1"), "4:12 service[0].peak_qps: -1 is out of range", "number"),
    (After("ports = [0]"), "4:10 service[0].ports: 0 is out of range", "1 to 65535"),
    (After("ports = 80"), "4:9 service[0].ports: an integer where a list", "a list of ports"),
    (After("latency = \"bpf\""), "4:11 service[0].latency: \"bpf\" is no source", "\"ebpf\""),
    (After("latency = {}"), "4:11 service[0].latency.prometheus: no source", "prometheus+metric"),
    (
        After("latency = { prometheus = \"http://a/\" }"),
        "4:11 service[0].latency.metric: `metric` is missing",
        "prometheus and metric",
    ),
    (
        After("latency = { prometheus = \"https://a/\", metric = \"m\" }"),
        "4:26 service[0].latency.prometheus: https is not spoken",
        "http://",
    ),
    (
        After("latency = { socket = \"/a\", labels = {} }"),
        "service[0].latency.labels: labels where samples come by a socket",
        "no labels",
    ),
    (
        After("ports = [1]\nlatency = { socket = \"/a\" }"),
        "4:9 service[0].ports: ports where latency",
        "no ports",
    ),
    (After("links = [\"eth0\"]"), "4:9 service[0].links: there is no link `eth0`", "[[link]]"),
    (After("[[batch]]\npid = 7\nmax_tasks = 2"), "6:13 batch[0].max_tasks", "tasks = true"),
    (After("[[batch]]\npid = 7\nname = \"redis\""), "6:8 batch[0].name: `redis` is", "its own"),
    (After("[[link]]\nname = \"eth0\""), "4:1 link[0].capacity: `capacity` is", "100Mbit"),
    (
        After("[[link]]\nname = \"eth0\"\ncapacity = \"12MB\""),
        "6:12 link[0].capacity: \"12MB\" is a size",
        "\"12MB/s\"",
    ),
    (
        After("[[link]]\nname = \"interface-too-long\"\ncapacity = \"1Gbit\""),
        "5:8 link[0].name",
        "up to 15",
    ),
    (After("[law.thesiss]"), "4:6 law.thesiss: there is no law", "known here: none, quell"),
    (After("[law.quell]\nsettel_s = 1"), "5:1 law.quell.settel_s: law quell has", "`settle_s`"),
    (After("[law.quell]\nsettle_s = 11"), "5:12 law.quell.settle_s: 11 is out", "0 to 10"),
    (After("[law.quell]\nguard_frac = 0"), "5:14 law.quell.guard_frac: 0 is out", "above 0"),
    (After("[law.quell]\ncores = 1.5"), "5:9 law.quell.cores: a number where", "0 to 64"),
    (After("[law.quell]\nprofile = \"reprot\""), "5:11 law.quell.profile", "`report`"),
    (After("[law.quell]\nsteps = [1, -1]"), "5:13 law.quell.steps: -1 is out", "a list, each"),
    (After("law = 3"), "service[0].law: unknown key", "belongs to [agent]"),
    (After("[agent]\nmanage = 1979-05-27"), "5:10 agent.manage: a date where", "0-3,8"),
];

#[test]
fn each_error_has_its_place_its_reason_and_its_remedy() {
    for (text, place, help) in ONE_ERROR {
        let text = text.text();
        let found = errors(&text);
        let listed = lines(&found);
        assert_eq!(found.len(), 1, "{text}\n{listed:#?}");
        assert!(listed[0].contains(place), "{text}\n{} has no {place:?}", listed[0]);
        let said = found[0].help.as_deref().unwrap_or_default();
        assert!(said.contains(help), "{text}\n{said:?} has no {help:?}");
    }
}

#[test]
fn all_errors_are_told_at_once_in_the_order_of_the_text() {
    let text = r#"[agent]
law = "quel"
colour = "red"

[[service]]
name = "search"
p99 = "3"
links = ["eth1"]

[[service]]
name = "search"
pid = 12
p99 = "3ms"

[[link]]
name = "eth0"
capacity = 100

[law.quell]
cores = -1
"#;
    let wanted = [
        "2:7 agent.law: there is no law `quel`",
        "3:1 agent.colour: unknown key `colour`",
        "5:1 service[0].cgroup: no selector is given",
        "7:7 service[0].p99: \"3\" has no unit",
        "8:9 service[0].links: there is no link `eth1`",
        "11:8 service[1].name: `search` is the name of service[0] too",
        "17:12 link[0].capacity: an integer has no unit",
        "20:9 law.quell.cores: -1 is out of range",
    ];
    assert_eq!(lines(&errors(text)), wanted);
}

#[test]
fn text_that_is_no_toml_is_told_with_what_else_is_wrong_and_without_guesses_at_what_is_missing() {
    let found = errors("[[service]]\nunit = redis.service\ncolour = 1\np99 = \"3ms\"\n= 2\n");
    let listed = lines(&found);
    assert!(listed.iter().any(|l| l.starts_with("2:8") && l.contains("no TOML")), "{listed:#?}");
    assert!(listed.iter().any(|l| l.starts_with("3:1") && l.contains("colour")), "{listed:#?}");
    assert!(listed.iter().any(|l| l.starts_with("5:")), "{listed:#?}");
    assert!(!listed.iter().any(|l| l.contains("missing")), "{listed:#?}");
}

#[test]
fn a_duplicate_key_is_an_error() {
    let listed = lines(&errors(&format!("{LEAST}p99 = \"4ms\"\n")));
    assert!(listed[0].starts_with("4:1") && listed[0].contains("duplicate key"), "{listed:#?}");
}

#[test]
fn a_number_beyond_64_bits_is_an_error() {
    let listed = lines(&errors(&format!("{LEAST}peak_qps = 99999999999999999999\n")));
    assert!(listed[0].starts_with("4:12") && listed[0].contains("64 bits"), "{listed:#?}");
}

#[test]
fn deep_nesting_is_an_error_not_a_crash() {
    for text in ["[".repeat(100_000), format!("a = {}", "[".repeat(100_000)), "a.".repeat(50_000)] {
        assert!(!errors(&text).is_empty());
    }
}

#[test]
fn no_control_character_of_a_text_reaches_the_terminal() {
    let text = "\"\\u001b[31m\" = 1\n[agent]\n\"a\\u0007b\" = 2\n[law.\"x\\u009by\"]\n";
    let shown = ConfigErrors(errors(text)).to_string();
    assert!(shown.contains("\\u{1b}[31m"), "{shown}");
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
}

#[test]
fn a_text_full_of_errors_is_answered_with_the_first_hundred() {
    let keys: Vec<String> = (0..2_000).map(|i| format!("k{i} = 1")).collect();
    for text in [keys.join("\n"), format!("agent = {{ {} }}", keys.join(", "))] {
        let found = check(&text).unwrap_err();
        assert_eq!(found.0.len(), 100);
        assert!(found.to_string().ends_with("and more that are not shown"));
    }
}

#[test]
fn errors_are_data_too() {
    let error = &errors(&format!("{LEAST}p98 = \"4ms\"\n"))[0];
    let json = serde_json::to_value(error).unwrap();
    assert_eq!(json["source"], "file");
    assert_eq!(json["name"], "quell.toml");
    assert_eq!((json["line"].as_u64(), json["column"].as_u64()), (Some(4), Some(1)));
    assert_eq!(json["key"], "service[0].p98");
    let back: quell_config::ConfigError = serde_json::from_value(json).unwrap();
    assert_eq!(&back, error);
}

#[test]
fn the_law_itself_can_point_at_a_parameter() {
    let text = format!("{LEAST}[law.quell]\ncores = 3\n");
    let config = check(&text).unwrap();
    let error = &config.law_error("quell", "cores", "more cores than are managed").0[0];
    assert_eq!((error.line, error.column, error.key.as_str()), (5, 9, "law.quell.cores"));
    let error = &config.law_error("quell", "settle_s", "too short").0[0];
    assert_eq!((error.line, error.key.as_str()), (4, "law.quell.settle_s"));
}

/// Pieces of configurations, sound and not, so that random texts get past the first key.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("[[service]]\n".to_owned()),
        Just("[[batch]]\n".to_owned()),
        Just("[agent]\n".to_owned()),
        Just("[law.quell]\n".to_owned()),
        Just("[[link]]\n".to_owned()),
        Just("[service.latency]\n".to_owned()),
        ("(name|pid|p99|p99.9|unit|cgroup|law|manage|latency|links|capacity|settle_s|9)",
         "(=|= )(\"[^\"\n]{0,8}\"|-?[0-9]{1,20}|[0-9].[0-9]e9|nan|\\[\\]|\\{\\}|true|\\[1,\"a\"\\]|.{0,5})\n")
            .prop_map(|(key, value)| key + &value),
        "(?s).{0,20}",
    ]
}

proptest! {
    #[test]
    fn any_text_is_answered(pieces in proptest::collection::vec(piece(), 0..12)) {
        let text = pieces.concat();
        match Raw::from_toml("quell.toml", &text).check(&common::laws()) {
            Ok(config) => prop_assert!(!config.services.is_empty()),
            Err(errors) => {
                prop_assert!(!errors.0.is_empty());
                let shown = errors.to_string();
                prop_assert!(shown.contains("error: "));
                let last = text.matches('\n').count() + 1;
                prop_assert!(errors.0.iter().all(|e| e.line >= 1 && e.line <= last));
            }
        }
    }
}
