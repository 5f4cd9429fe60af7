//! JSON schemas -> what laws can be told.

use super::{Bounds, Laws, Param, ParamKind, ParamSchema};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use thiserror::Error;

/// A JSON schema that does not describe parameters.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the schema of a law's parameters {0}")]
pub struct SchemaError(String);

impl Laws {
    /// Takes over the schema of a type with one field for each law's parameters, named as the law.
    /// A law of `names` without a field has no parameters; a field that is no law is left out.
    ///
    /// # Errors
    /// If a law's field is not an object.
    pub fn from_json_schema(
        schema: &Json,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, SchemaError> {
        let one = |name: String| {
            let parameters = match schema.get("properties").and_then(|p| p.get(&name)) {
                Some(property) => object(schema, resolved(schema, property))?,
                None => ParamSchema::default(),
            };
            Ok((name, parameters))
        };
        let laws: Result<_, SchemaError> = names.into_iter().map(Into::into).map(one).collect();
        laws.map(Laws)
    }
}

impl ParamSchema {
    /// Takes over a JSON schema as `schemars` makes it of a struct with `#[serde(default)]`:
    /// properties with type, minimum, maximum, enumeration, default and description.
    ///
    /// # Errors
    /// If it is not the schema of an object.
    pub fn from_json_schema(schema: &Json) -> Result<Self, SchemaError> {
        object(schema, schema)
    }
}

/// The parameters of one object; references are looked up in `root`.
fn object(root: &Json, schema: &Json) -> Result<ParamSchema, SchemaError> {
    match (schema.get("properties"), type_name(schema)) {
        (Some(Json::Object(_)), _) | (None, Some("object")) => {
            Ok(ParamSchema { doc: description(schema), fields: fields(root, schema) })
        }
        _ => Err(SchemaError("is not that of an object".to_owned())),
    }
}

fn fields(root: &Json, schema: &Json) -> BTreeMap<String, Param> {
    let properties = schema.get("properties").and_then(Json::as_object);
    let properties = properties.into_iter().flatten();
    properties.map(|(name, property)| (name.clone(), param(root, property))).collect()
}

fn param(root: &Json, property: &Json) -> Param {
    let target = resolved(root, property);
    let own = description(property);
    let doc = if own.is_empty() { description(target) } else { own };
    let default = property.get("default").filter(|d| !d.is_null()).map(ToString::to_string);
    Param { kind: kind(root, target), default, doc }
}

/// Follows a reference, and takes the present side of an optional value.
fn resolved<'a>(root: &'a Json, schema: &'a Json) -> &'a Json {
    let present = |of: &'a Json| of.get("type") != Some(&Json::from("null"));
    let side = schema
        .get("anyOf")
        .and_then(Json::as_array)
        .and_then(|sides| sides.iter().find(|side| present(side)));
    let schema = side.unwrap_or(schema);
    let path = schema.get("$ref").and_then(Json::as_str).and_then(|path| path.strip_prefix('#'));
    path.and_then(|path| root.pointer(path)).unwrap_or(schema)
}

fn kind(root: &Json, schema: &Json) -> ParamKind {
    if let Some(words) = words(schema) {
        return ParamKind::Choice(words);
    }
    let number = |key: &str| schema.get(key).and_then(Json::as_f64);
    // Integers of a schema lie far within what f64 holds exactly, or bound nothing.
    let whole = |key: &str| number(key).map(|n| n as i64);
    match type_name(schema) {
        Some("number") => ParamKind::Number(Bounds {
            min: number("minimum"),
            max: number("maximum"),
            above: number("exclusiveMinimum"),
            below: number("exclusiveMaximum"),
        }),
        Some("integer") => ParamKind::Integer { min: whole("minimum"), max: whole("maximum") },
        Some("boolean") => ParamKind::Bool,
        Some("string") => ParamKind::Text,
        Some("array") => match schema.get("items") {
            Some(items) if items.is_object() => {
                ParamKind::List(Box::new(kind(root, resolved(root, items))))
            }
            _ => ParamKind::Any,
        },
        Some("object") if schema.get("properties").is_some() => {
            ParamKind::Record(fields(root, schema))
        }
        _ => ParamKind::Any,
    }
}

fn type_name(schema: &Json) -> Option<&str> {
    match schema.get("type")? {
        Json::String(name) => Some(name),
        Json::Array(names) => names.iter().filter_map(Json::as_str).find(|name| *name != "null"),
        _ => None,
    }
}

/// The words of an enumeration: `enum`, or `oneOf` with a constant each.
fn words(schema: &Json) -> Option<Vec<String>> {
    let text = |value: &Json| value.as_str().map(str::to_owned);
    if let Some(values) = schema.get("enum").and_then(Json::as_array) {
        return values.iter().map(text).collect();
    }
    let sides = schema.get("oneOf")?.as_array()?;
    let of_side = |side: &Json| match side.get("const") {
        Some(word) => text(word).map(|w| vec![w]),
        None => words(side),
    };
    let words: Option<Vec<Vec<String>>> = sides.iter().map(of_side).collect();
    words.map(|words| words.concat())
}

fn description(schema: &Json) -> String {
    let text = schema.get("description").and_then(Json::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
