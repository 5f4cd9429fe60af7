//! `policy NAME` with its parameters.

use crate::text::{ScenarioError, Statement, Word, duration, fraction, rate, unknown};
use quell_config::Laws;
use quell_policy::{Law, LawParams, Policy, build_all};
use std::sync::OnceLock;

/// A law with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChosenLaw {
    pub(crate) law: Law,
    /// Laws that run beside it.
    pub(crate) beside: Vec<Law>,
    pub(crate) params: LawParams,
}

impl ChosenLaw {
    /// Nothing is controlled.
    pub(crate) fn none() -> Self {
        Self::of(Law::None)
    }

    /// A law with its defaults, alone.
    pub(crate) fn of(law: Law) -> Self {
        Self { law, beside: Vec::new(), params: LawParams::default() }
    }

    /// For people: `quell and bus-lock`.
    pub(crate) fn name(&self) -> String {
        let all = [&[self.law][..], &self.beside].concat();
        all.into_iter().map(Law::name).collect::<Vec<_>>().join(" and ")
    }

    /// Its policies. Parameters were tried before.
    pub(crate) fn policies(&self) -> anyhow::Result<Vec<Box<dyn Policy>>> {
        Ok(build_all(self.law, &self.beside, &self.params)?)
    }
}

/// The law of this name; none if there is none and that may be.
fn law_named(name: &Word, pending: bool) -> Result<Option<Law>, ScenarioError> {
    match Law::ALL.into_iter().find(|law| law.name() == name.text) {
        None if !pending => Err(unknown(name, "law", Law::ALL.map(Law::name))),
        found => Ok(found),
    }
}

pub(super) fn read(statement: &Statement, pending: bool) -> Result<ChosenLaw, ScenarioError> {
    let mut words = statement.head.words();
    words.expect("policy")?;
    let name = words.next("a law")?;
    let law = law_named(name, pending)?;
    let mut beside = Vec::new();
    if words.take("beside") {
        for word in words.rest() {
            beside.extend(law_named(word, pending)?);
        }
    }
    words.done()?;
    let Some(law) = law else { return Ok(ChosenLaw::none()) };
    let mut table = toml::Table::new();
    for line in &statement.body {
        let mut words = line.words();
        let key = words.next("a parameter")?;
        let value = words.next("its value")?;
        words.done()?;
        table.insert(key.text.clone(), read_value(law, key, value)?);
    }
    let mut all = toml::Table::new();
    // A law without parameters has no table.
    if !table.is_empty() {
        all.insert(law.name().to_owned(), toml::Value::Table(table));
    }
    let params: LawParams = toml::Value::Table(all)
        .try_into()
        .map_err(|e: toml::de::Error| name.wrong(e.message(), "parameters of this law"))?;
    build_all(law, &beside, &params).map_err(|error| name.wrong(&error.to_string(), ""))?;
    Ok(ChosenLaw { law, beside, params })
}

/// A value in the unit of its name: `_s` a time, `_frac` a share, `_bytes_per_s` a rate.
fn read_value(law: Law, key: &Word, value: &Word) -> Result<toml::Value, ScenarioError> {
    let laws = known_laws();
    let fields = laws.0.get(law.name()).map(|schema| &schema.fields);
    if !fields.is_some_and(|fields| fields.contains_key(&key.text)) {
        let names: Vec<&str> =
            fields.into_iter().flat_map(|f| f.keys().map(String::as_str)).collect();
        return Err(unknown(key, &format!("parameter of {law}"), names));
    }
    let literal = format!("v = {}", value.text).parse::<toml::Table>().ok();
    let name = key.text.as_str();
    match literal.and_then(|mut table| table.remove("v")) {
        Some(value) => Ok(value),
        None if name.ends_with("_bytes_per_s") => rate(value).map(toml::Value::Float),
        None if name.ends_with("_frac") => fraction(value).map(toml::Value::Float),
        None if name.ends_with("_s") => Ok(toml::Value::Float(duration(value)?.as_secs_f64())),
        None => Ok(toml::Value::String(value.text.clone())),
    }
}

/// All laws with their parameters.
fn known_laws() -> &'static Laws {
    static LAWS: OnceLock<Laws> = OnceLock::new();
    LAWS.get_or_init(|| {
        let schema = schemars::schema_for!(LawParams).to_value();
        // The schema of a type of ours: every field is an object.
        Laws::from_json_schema(&schema, Law::ALL.map(Law::name)).unwrap_or_default()
    })
}
