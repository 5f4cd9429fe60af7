//! Raw -> checked: names, types, ranges and references, all errors at once.

mod agent;
mod law;
mod reader;
mod tenant;

use crate::checked::{Checked, LinkConfig};
use crate::error::{ConfigErrors, Faults};
use crate::keys::sections::{self, TOP};
use crate::law::Laws;
use crate::nearest::suggestion;
use crate::raw::{Node, Raw, Table, Value};
use crate::spot::Spot;
use quell_types::{Link, Tenant};
use reader::Reader;
use std::collections::BTreeMap;

pub(crate) fn check(raw: Raw, laws: &Laws) -> Result<Checked, ConfigErrors> {
    let Raw { root, mut faults } = raw;
    unknown_tables(&root, &mut faults);
    let agent = agent::check(&root, laws, &mut faults);
    let adopt = agent.as_ref().is_some_and(|agent| agent.adopt);
    let links = each(&root, "link", &mut faults, link);
    let names: Vec<Link> = named_links(&root);
    let services = each(&root, "service", &mut faults, |r| tenant::service(r, adopt, &names));
    let batch = each(&root, "batch", &mut faults, |r| tenant::batch(r, adopt, &names));
    let (laws, law_spots) = law::check(&root, laws, &mut faults);
    unique(&root, &mut faults);
    if root.get("service").is_none() {
        let help = "a table [[service]] with a selector and an objective, or a flag such as \
                    --service unit=redis.service,p99=3ms";
        faults.missing(&root.spot, "service", "no service is configured".into(), help.into());
    }
    match agent {
        Some(agent) if faults.is_empty() => {
            Ok(Checked { agent, services, batch, links, laws, law_spots })
        }
        _ => Err(faults.into_errors()),
    }
}

pub(crate) fn state_dir(raw: Raw) -> Result<String, ConfigErrors> {
    let Raw { root, mut faults } = raw;
    let folder = agent::state_dir(&root, &mut faults);
    folder.ok_or_else(|| faults.into_errors())
}

fn unknown_tables(root: &Table, faults: &mut Faults) {
    for entry in root.entries.iter().filter(|entry| !TOP.contains(&entry.key.as_str())) {
        let problem = format!("unknown table or key `{}`", crate::quantity::clip(&entry.key));
        faults.push(&entry.spot, &entry.key, problem, reader::elsewhere(&entry.key, TOP));
    }
}

/// Checks every table of a list of tables.
fn each<T>(
    root: &Table,
    key: &str,
    faults: &mut Faults,
    mut of: impl FnMut(&mut Reader<'_>) -> Option<T>,
) -> Vec<T> {
    let section = match key {
        "service" => &sections::SERVICE,
        "batch" => &sections::BATCH,
        _ => &sections::LINK,
    };
    let mut found = Vec::new();
    for (path, spot, table) in tables(root, key, faults) {
        found.extend(of(&mut Reader::new(table, spot, path, section, faults)));
    }
    found
}

/// The tables of `[[key]]`, each with its path and place.
fn tables<'a>(
    root: &'a Table,
    key: &str,
    faults: &mut Faults,
) -> Vec<(String, &'a Spot, &'a Table)> {
    let Some(entry) = root.entry(key) else { return Vec::new() };
    let mut wrong = |spot: &Spot, node: &Node| {
        let problem = format!("{} where [[{key}]] tables belong", node.kind());
        faults.push(spot, key, problem, format!("a header in double brackets: [[{key}]]"));
    };
    let Value::List(items) = &entry.node.value else {
        wrong(&entry.spot, &entry.node);
        return Vec::new();
    };
    let mut found = Vec::new();
    for (index, node) in items.iter().enumerate() {
        match node.table() {
            Some(table) => found.push((format!("{key}[{index}]"), &node.spot, table)),
            None => wrong(&node.spot, node),
        }
    }
    found
}

fn link(reader: &mut Reader<'_>) -> Option<LinkConfig> {
    let name = reader.get(&sections::LINK_NAME);
    let capacity = reader.get(&sections::CAPACITY);
    let netns = reader.optional(&sections::NETNS);
    Some(LinkConfig {
        name: Link::from(name?.as_str()),
        capacity: capacity?,
        netns: netns?,
        spot: reader.spot_of("name"),
        path: reader.path().to_owned(),
    })
}

/// Names of links as they are written, sound or not, so that a reference to a link with an error
/// of its own is not called unknown.
fn named_links(root: &Table) -> Vec<Link> {
    let Some(Value::List(items)) = root.get("link").map(|node| &node.value) else {
        return Vec::new();
    };
    items.iter().filter_map(|n| n.table()?.get("name")?.text()).map(Link::from).collect()
}

/// Refuses names that stand twice: among services and batch groups together, and among links.
fn unique(root: &Table, faults: &mut Faults) {
    let mut quiet = Faults::default();
    let mut tenants: BTreeMap<Tenant, String> = BTreeMap::new();
    let mut links: BTreeMap<Tenant, String> = BTreeMap::new();
    for key in ["service", "batch", "link"] {
        for (path, spot, table) in tables(root, key, &mut quiet) {
            let Some(name) = table.name() else { continue };
            let known = if key == "link" { &mut links } else { &mut tenants };
            let spot = table.get("name").map_or(spot, |node| &node.spot);
            match known.get(&Tenant::from(name.as_str())) {
                Some(first) => {
                    let problem =
                        format!("`{}` is the name of {first} too", crate::quantity::clip(&name));
                    let help = "a `name` of its own".to_owned();
                    faults.push(spot, format!("{path}.name"), problem, help);
                }
                None => drop(known.insert(Tenant::from(name.as_str()), path)),
            }
        }
    }
}

/// An error for each link that is not configured.
fn known_links(reader: &mut Reader<'_>, given: Vec<String>, known: &[Link]) -> Vec<Link> {
    let mut links = Vec::new();
    for name in given {
        let link = Link::from(name.as_str());
        if !known.contains(&link) {
            let help = match known {
                [] => "a table [[link]] with this name and a capacity".to_owned(),
                _ => suggestion(&name, known.iter().map(Link::as_str)),
            };
            reader.fault(
                "links",
                format!("there is no link `{}`", crate::quantity::clip(&name)),
                help,
            );
        } else if links.contains(&link) {
            let help = "each link once".to_owned();
            reader.fault("links", format!("link `{link}` is named twice"), help);
        } else {
            links.push(link);
        }
    }
    links
}
