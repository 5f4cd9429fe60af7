//! Kept profiles and the agent, on simulated servers: the model of memory traffic that heracles takes,
//! and probes that find anew what a service tolerates.
#![allow(clippy::unwrap_used)]

mod common;

use quell_agent::{ProfileKeeper, check_laws, known_laws, with_profiles};
use quell_config::{Checked, Raw};
use quell_control::{Engine, EngineParams};
use quell_platform::{Platform, Scope};
use quell_policy::{LawParams, Policy, Refresh, RefreshParams, build};
use quell_pressure::Resource;
use quell_profiler::{
    BandwidthStep, Machine, Profile, ProfileStore, Rig, bandwidth, bandwidth_steps,
};
use quell_sim::{Load, Scene, SimServer, program};
use quell_types::*;
use std::path::Path;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const QUARTER: Duration = Duration::from_millis(250);
const PEAK: f64 = 4_000.0;

fn scene(machine: &str, target_s: f64) -> Scene {
    let mut scene = common::scene(machine, 11, 0.3 * PEAK);
    scene.services[0].spec.slo.target_s = target_s;
    assert_eq!(scene.services[0].spec.peak_qps, Some(PEAK));
    scene
}

fn with_batch(mut scene: Scene, name: &str) -> Scene {
    scene.batch = vec![common::busy("jobs", name)];
    scene
}

fn config(folder: &Path, law: &str, more: &str) -> Checked {
    let text = format!(
        "[agent]\nlaw = \"{law}\"\nstate_dir = \"{}\"\n{more}\
         [[service]]\nname = \"search\"\ncgroup = \"/search\"\np95 = \"3ms\"\nprofile = \"shop\"\n\
         [law.heracles]\npeak_dram_bytes_per_s = 50e9\n",
        folder.display()
    );
    Raw::from_toml("quell.toml", &text).check(&known_laws()).unwrap()
}

/// The simulated server as what a profile is measured on: load and ways are set, memory is counted.
struct Simulated {
    server: SimServer,
}

impl Simulated {
    fn bytes(&mut self) -> Reading<u64> {
        let sample = self.server.sample(SECOND, Scope::Full).unwrap();
        sample.tenants[&"search".into()].memory.clone().map(|memory| memory.bytes)
    }
}

impl Rig for Simulated {
    fn set(&mut self, step: &BandwidthStep) -> Result<(), String> {
        self.server.set_load(&"search".into(), Load::Constant(step.load_frac * PEAK))?;
        if let Some(ways) = step.ways {
            for domain in 0..2 {
                let knob = Knob::LlcWays { tenant: "search".into(), domain };
                let to = Setting::Ways((1 << ways) - 1);
                self.server.apply(&Action::Set { knob, to }).map_err(|e| e.to_string())?;
            }
        }
        self.server.advance(SECOND * 2);
        Ok(())
    }

    fn bytes_per_s(&mut self) -> Reading<f64> {
        let before = self.bytes()?;
        Ok(self.bytes()?.saturating_sub(before) as f64)
    }

    fn counted_by(&self) -> String {
        "the simulated server".to_owned()
    }
}

/// Cores that batch holds at most under heracles once it has settled, with these parameters.
fn batch_cores_under_heracles(config: &Checked, seconds: usize) -> usize {
    let mut scene = with_batch(scene("haswell2", 0.02), "stream-dram");
    scene.batch[0].programs = vec![program("stream-dram").unwrap(); 8];
    let mut server = SimServer::new(&scene).unwrap();
    let table = toml::Value::Table(config.all_law_parameters());
    let params: LawParams = table.try_into().unwrap();
    let policies = build(config.agent.law.parse().unwrap(), &params).unwrap();
    let mut engine = Engine::new(server.setup().clone(), policies, EngineParams::default());
    let mut most = 0;
    for second in 0..seconds {
        let sample = server.sample(SECOND, Scope::Full).unwrap();
        for action in &engine.step(&sample).actions {
            server.apply(action).unwrap();
        }
        let knob = Knob::Cpus { tenant: "jobs".into() };
        if second > seconds / 2
            && let Some(Setting::Cpus(cpus)) = server.standing().get(&knob)
        {
            most = most.max(cpus.len());
        }
    }
    server.restore().unwrap();
    most
}

#[test]
fn heracles_uses_the_model_that_was_measured_on_the_machine() {
    let mut rig = Simulated { server: SimServer::new(&scene("haswell2", 0.02)).unwrap() };
    let steps = bandwidth_steps(&[0.1, 0.4, 0.8], &[], &[2, 20]);
    let model = bandwidth(&mut rig, PEAK, &steps, 2).unwrap();
    let at = |load: f64, ways: u32| {
        let here = |p: &&quell_profiler::BandwidthPoint| {
            (p.load_frac - load).abs() < 1e-9 && p.ways == Some(ways)
        };
        model.points.iter().find(here).unwrap().bytes_per_s.value
    };
    assert!(at(0.8, 2) > 1.5 * at(0.1, 2), "more load moves more: {model:?}");
    assert!(at(0.8, 2) > 1.2 * at(0.8, 20), "fewer ways move more: {model:?}");
    // Kept, and named by the configuration: the law has it.
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::of(&rig.server.setup().topology);
    let mut profile = Profile::begun("shop", &machine);
    profile.bandwidth = Some(model.clone());
    let store = ProfileStore::open(&folder.path().join("profiles.sqlite")).unwrap();
    store.put("shop", &profile, 1).unwrap();
    let mut measured = config(folder.path(), "heracles", "");
    assert_eq!(with_profiles(&mut measured, &machine), Vec::<String>::new());
    check_laws(&measured).unwrap();
    let given = measured.laws["heracles"]["service_bandwidth"].as_array().unwrap();
    assert_eq!(given.len(), model.points.len());
    // It decides: a model that expects the service near the limit leaves batch fewer cores.
    let mut heavy = profile.clone();
    for point in &mut heavy.bandwidth.as_mut().unwrap().points {
        point.bytes_per_s = quell_profiler::Estimate::exact(42e9);
    }
    store.put("shop", &heavy, 2).unwrap();
    let mut expected = config(folder.path(), "heracles", "");
    assert!(with_profiles(&mut expected, &machine).is_empty());
    let (free, held) =
        (batch_cores_under_heracles(&measured, 120), batch_cores_under_heracles(&expected, 120));
    assert!(held < free, "{held} cores with a heavy service, {free} as measured");
}

/// What a run with probes came to.
struct Probed {
    tolerances: std::collections::BTreeMap<SharedResource, quell_policy::Tolerance>,
    probes: usize,
    pressed_s: f64,
    journal: String,
}

fn probed(scene: &Scene, seconds: u32) -> Probed {
    let mut server = SimServer::new(scene).unwrap();
    let policies: Vec<Box<dyn Policy>> = vec![Box::new(Refresh::new(RefreshParams::default()))];
    let mut engine = Engine::new(server.setup().clone(), policies, EngineParams::default());
    let (mut probes, mut pressed_s, mut journal) = (0, 0.0, String::new());
    for step in 0..seconds * 4 {
        let scope = if step % 4 == 3 { Scope::Full } else { Scope::Fast };
        let sample = server.sample(QUARTER, scope).unwrap();
        probes += sample.probes.len();
        for window in sample.probes.iter().flat_map(|trace| &trace.windows) {
            pressed_s += window.to.since(window.from).as_secs_f64();
        }
        let decision = engine.step(&sample);
        journal.push_str(&serde_json::to_string(&decision.entry).unwrap());
        for action in &decision.actions {
            server.apply(action).unwrap();
        }
    }
    let tolerances = engine.tolerances().remove(&"search".into()).unwrap_or_default();
    Probed { tolerances, probes, pressed_s, journal }
}

#[test]
fn probes_find_what_a_service_tolerates_at_a_hundredth_of_the_time() {
    let scene = scene("vm2", 0.02);
    let found = probed(&scene, 8_000);
    assert!(found.probes >= 15, "{} probes", found.probes);
    assert!(found.pressed_s <= 80.0, "{} s", found.pressed_s);
    // Its hot set fills a good part of the cache, which a stream through memory empties.
    let of = |resource| found.tolerances[&resource];
    let all = SharedResource::ALL.map(of);
    assert!(all.iter().all(|found| found.kept_percent <= found.lost_percent), "{all:?}");
    assert!(all.iter().any(|found| found.lost_percent < 90.0), "{all:?}");
    assert_eq!(probed(&scene, 600).journal, probed(&scene, 600).journal, "to the byte");
}

#[test]
fn what_probes_find_is_in_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let scene = scene("vm2", 0.02);
    let machine = Machine::of(&SimServer::new(&scene).unwrap().setup().topology);
    let config = config(folder.path(), "none", "[agent.probes]\nenabled = true\n");
    let mut keeper = ProfileKeeper::of(&config, machine.clone()).unwrap();
    let found = probed(&scene, 6_000);
    assert!(!found.tolerances.is_empty());
    keeper.keep(&[("search".into(), found.tolerances.clone())].into(), 77).unwrap();
    let store = ProfileStore::open(&folder.path().join("profiles.sqlite")).unwrap();
    let kept = store.get("shop", &machine.fingerprint).unwrap().unwrap().profile;
    for (resource, tolerance) in &found.tolerances {
        let resource: Resource = resource.name().parse().unwrap();
        // Reading JSON may change the last bit of a number.
        let off = kept.tolerated[&resource].value - tolerance.kept_percent;
        assert!(off.abs() < 1e-9, "{resource}: {off}");
        assert_eq!(kept.refreshed_unix_ms[&resource], 77);
    }
}

#[test]
fn a_service_without_slack_is_left_alone() {
    let found = probed(&with_batch(scene("vm2", 0.0026), "stream-dram"), 600);
    assert_eq!((found.probes, found.tolerances.len()), (0, 0));
}
