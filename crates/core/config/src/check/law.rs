//! `[law.NAME]`: parameters against the schemas that the laws bring.

use crate::error::Faults;
use crate::law::{Laws, ParamSchema};
use crate::nearest::suggestion;
use crate::quantity::clip;
use crate::raw::{Entry, Table};
use crate::spot::Spot;
use std::collections::BTreeMap;

pub(super) type Parameters = BTreeMap<String, toml::Table>;
pub(super) type Spots = BTreeMap<(String, String), Spot>;

pub(super) fn check(root: &Table, laws: &Laws, faults: &mut Faults) -> (Parameters, Spots) {
    let (mut parameters, mut spots) = (Parameters::new(), Spots::new());
    let Some(entry) = root.entry("law") else { return (parameters, spots) };
    let Some(tables) = entry.node.table() else {
        let help = "a header such as [law.quell]; the law itself is chosen by agent.law";
        let problem = format!("{} where tables of laws belong", entry.node.kind());
        faults.push(&entry.spot, "law", problem, help.to_owned());
        return (parameters, spots);
    };
    for entry in &tables.entries {
        let known = laws.0.get(&entry.key);
        let path = format!("law.{}", clip(&entry.key));
        let Some(schema) = known else {
            let help = suggestion(&entry.key, laws.0.keys().map(String::as_str));
            let problem = format!("there is no law `{}`", clip(&entry.key));
            faults.push(&entry.spot, path, problem, help);
            continue;
        };
        let Some(table) = entry.node.table() else {
            let problem = format!("{} where a table belongs", entry.node.kind());
            faults.push(&entry.node.spot, &path, problem, format!("a header [{path}]"));
            continue;
        };
        spots.insert((entry.key.clone(), String::new()), entry.spot.clone());
        let values = one(entry, table, schema, &mut spots, faults);
        parameters.insert(entry.key.clone(), values);
    }
    (parameters, spots)
}

fn one(
    law: &Entry,
    table: &Table,
    schema: &ParamSchema,
    spots: &mut Spots,
    faults: &mut Faults,
) -> toml::Table {
    let mut values = toml::Table::new();
    for entry in &table.entries {
        let path = format!("law.{}.{}", law.key, clip(&entry.key));
        let Some(param) = schema.fields.get(&entry.key) else {
            let problem = format!("law {} has no parameter `{}`", law.key, clip(&entry.key));
            let help = suggestion(&entry.key, schema.fields.keys().map(String::as_str));
            faults.push(&entry.spot, path, problem, help);
            continue;
        };
        match param.kind.read(&entry.key, &entry.node) {
            Ok(value) => {
                spots.insert((law.key.clone(), entry.key.clone()), entry.node.spot.clone());
                values.insert(entry.key.clone(), value);
            }
            Err(fault) => {
                let help = fault.help.unwrap_or_else(|| param.kind.expects(&entry.key));
                faults.push(&fault.spot, path, fault.problem, help);
            }
        }
    }
    values
}
