//! The laws as the configuration knows them, and policies made of what it says.

use quell_config::{Checked, ConfigErrors, Laws};
use quell_policy::{
    Law, LawParams, Needs, ParseLawError, Policy, Refresh, RefreshParams, Who, WhoParams, build_all,
};
use std::time::Duration;

/// What the key table says of a law that is several under one name.
const ALITA: &str = "No parameters of its own: those of bus-lock, llc-bias and power hold.";

/// All laws with their parameters, for [`quell_config::Raw::check`].
#[must_use]
pub fn known_laws() -> Laws {
    let schema = schemars::schema_for!(LawParams).to_value();
    // The schema of a type of ours: every field is an object, which a test holds.
    let mut laws = Laws::from_json_schema(&schema, Law::ALL.map(Law::name)).unwrap_or_default();
    if let Some(alita) = laws.0.get_mut(Law::Alita.name()) {
        ALITA.clone_into(&mut alita.doc);
    }
    laws
}

/// Whether the configured law accepts its parameters.
///
/// # Errors
/// What the law says of them, with the place in the text.
pub fn check_laws(config: &Checked) -> Result<(), ConfigErrors> {
    policies(config).map(drop)
}

/// The policies of the configured law, of those beside it, and the one that makes probes if that is
/// wanted.
pub(crate) fn policies(config: &Checked) -> Result<Vec<Box<dyn Policy>>, ConfigErrors> {
    let name = config.agent.law.as_str();
    let refuse = |why: String| config.law_error(name, "", &why);
    let law: Law = name.parse().map_err(|e: ParseLawError| refuse(e.to_string()))?;
    let beside = config.agent.beside.iter().map(|name| name.parse());
    let beside = beside.collect::<Result<Vec<Law>, ParseLawError>>();
    let beside = beside.map_err(|error| config.beside_error(&error.to_string()))?;
    let mut params = parameters(config).map_err(|e| refuse(e.to_string()))?;
    join_experiments(config, &mut params);
    let made = build_all(law, &beside, &params);
    let mut policies = made.map_err(|error| match error.law == name {
        true => refuse(error.why),
        false if config.laws.contains_key(error.law) => config.law_error(error.law, "", &error.why),
        false => config.beside_error(&error.to_string()),
    })?;
    let probes = &config.agent.probes;
    if probes.enabled && probes.max_share_frac > 0.0 {
        let max_share_frac = probes.max_share_frac;
        let params = RefreshParams { max_share_frac, ..RefreshParams::default() };
        policies.push(Box::new(Refresh::new(params)));
    }
    Ok(policies)
}

/// The parameters of all laws.
fn parameters(config: &Checked) -> Result<LawParams, toml::de::Error> {
    toml::Value::Table(config.all_law_parameters()).try_into()
}

/// Parameters of a law that only finds out who slows whom: whether a reporter runs, and whether company
/// counts, is what `culprit` is told.
pub(crate) fn who(config: &Checked) -> Result<WhoParams, ConfigErrors> {
    let culprit = Law::Culprit.name();
    let params = parameters(config);
    let params = params.map_err(|error| config.law_error(culprit, "", &error.to_string()))?;
    let told = params.culprit;
    Ok(WhoParams { reporters: told.reporters, company: told.company, ..WhoParams::default() })
}

/// What the configured laws want to be read; nothing if they cannot be made, which is told elsewhere.
pub(crate) fn needs(config: &Checked) -> Needs {
    let each = policies(config).unwrap_or_default();
    each.iter().fold(Needs::default(), |all, policy| all.and(policy.needs()))
}

/// One that listens who slows whom, beside laws none of which finds out by itself.
pub(crate) fn listener(policies: &[Box<dyn Policy>]) -> Option<Box<dyn Policy>> {
    let culprit = Law::Culprit.name();
    let period = policies.iter().map(|policy| policy.period()).min()?;
    let found_out = policies.iter().any(|policy| policy.name() == culprit);
    (!found_out).then(|| Box::new(Who::listening(period)) as Box<dyn Policy>)
}

/// `[agent.experiments]` bounds what the law may do by its own parameters.
fn join_experiments(config: &Checked, params: &mut LawParams) {
    let (bound, law) = (&config.agent.experiments, &mut params.quell);
    law.experiments &= bound.enabled && bound.max_share_frac > 0.0;
    law.held_share_frac = law.held_share_frac.min(bound.max_share_frac);
    let longest = millis(bound.max_length).max(1);
    law.chip_ms = law.chip_ms.min(longest);
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_config::Raw;

    const LEAST: &str = "[[service]]\ncgroup = \"/a\"\np99 = \"3ms\"\n";

    fn check(text: &str) -> Checked {
        Raw::from_toml("quell.toml", text).check(&known_laws()).unwrap()
    }

    #[test]
    fn every_law_is_known_with_all_its_parameters() {
        let laws = known_laws();
        for law in Law::ALL {
            let fields = &laws.0[law.name()].fields;
            let bare = matches!(law, Law::None | Law::StaticWays | Law::Alita);
            assert_eq!(fields.is_empty(), bare, "{law}: {fields:?}");
            let config = check(&format!("[agent]\nlaw = \"{law}\"\n{LEAST}"));
            let first = if law == Law::Alita { "bus-lock" } else { law.name() };
            assert_eq!(policies(&config).unwrap()[0].name(), first);
        }
    }

    #[test]
    fn the_key_table_says_whose_parameters_alita_has() {
        for policy in policies(&check(&format!("[agent]\nlaw = \"alita\"\n{LEAST}"))).unwrap() {
            assert!(ALITA.contains(policy.name()), "{}", policy.name());
        }
        let page = quell_config::key_table(&known_laws());
        assert!(page.contains(&format!("`[law.alita]`\n\n{ALITA}\n")), "{page}");
        assert!(page.contains("`[law.none]`\n\nNo parameters.\n"), "{page}");
    }

    #[test]
    fn what_a_law_does_not_accept_is_an_error_at_its_line() {
        let text = format!("{LEAST}[law.quell]\nshrink_below_slack = 0.9\n");
        let error = check_laws(&check(&text)).unwrap_err().to_string();
        assert!(error.contains("quell.toml:4") && error.contains("grow_above_slack"), "{error}");
    }

    #[test]
    fn probes_are_made_only_where_they_are_wanted() {
        let names = |text: &str| -> Vec<&str> {
            policies(&check(&format!("{text}{LEAST}"))).unwrap().iter().map(|p| p.name()).collect()
        };
        assert_eq!(names(""), ["quell"]);
        assert_eq!(names("[agent.probes]\nenabled = true\n"), ["quell", "refresh"]);
        assert_eq!(names("[agent.probes]\nenabled = true\nmax_share = 0\n"), ["quell"]);
    }

    #[test]
    fn one_that_only_finds_out_reports_unless_culprit_is_told_not_to() {
        assert!(who(&check(LEAST)).unwrap().reporters);
        let off = format!("{LEAST}[law.culprit]\nreporters = false\n");
        assert!(!who(&check(&off)).unwrap().reporters);
        let off = format!("{LEAST}[law.culprit]\ncompany = false\n");
        assert!(!who(&check(&off)).unwrap().company);
    }

    #[test]
    fn somebody_listens_beside_every_law_that_does_not_find_out_itself() {
        for law in Law::ALL {
            let config = check(&format!("[agent]\nlaw = \"{law}\"\n{LEAST}"));
            let policies = policies(&config).unwrap();
            let shortest = policies.iter().map(|policy| policy.period()).min();
            let listens = listener(&policies).map(|listener| listener.period());
            assert_eq!(listens, shortest.filter(|_| law != Law::Culprit), "{law}");
        }
    }

    #[test]
    fn laws_beside_the_chosen_one_are_made_or_refused_at_their_line() {
        let of = |beside: &str| format!("[agent]\nbeside = [{beside}]\n{LEAST}");
        let made = policies(&check(&of("\"bus-lock\", \"power\""))).unwrap();
        let names: Vec<&str> = made.iter().map(|p| p.name()).collect();
        assert_eq!(names, ["quell", "bus-lock", "power"]);
        for (beside, why) in [("\"alita\"", "divides the caches"), ("\"thesis\"", "polluters")] {
            let error = check_laws(&check(&of(beside))).unwrap_err().to_string();
            assert!(error.contains("quell.toml:2") && error.contains(why), "{error}");
        }
        let unknown = Raw::from_toml("quell.toml", &of("\"bus-lok\"")).check(&known_laws());
        let error = unknown.unwrap_err().to_string();
        assert!(error.contains("agent.beside") && error.contains("bus-lock"), "{error}");
    }

    #[test]
    fn experiments_keep_the_agents_bounds() {
        let config =
            check(&format!("[agent.experiments]\nmax_share = 0.005\nmax_length_s = 0.05\n{LEAST}"));
        let mut params = LawParams::default();
        join_experiments(&config, &mut params);
        assert_eq!((params.quell.held_share_frac, params.quell.chip_ms), (0.005, 50));
        assert!(params.quell.experiments);
        let off = check(&format!("[agent.experiments]\nenabled = false\n{LEAST}"));
        join_experiments(&off, &mut params);
        assert!(!params.quell.experiments);
    }
}
