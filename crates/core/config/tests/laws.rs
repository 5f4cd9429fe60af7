//! Parameters of laws, with schemas as `schemars` really makes them.

mod common;

use common::{LEAST, lines};
use quell_config::{Checked, ConfigErrors, Laws, Raw, key_table};
use quell_types::CpuSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Of all laws.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct All {
    os_only: OsOnly,
    #[serde(rename = "static")]
    fixed: Fixed,
}

/// What the kernel offers.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct OsOnly {}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Profile {
    /// As reported.
    #[default]
    Reported,
    /// As the author had it.
    TheAuthors,
}

/// A point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Point {
    load_frac: f64,
    bytes_per_s: f64,
}

/// One fixed split.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Fixed {
    /// The CPUs of batch.
    batch_cpu_set: Option<CpuSet>,
    /// How many.
    count: Option<u32>,
    /// Period in seconds.
    #[schemars(range(min = 0.1, max = 100.0))]
    top_period_s: f64,
    link_bits_per_s: Option<f64>,
    profile: Profile,
    points: Vec<Point>,
    on: bool,
}

impl Default for Fixed {
    fn default() -> Self {
        Self {
            batch_cpu_set: None,
            count: None,
            top_period_s: 10.0,
            link_bits_per_s: None,
            profile: Profile::Reported,
            points: Vec::new(),
            on: true,
        }
    }
}

fn laws() -> Laws {
    let schema = schemars::schema_for!(All);
    Laws::from_json_schema(schema.as_value(), ["none", "os-only", "static"]).expect("objects")
}

fn check(law: &str) -> Result<Checked, ConfigErrors> {
    let text = format!("{LEAST}[agent]\nlaw = \"none\"\n{law}");
    Raw::from_toml("quell.toml", &text).check(&laws())
}

#[test]
fn what_is_checked_is_what_the_laws_own_type_reads() {
    let config = check(
        "[law.os-only]\n[law.static]\nbatch_cpu_set = \"0-1,3\"\ncount = 2\n\
         top_period_s = \"500ms\"\nlink_bits_per_s = \"7.5Gbit\"\nprofile = \"the-authors\"\n\
         points = [{ load_frac = \"40 %\", bytes_per_s = \"1GB/s\" }]\n",
    )
    .unwrap_or_else(|errors| panic!("{errors}"));
    let all: All = config.all_law_parameters().try_into().unwrap();
    assert_eq!(
        all.fixed,
        Fixed {
            batch_cpu_set: Some("0-1,3".parse().unwrap()),
            count: Some(2),
            top_period_s: 0.5,
            link_bits_per_s: Some(7.5e9),
            profile: Profile::TheAuthors,
            points: vec![Point { load_frac: 0.4, bytes_per_s: 1e9 }],
            on: true,
        }
    );
}

#[test]
fn what_is_not_said_is_the_laws_own_default() {
    let all: All = check("").unwrap().all_law_parameters().try_into().unwrap();
    assert_eq!(all, All::default());
}

#[test]
fn each_error_has_its_place() {
    let found = check(
        "[law.none]\nx = 1\n[law.static]\nbatch_cpu_set = \"3-1\"\ncount = -1\n\
         top_period_s = 0.01\nprofile = \"author\"\npoints = [{ load = 1 }]\non = 1\n\
         [law.static2]\n",
    )
    .unwrap_err()
    .0;
    let wanted = [
        "7:1 law.none.x: law none has no parameter `x`",
        "9:17 law.static.batch_cpu_set: \"3-1\" is no CPU list",
        "10:9 law.static.count: -1 is out of range",
        "11:16 law.static.top_period_s: 0.01 is out of range",
        "12:11 law.static.profile: \"author\" is not known",
        "13:13 law.static.points: unknown key `load`",
        "14:6 law.static.on: an integer where a boolean belongs",
        "15:6 law.static2: there is no law `static2`",
    ];
    assert_eq!(lines(&found), wanted);
}

#[test]
fn the_key_table_has_their_defaults_and_words() {
    let page = key_table(&laws());
    for line in [
        "## `[law.static]`\n\nOne fixed split.",
        "| `top_period_s` | a number, 0.1 to 100 (seconds, or a text such as \"250ms\") | `10.0` |",
        "| `profile` | \"reported\" or \"the-authors\" | `\"reported\"` |",
        "| `batch_cpu_set` | a CPU list in quotes such as \"0-3,8\" |  | The CPUs of batch. |",
        "| `points` | a list, each a table of bytes_per_s, load_frac | `[]` |",
    ] {
        assert!(page.contains(line), "no {line:?} in\n{page}");
    }
}
