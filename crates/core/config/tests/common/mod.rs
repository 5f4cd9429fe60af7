//! What the tests share: laws with parameters of every kind, and short ways to check a text.
#![allow(dead_code)]

use quell_config::{Checked, ConfigError, ConfigErrors, Flags, Laws, ParamSchema, Raw};
use serde_json::json;
use std::collections::BTreeMap;

/// The least that is accepted.
pub(crate) const LEAST: &str = "[[service]]\nunit = \"redis.service\"\np99 = \"3ms\"\n";

/// Two laws, with schemas as `schemars` writes them.
pub(crate) fn laws() -> Laws {
    let quell = json!({
        "type": "object",
        "description": "Our own law.",
        "properties": {
            "settle_s": { "type": "number", "format": "double", "minimum": 0.0, "maximum": 10.0,
                "default": 1.5, "description": "Wait after a change." },
            "guard_frac": { "type": "number", "exclusiveMinimum": 0.0, "maximum": 1.0 },
            "limit_bytes_per_s": { "type": ["number", "null"], "minimum": 0.0 },
            "cores": { "type": "integer", "format": "uint32", "minimum": 0, "maximum": 64 },
            "literal": { "type": "boolean", "default": false },
            "profile": { "$ref": "#/$defs/Profile", "default": "author" },
            "steps": { "type": "array", "items": { "type": "number", "minimum": 0.0 } },
            "free": { "anyOf": [{ "$ref": "#/$defs/Free" }, { "type": "null" }] }
        },
        "$defs": {
            "Profile": { "oneOf": [
                { "type": "string", "const": "author", "description": "As the author ran it." },
                { "type": "string", "const": "report" }
            ] },
            "Free": { "type": "object", "properties": { "a": { "type": "integer" } } }
        }
    });
    let none = json!({ "type": "object", "description": "Touches nothing." });
    let schema = |json| ParamSchema::from_json_schema(&json).expect("a schema of an object");
    Laws(BTreeMap::from([("quell".into(), schema(quell)), ("none".into(), schema(none))]))
}

pub(crate) fn check(text: &str) -> Result<Checked, ConfigErrors> {
    Raw::from_toml("quell.toml", text).check(&laws())
}

pub(crate) fn check_flags(flags: &Flags) -> Result<Checked, ConfigErrors> {
    Raw::from_flags(flags).check(&laws())
}

pub(crate) fn errors(text: &str) -> Vec<ConfigError> {
    check(text).expect_err(text).0
}

pub(crate) fn texts(of: &[&str]) -> Vec<String> {
    of.iter().map(|text| (*text).to_owned()).collect()
}

/// `line:column key: problem`, one for each error.
pub(crate) fn lines(errors: &[ConfigError]) -> Vec<String> {
    errors.iter().map(|e| format!("{}:{} {}: {}", e.line, e.column, e.key, e.problem)).collect()
}
