//! Who may depend on whom: the list of the design, checked against `cargo metadata`.

use crate::Findings;
use crate::workspace::{self, relative};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A room (`layer/name`, or `layer/*` for all of a layer) and the rooms that it may use.
type Rule = (&'static str, &'static [&'static str]);

/// The list of the design. A crate without a line here may not be.
const RULES: &[Rule] = &[
    ("core/types", &[]),
    ("core/model", &["core/types"]),
    ("core/policy", &["core/types", "core/model"]),
    ("core/placement", &["core/types", "core/model"]),
    ("core/control", &["core/types", "core/model", "core/policy", "core/placement"]),
    ("core/config", &["core/types"]),
    ("platform/platform", &["core/types"]),
    ("platform/sim", &["core/types", "platform/platform"]),
    ("platform/linux", &["core/types", "platform/platform", "sys/*"]),
    ("sys/*", &["core/types"]),
    ("load/pressure", &["core/types", "sys/topology"]),
    ("load/service", &["core/types"]),
    (
        "load/profiler",
        &[
            "core/types",
            "core/model",
            "platform/platform",
            "sys/topology",
            "load/pressure",
            "load/service",
        ],
    ),
    ("app/*", &["core/*", "platform/*", "sys/*", "load/*", "app/*"]),
    ("xtask", &[]),
];

/// What tests outside the core may use besides: the conformance suite.
const FOR_TESTS: &str = "platform/platform";

/// Libraries that belong to the wiring alone.
const WIRING: &[&str] = &["tokio", "anyhow"];
const WIRED: &[&str] = &["app/*", "xtask"];

/// Where `unsafe` may be written.
const UNSAFE: &[&str] = &["sys/*", "load/pressure"];

pub(crate) fn run(root: &Path) -> Result<Findings> {
    let packages = packages(root, &workspace::metadata(root)?)?;
    let mut findings = edges(&packages);
    for (room, package) in &packages {
        let manifest = workspace::text(&root.join(&package.manifest))?;
        findings.extend(manifest_findings(room, &package.manifest, &manifest));
        if !matches(UNSAFE, room) {
            findings.extend(unsafe_sources(root, package)?);
        }
    }
    Ok(findings)
}

/// A package of the workspace.
struct Package {
    name: String,
    /// Its manifest, from the root.
    manifest: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    for_tests: bool,
}

fn packages(root: &Path, metadata: &Value) -> Result<BTreeMap<String, Package>> {
    let list = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    list.iter().map(|package| one(root, package)).collect()
}

/// A package by its room: its folder below `crates`, or below the root.
fn one(root: &Path, package: &Value) -> Result<(String, Package)> {
    let text = |key: &str| package[key].as_str().with_context(|| format!("a package has no {key}"));
    let manifest = relative(root, Path::new(text("manifest_path")?)).into_owned();
    let folder = manifest.trim_end_matches("/Cargo.toml");
    let room = folder.strip_prefix("crates/").unwrap_or(folder).to_owned();
    let list = package["dependencies"].as_array().context("a package has no dependencies")?;
    let dependencies = list.iter().filter_map(|dependency| {
        Some(Dependency {
            name: dependency["name"].as_str()?.to_owned(),
            for_tests: dependency["kind"].as_str() == Some("dev"),
        })
    });
    let name = text("name")?.to_owned();
    Ok((room, Package { name, manifest, dependencies: dependencies.collect() }))
}

fn edges(packages: &BTreeMap<String, Package>) -> Findings {
    let rooms: BTreeMap<&str, &str> =
        packages.iter().map(|(room, package)| (package.name.as_str(), room.as_str())).collect();
    let mut findings = Vec::new();
    for (room, package) in packages {
        findings.extend(misnamed(room, package));
        let Some((_, allowed)) = RULES.iter().find(|(pattern, _)| matches(&[*pattern], room))
        else {
            findings.push(format!("{}: the design has no room {room}", package.manifest));
            continue;
        };
        for dependency in &package.dependencies {
            let to = rooms.get(dependency.name.as_str()).copied();
            findings.extend(edge(room, package, allowed, dependency, to));
        }
    }
    findings
}

fn edge(
    room: &str,
    package: &Package,
    allowed: &[&str],
    dependency: &Dependency,
    to: Option<&str>,
) -> Option<String> {
    let Dependency { name, for_tests } = dependency;
    let Some(to) = to else {
        let misplaced = WIRING.contains(&name.as_str()) && !matches(WIRED, room);
        return misplaced.then(|| {
            format!("{}: {name} belongs to {} alone", package.manifest, WIRED.join(" and "))
        });
    };
    let suite = *for_tests && to == FOR_TESTS && !room.starts_with("core/");
    if suite || matches(allowed, to) {
        return None;
    }
    let kind = if *for_tests { "dev-dependency" } else { "dependency" };
    let list = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
    Some(format!("{}: {kind} {room} -> {to}; {room} may use {list}", package.manifest))
}

/// A crate is called after its folder.
fn misnamed(room: &str, package: &Package) -> Option<String> {
    let folder = room.rsplit('/').next().unwrap_or(room);
    let right = package.name == format!("quell-{folder}") || package.name == folder;
    (!right).then(|| format!("{}: {} lives in {room}", package.manifest, package.name))
}

/// Lints must be those of the house, and `unsafe` allowed only where it has its home.
fn manifest_findings(room: &str, path: &str, manifest: &str) -> Findings {
    let (mut section, mut house, mut own) = ("", false, None);
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        let pair = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        match (section, pair) {
            ("[lints]", Some(("workspace", "true"))) => house = true,
            ("[lints.rust]", Some(("unsafe_code", level))) => own = Some(level.trim_matches('"')),
            _ => {}
        }
    }
    match (house, own) {
        (true, _) | (_, Some("deny" | "forbid")) => Vec::new(),
        (_, None) => vec![format!("{path}: neither lints.workspace = true nor unsafe_code")],
        (_, Some(_)) if matches(UNSAFE, room) => Vec::new(),
        (_, Some(level)) => {
            vec![format!("{path}: unsafe_code = {level:?}; unsafe lives in {}", UNSAFE.join(", "))]
        }
    }
}

/// `unsafe` that a source allows itself, against its manifest.
fn unsafe_sources(root: &Path, package: &Package) -> Result<Findings> {
    let manifest = root.join(&package.manifest);
    let folder = manifest.parent().context("a manifest has no folder")?;
    let mut findings = Vec::new();
    for path in workspace::files(folder, &[".rs"])? {
        let text = workspace::text(&path)?;
        for (index, _) in text.lines().enumerate().filter(|(_, line)| allows_unsafe(line)) {
            let place = format!("{}:{}", relative(root, &path), index + 1);
            findings.push(format!("{place}: unsafe lives in {}", UNSAFE.join(", ")));
        }
    }
    Ok(findings)
}

/// Whether a line lifts the ban: an attribute that names the lint.
fn allows_unsafe(line: &str) -> bool {
    let line = line.trim_start();
    let attribute = line.starts_with("#[") || line.starts_with("#![");
    attribute
        && line.contains("unsafe_code")
        && !line.contains("deny(")
        && !line.contains("forbid(")
}

/// Whether a room is one of `patterns`.
fn matches(patterns: &[&str], room: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix("/*") {
        Some(layer) => room.strip_prefix(layer).is_some_and(|rest| rest.starts_with('/')),
        None => *pattern == room,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A dependency: its name and kind, as cargo gives them.
    type Use = (&'static str, Option<&'static str>);
    /// A package: its folder, name and dependencies.
    type Made<'a> = (&'a str, &'a str, &'a [Use]);

    fn found(list: &[Made<'_>]) -> Findings {
        let package = |(folder, name, uses): &Made<'_>| {
            let uses: Vec<Value> =
                uses.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
            let manifest = format!("/r/{folder}/Cargo.toml");
            json!({ "name": name, "manifest_path": manifest, "dependencies": uses })
        };
        let list: Vec<Value> = list.iter().map(package).collect();
        edges(&packages(Path::new("/r"), &json!({ "packages": list })).unwrap())
    }

    const TYPES: Made<'_> = ("crates/core/types", "quell-types", &[]);

    #[test]
    fn edges_of_the_design_are_allowed() {
        let platform = ("crates/platform/platform", "quell-platform", &[("quell-types", None)][..]);
        let cgroup: &[_] = &[("quell-types", None), ("quell-platform", Some("dev"))];
        let agent: &[_] = &[("quell-cgroup", None), ("tokio", None), ("anyhow", None)];
        let quell: &[_] = &[("quell-agent", None), ("quell-types", None)];
        let list = [
            TYPES,
            platform,
            ("crates/sys/cgroup", "quell-cgroup", cgroup),
            ("crates/app/agent", "quell-agent", agent),
            ("crates/app/quell", "quell", quell),
            ("xtask", "xtask", &[("anyhow", None)]),
        ];
        assert_eq!(found(&list), Findings::new());
    }

    #[test]
    fn every_other_edge_is_found() {
        type Case =
            ((&'static str, &'static str), (&'static str, Option<&'static str>), &'static str);
        let cases: &[Case] = &[
            (("core/model", "quell-model"), ("quell-cgroup", None), "core/model -> sys/cgroup"),
            (("core/types", "quell-types"), ("quell-cgroup", None), "may use nothing"),
            (("core/policy", "quell-policy"), ("quell-platform", Some("dev")), "dev-dependency"),
            (("sys/tc", "quell-tc"), ("quell-cgroup", None), "sys/tc -> sys/cgroup"),
            (("sys/tc", "quell-tc"), ("quell-platform", None), "sys/tc -> platform/platform"),
            (("sys/tc", "quell-tc"), ("quell-platform", Some("build")), "sys/tc -> platform"),
            (("load/service", "quell-service"), ("quell-agent", Some("dev")), "-> app/agent"),
            (("load/service", "quell-service"), ("tokio", Some("dev")), "tokio belongs to app/*"),
            (("core/model", "quell-model"), ("anyhow", None), "anyhow belongs to app/*"),
            (("core/new", "quell-new"), ("serde", None), "the design has no room core/new"),
            (("sys/tc", "quell-egress"), ("serde", None), "quell-egress lives in sys/tc"),
        ];
        for ((room, name), dependency, said) in cases {
            let folder = format!("crates/{room}");
            let list = [
                ("crates/sys/cgroup", "quell-cgroup", &[][..]),
                ("crates/platform/platform", "quell-platform", &[]),
                ("crates/app/agent", "quell-agent", &[]),
                (folder.as_str(), *name, std::slice::from_ref(dependency)),
            ];
            let findings = found(&list);
            assert_eq!(findings.len(), 1, "{room} -> {dependency:?}: {findings:?}");
            assert!(findings[0].contains(said), "{findings:?} has no {said:?}");
        }
    }

    #[test]
    fn unsafe_has_its_home() {
        let own = "[lints.rust]\nunsafe_code = \"allow\"\n";
        for (room, manifest, well) in [
            ("core/types", "[lints]\nworkspace = true\n", true),
            ("core/types", own, false),
            ("core/types", "[package]\nname = \"x\"\n", false),
            ("load/service", own, false),
            ("load/pressure", own, true),
            ("sys/ebpf", own, true),
            ("sys/ebpf", "[lints.rust]\nunsafe_code = \"deny\"\n", true),
            ("core/types", "[dependencies]\nunsafe_code = \"1\"\n", false),
        ] {
            let findings = manifest_findings(room, "Cargo.toml", manifest);
            assert_eq!(findings.is_empty(), well, "{room} {manifest:?}: {findings:?}");
        }
        assert!(allows_unsafe("#![allow(unsafe_code)]"));
        assert!(allows_unsafe("    #[expect(unsafe_code, reason = \"speed\")]"));
        assert!(!allows_unsafe("#![forbid(unsafe_code)]"));
        assert!(!allows_unsafe("// unsafe_code is denied"));
    }
}
