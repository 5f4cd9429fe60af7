//! One tree over another.

use super::{Node, Table, Value};
use crate::keys::RIVALS;

/// Lays one whole configuration over another.
pub(super) fn root(mut base: Table, over: Table) -> Table {
    for entry in over.entries {
        let named = matches!(entry.key.as_str(), "service" | "batch" | "link");
        match base.entries.iter_mut().find(|e| e.key == entry.key) {
            Some(below) if named => groups(&mut below.node, entry.node),
            Some(below) => deep(&mut below.node, entry.node),
            None => base.entries.push(entry),
        }
    }
    base
}

/// Lists of named tables: those of the same name are merged, others added.
fn groups(base: &mut Node, over: Node) {
    let (Value::List(below), Value::List(above)) = (&mut base.value, over.value) else { return };
    for node in above {
        let name = node.table().and_then(Table::name);
        let same = |b: &&mut Node| name.is_some() && b.table().and_then(Table::name) == name;
        match (below.iter_mut().find(same).map(|b| &mut b.value), node.value) {
            (Some(Value::Table(b)), Value::Table(o)) => group(b, o),
            (_, value) => below.push(Node { spot: node.spot, value }),
        }
    }
}

/// One service, batch group or link: a key takes the place of its alternatives too.
fn group(base: &mut Table, over: Table) {
    let given = |key: &str| over.entries.iter().any(|above| above.key == key);
    let ousted = |key: &str| over.entries.iter().any(|above| rivals(&above.key, key));
    // Ports belong to the meter that is replaced.
    let orphaned = |key: &str| key == "ports" && given("latency");
    base.entries.retain(|b| !given(&b.key) && !ousted(&b.key) && !orphaned(&b.key));
    base.entries.extend(over.entries);
}

fn rivals(a: &str, b: &str) -> bool {
    let group_of =
        |key: &str| RIVALS.iter().position(|group| group.iter().any(|names| names.contains(&key)));
    let same_side = RIVALS.iter().flat_map(|g| g.iter()).any(|s| s.contains(&a) && s.contains(&b));
    group_of(a).is_some() && group_of(a) == group_of(b) && !same_side
}

/// Tables key by key, anything else replaced.
fn deep(base: &mut Node, over: Node) {
    match (&mut base.value, over) {
        (Value::Table(below), Node { value: Value::Table(above), .. }) => {
            for entry in above.entries {
                match below.entries.iter_mut().find(|e| e.key == entry.key) {
                    Some(same) => deep(&mut same.node, entry.node),
                    None => below.entries.push(entry),
                }
            }
        }
        (_, over) => *base = over,
    }
}
