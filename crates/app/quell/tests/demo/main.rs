//! `quell demo`, small: its structure and what it leaves behind, not its figures.

#![allow(clippy::unwrap_used)] // in tests a panic is the report

mod killed;
mod signal;

use quell_bench::{Contender, DemoReport};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A demo that is ended with the test.
struct Demo(Child);

/// For those whose figures nobody looks at: the search for the peak takes longer than the rest.
const KNOWN_PEAK: [&str; 2] = ["--peak", "300"];

/// One demo at a time: two would measure each other.
static ALONE: Mutex<()> = Mutex::new(());

impl Demo {
    fn start(folder: &Path, args: &[&str]) -> Self {
        Self::of_laws("alone,none,quell", folder, args)
    }

    fn of_laws(laws: &str, folder: &Path, args: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_quell"))
            .args(["demo", "--service", "store", "--loads", "0.4"])
            .args(["--laws", laws, "--json"])
            .arg(folder.join("demo.json"))
            .args(args)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn of_known_peak(laws: &str, folder: &Path, args: &[&str]) -> Self {
        Self::of_laws(laws, folder, &[&KNOWN_PEAK, args].concat())
    }

    fn home(&self, hierarchy: &str) -> PathBuf {
        Path::new("/sys/fs/cgroup").join(hierarchy).join(format!("quell-demo-{}", self.0.id()))
    }

    fn wait(&mut self, most: Duration) -> Option<i32> {
        let end = Instant::now() + most;
        while Instant::now() < end {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the demo does not end");
    }

    fn is_gone(&self) -> bool {
        let hierarchies = std::fs::read_dir("/sys/fs/cgroup").unwrap();
        let names = hierarchies.map(|entry| entry.unwrap().file_name());
        names.map(|name| self.home(&name.to_string_lossy())).all(|home| !home.exists())
            && !self.home("").exists()
            && !self.folder().exists()
    }

    /// Where it keeps what it needs while it runs.
    fn folder(&self) -> PathBuf {
        Path::new("/run").join(format!("quell-demo-{}", self.0.id()))
    }

    /// Waits until batch works in the group of this polluter: an agent, its tasks and the service
    /// are there then.
    fn wait_for_batch(&self, polluter: &str) -> String {
        let procs = self.home("cpu").join(format!("quell-batch-{polluter}/cgroup.procs"));
        let end = Instant::now() + Duration::from_secs(300);
        loop {
            let inside = std::fs::read_to_string(&procs).unwrap_or_default();
            if !inside.is_empty() {
                return inside;
            }
            assert!(Instant::now() < end, "batch never ran");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.0), Signal::INT);
            let end = Instant::now() + Duration::from_secs(30);
            while Instant::now() < end && matches!(self.0.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn json(folder: &Path) -> (Value, DemoReport) {
    let text = std::fs::read_to_string(folder.join("demo.json")).unwrap();
    (serde_json::from_str(&text).unwrap(), serde_json::from_str(&text).unwrap())
}

/// Every field that the schema requires, at the top and in each run, is there.
fn assert_fits_schema(value: &Value) {
    let mut schemas = quell_bench::schemas().into_iter();
    let (_, schema) = schemas.find(|(name, _)| name.starts_with("quell.demo")).unwrap();
    let lacks = |schema: &Value, value: &Value| -> Vec<String> {
        let required = schema["required"].as_array().unwrap().iter();
        let names = required.map(|name| name.as_str().unwrap().to_owned());
        names.filter(|name| value.get(name).is_none()).collect()
    };
    assert_eq!(lacks(&schema, value), Vec::<String>::new());
    for run in value["runs"].as_array().unwrap() {
        assert_eq!(lacks(&schema["$defs"]["Run"], run), Vec::<String>::new());
    }
}

#[test]
fn a_small_demo_measures_all_parts_and_leaves_nothing_behind() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let mut demo =
        Demo::start(folder.path(), &["--seconds", "12", "--report", report.to_str().unwrap()]);
    assert_eq!(demo.wait(Duration::from_secs(300)), Some(0));
    assert!(demo.is_gone());
    let (value, found) = json(folder.path());
    assert_fits_schema(&value);
    assert_eq!(value["schema"], "quell.demo/1");
    assert!(found.complete && found.knobs_restored, "{:?}", found.knobs_changed);
    assert!(found.peak_qps > 0.0 && found.slo_ms > 0.0);
    let laws: Vec<Contender> = found.runs.iter().map(|run| run.law).collect();
    assert_eq!(laws, [Contender::Alone, Contender::None, Contender::Quell]);
    for run in &found.runs {
        assert!(run.windows > 0 && run.p50_ms <= run.p99_ms, "{run:?}");
        // Unprotected, the service may answer nothing within a second's window.
        assert!(run.qps > 0.0 || run.law == Contender::None, "{run:?}");
        assert!((0.0..=1.0).contains(&run.slo_met_frac), "{run:?}");
        assert!((0.0..=1.1).contains(&run.cpu_utilisation_frac), "{run:?}");
        assert_eq!(run.batch_work_frac > 0.0, run.law != Contender::Alone, "{run:?}");
    }
    let network: Vec<Contender> = found.network.iter().map(|run| run.law).collect();
    assert_eq!(network, [Contender::Alone, Contender::None, Contender::Quell]);
    assert!(found.network[1].link_use_frac > found.network[0].link_use_frac);
    assert!(found.agent.is_some_and(|agent| agent.rss_bytes > 0));
    assert!(!found.flash_crowd_trace.is_empty());
    assert!(report.join("report.html").exists());
}

#[test]
fn ctrl_c_ends_it_at_once_and_leaves_nothing_behind() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let args = ["--seconds", "60", "--no-network"];
    let mut demo = Demo::of_known_peak("alone,none,quell", folder.path(), &args);
    demo.wait_for_batch("llc");
    kill_process(Pid::from_child(&demo.0), Signal::INT).unwrap();
    assert_eq!(demo.wait(Duration::from_secs(60)), Some(1));
    assert!(demo.is_gone());
    let (_, found) = json(folder.path());
    assert!(!found.complete);
}
