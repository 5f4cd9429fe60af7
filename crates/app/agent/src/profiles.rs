//! Kept profiles and the agent: what they tell a law, and what probes tell them.

use quell_config::Checked;
use quell_linux::StateDir;
use quell_policy::Tolerance;
use quell_profiler::{BandwidthModel, Estimate, Machine, ProfileStore, StoreError, ToleratedAt};
use quell_types::{SharedResource, Tenant};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The law that wants a model of services' memory traffic, and its parameter.
const HERACLES: &str = "heracles";
const MODEL: &str = "service_bandwidth";

/// Gives law heracles the model of the services' memory traffic (H-3) from the profile that the
/// configuration names, as if it stood there; a model that does stand there stays. Answers what people
/// should know: why a profile that is named gives none.
#[must_use]
pub fn with_profiles(config: &mut Checked, machine: &Machine) -> Vec<String> {
    let named: Vec<&str> = config.services.iter().filter_map(|s| s.profile.as_deref()).collect();
    let given = config.laws.get(HERACLES).is_some_and(|table| table.contains_key(MODEL));
    if config.agent.law != HERACLES || named.is_empty() || given {
        return Vec::new();
    }
    let found = match (named.as_slice(), config.services.len()) {
        ([name], 1) => model(config, name, machine),
        _ => Err("a model is of one service alone, and there are several".to_owned()),
    };
    match found {
        Ok(model) => {
            let table = config.laws.entry(HERACLES.to_owned()).or_default();
            table.insert(MODEL.to_owned(), points(&model));
            let Err(why) = crate::check_laws(config) else { return Vec::new() };
            if let Some(table) = config.laws.get_mut(HERACLES) {
                table.remove(MODEL);
            }
            vec![format!("memory traffic as measured, not by a profile: {why}")]
        }
        Err(why) => vec![format!("memory traffic as measured, not by a profile: {why}")],
    }
}

fn model(config: &Checked, name: &str, machine: &Machine) -> Result<BandwidthModel, String> {
    let path = StateDir(PathBuf::from(&config.agent.state_dir)).profiles();
    let store = ProfileStore::find(&path).map_err(|error| error.to_string())?;
    let store = store.ok_or_else(|| format!("there is no {}", path.display()))?;
    let kept = store.get(name, &machine.fingerprint).map_err(|error| error.to_string())?;
    let kept = kept
        .ok_or_else(|| format!("{} keeps no profile of {name} on this machine", path.display()))?;
    let why = kept.profile.bandwidth_absent;
    kept.profile.bandwidth.ok_or_else(|| {
        let why = why.unwrap_or_else(|| "it was not measured".to_owned());
        format!("the profile {name} has no model of its memory traffic: {why}")
    })
}

/// As the law's parameter.
fn points(model: &BandwidthModel) -> toml::Value {
    let point = |p: &quell_profiler::BandwidthPoint| {
        let mut table = toml::Table::new();
        table.insert("load_frac".to_owned(), p.load_frac.into());
        table.insert("bytes_per_s".to_owned(), p.bytes_per_s.value.into());
        for (key, count) in [("cores", p.cores), ("ways", p.ways)] {
            if let Some(count) = count {
                table.insert(key.to_owned(), i64::from(count).into());
            }
        }
        toml::Value::Table(table)
    };
    toml::Value::Array(model.points.iter().map(point).collect())
}

/// Takes what probes find into the kept profiles.
#[derive(Debug)]
pub struct ProfileKeeper {
    path: PathBuf,
    machine: Machine,
    /// By which name each service's profile is kept.
    names: BTreeMap<Tenant, String>,
    /// How many probes what was last written rests on.
    written: BTreeMap<(Tenant, SharedResource), u32>,
}

impl ProfileKeeper {
    /// A keeper of what the configuration names; none where no probes are made.
    #[must_use]
    pub fn of(config: &Checked, machine: Machine) -> Option<ProfileKeeper> {
        let name = |s: &quell_config::ServiceConfig| {
            (s.name.clone(), s.profile.clone().unwrap_or_else(|| s.name.to_string()))
        };
        config.agent.probes.enabled.then(|| ProfileKeeper {
            path: StateDir(PathBuf::from(&config.agent.state_dir)).profiles(),
            machine,
            names: config.services.iter().map(name).collect(),
            written: BTreeMap::new(),
        })
    }

    /// Writes what is new.
    ///
    /// # Errors
    /// The store cannot be used; it is tried again when there is more.
    pub fn keep(
        &mut self,
        all: &BTreeMap<Tenant, BTreeMap<SharedResource, Tolerance>>,
        now_unix_ms: u64,
    ) -> Result<(), StoreError> {
        for (service, found) in all {
            let Some(name) = self.names.get(service) else { continue };
            let is_new = |(resource, one): &(&SharedResource, &Tolerance)| {
                self.written.get(&(service.clone(), **resource)) != Some(&one.probes)
            };
            let new: Vec<_> = found.iter().filter(is_new).map(|(r, t)| (*r, *t)).collect();
            if new.is_empty() {
                continue;
            }
            // Noted before: a store that refuses is not asked at every sample.
            let noted = new.iter().map(|(r, t)| ((service.clone(), *r), t.probes));
            self.written.extend(noted);
            let at = |(resource, one): &(SharedResource, Tolerance)| {
                Some((pressed(*resource)?, tolerated(one, now_unix_ms)))
            };
            let new = new.iter().filter_map(at).collect();
            ProfileStore::open(&self.path)?.refresh(name, &self.machine, &new)?;
        }
        Ok(())
    }
}

/// The name that profiles have for it.
fn pressed(resource: SharedResource) -> Option<quell_pressure::Resource> {
    resource.name().parse().ok()
}

fn tolerated(found: &Tolerance, unix_ms: u64) -> ToleratedAt {
    let (low, high) = (found.kept_percent, found.lost_percent);
    ToleratedAt { tolerated: Estimate { value: low, low, high: high.max(low) }, unix_ms }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known_laws;
    use quell_config::Raw;
    use quell_profiler::{BandwidthPoint, Profile};

    fn config(folder: &std::path::Path, law: &str, more: &str) -> Checked {
        let text = format!(
            "[agent]\nlaw = \"{law}\"\nstate_dir = \"{}\"\n\
             [[service]]\nname = \"web\"\ncgroup = \"/a\"\np99 = \"3ms\"\nprofile = \"shop\"\n{more}",
            folder.display()
        );
        Raw::from_toml("quell.toml", &text).check(&known_laws()).unwrap()
    }

    fn machine() -> Machine {
        Machine { fingerprint: "here".to_owned(), ..Machine::default() }
    }

    fn kept(folder: &std::path::Path) {
        let mut profile = Profile::begun("shop", &machine());
        let point = |load_frac: f64| BandwidthPoint {
            load_frac,
            cores: Some(2),
            ways: None,
            bytes_per_s: Estimate::exact(1e9 * load_frac),
        };
        let points = vec![point(0.2), point(0.8)];
        let counted_by = "a test".to_owned();
        profile.bandwidth = Some(BandwidthModel { peak_qps: 100.0, counted_by, points });
        let path = StateDir(folder.to_owned()).profiles();
        ProfileStore::open(&path).unwrap().put("shop", &profile, 1).unwrap();
    }

    #[test]
    fn heracles_gets_the_model_of_the_named_profile() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path(), "heracles", "");
        let missing = with_profiles(&mut config, &machine());
        assert!(missing[0].contains("there is no"), "{missing:?}");
        kept(folder.path());
        assert_eq!(with_profiles(&mut config, &machine()), Vec::<String>::new());
        let points = config.laws["heracles"]["service_bandwidth"].as_array().unwrap();
        assert_eq!((points.len(), points[1]["cores"].as_integer()), (2, Some(2)));
        crate::check_laws(&config).unwrap();
        // One that the law does not accept is left out.
        let path = StateDir(folder.path().to_owned()).profiles();
        let store = ProfileStore::open(&path).unwrap();
        let mut bad = store.get("shop", "here").unwrap().unwrap().profile;
        bad.bandwidth.as_mut().unwrap().points[1].load_frac = 0.1;
        store.put("shop", &bad, 2).unwrap();
        let mut config = self::config(folder.path(), "heracles", "");
        assert!(with_profiles(&mut config, &machine())[0].contains("rising order"));
        assert!(!config.laws["heracles"].contains_key("service_bandwidth"));
        let elsewhere = Machine { fingerprint: "there".to_owned(), ..machine() };
        let mut config = self::config(folder.path(), "heracles", "");
        assert!(with_profiles(&mut config, &elsewhere)[0].contains("on this machine"));
    }

    #[test]
    fn a_model_in_the_text_stays_and_other_laws_want_none() {
        let folder = tempfile::tempdir().unwrap();
        kept(folder.path());
        let own = "[law.heracles]\nservice_bandwidth = [{load_frac = 0.5, bytes_per_s = 7e9}]\n";
        let mut given = config(folder.path(), "heracles", own);
        assert!(with_profiles(&mut given, &machine()).is_empty());
        assert_eq!(given.laws["heracles"]["service_bandwidth"].as_array().unwrap().len(), 1);
        let mut other = config(folder.path(), "quell", "");
        assert!(with_profiles(&mut other, &machine()).is_empty() && other.laws.is_empty());
    }

    #[test]
    fn what_probes_find_is_kept_once() {
        let folder = tempfile::tempdir().unwrap();
        let on = "[agent.probes]\nenabled = true\n";
        assert!(ProfileKeeper::of(&config(folder.path(), "none", ""), machine()).is_none());
        let mut keeper = ProfileKeeper::of(&config(folder.path(), "none", on), machine()).unwrap();
        let found = |kept_percent, probes| {
            let time = quell_types::Time(0);
            let one = Tolerance { kept_percent, lost_percent: 50.0, probes, time };
            BTreeMap::from([("web".into(), BTreeMap::from([(SharedResource::LlcCapacity, one)]))])
        };
        keeper.keep(&found(40.0, 3), 7).unwrap();
        keeper.keep(&found(40.0, 3), 9).unwrap();
        let path = StateDir(folder.path().to_owned()).profiles();
        let store = ProfileStore::open(&path).unwrap();
        let shop = || store.get("shop", "here").unwrap().unwrap().profile;
        let resource = quell_pressure::Resource::LlcCapacity;
        assert_eq!(shop().refreshed_unix_ms[&resource], 7, "written once");
        assert_eq!(
            (shop().tolerated[&resource].low, shop().tolerated[&resource].high),
            (40.0, 50.0)
        );
        keeper.keep(&found(45.0, 4), 11).unwrap();
        assert_eq!(shop().tolerated[&resource].value, 45.0);
        let names = SharedResource::ALL.map(|resource| pressed(resource).map(|r| r.name()));
        assert_eq!(names, SharedResource::ALL.map(|resource| Some(resource.name())));
    }
}
