//! A small machine for tests: a service, a batch group, knobs in a table, a disk that may be full.

use super::*;
use crate::decisions::DecisionLog;
use crate::known_laws;
use crate::status::Status;
use quell_config::Raw;
use quell_linux::StateDir;
use quell_platform::Table;
use quell_types::{BatchSpec, CapabilityReport, Gap, ServiceSpec, Setup, Slo, TenantReading, Time};
use std::cell::Cell;
use std::io;
use std::rc::Rc;

pub(crate) fn config(law: &str) -> Checked {
    let text = format!(
        "[agent]\nlaw = \"{law}\"\n[[service]]\nname = \"web\"\ncgroup = \"/web\"\np99 = \"3ms\"\n\
         [[batch]]\nname = \"jobs\"\ncgroup = \"/jobs\"\n"
    );
    Raw::from_toml("quell.toml", &text).check(&known_laws()).unwrap()
}

pub(crate) fn frozen() -> Knob {
    Knob::Frozen { tenant: "jobs".into() }
}

pub(crate) fn idle() -> Knob {
    Knob::CpuIdle { tenant: "jobs".into() }
}

pub(crate) fn table() -> Table {
    let slo = Slo { percentile_frac: 0.99, target_s: 0.003 };
    let web = ServiceSpec { name: "web".into(), slo, peak_qps: None, links: vec![] };
    let jobs = BatchSpec { name: "jobs".into(), links: vec![], takes_tasks: false, max_tasks: 0 };
    let knobs = [(frozen(), KnobRange::Flag), (idle(), KnobRange::Flag)];
    let setup = Setup {
        services: vec![web],
        batch: vec![jobs],
        knobs: BTreeMap::from(knobs),
        managed_cpus: [0, 1].into_iter().collect(),
        ..Setup::default()
    };
    let first = [(frozen(), Setting::Flag(false)), (idle(), Setting::Flag(false))];
    let mut table = Table::new(setup, BTreeMap::from(first));
    for tenant in ["web", "jobs"] {
        table.set_reading(tenant.into(), TenantReading::missing(&Gap::absent("a table")));
    }
    table
}

/// A table whose knob journal is on a disk that may be full: then only knobs that were written
/// before can be written.
pub(crate) struct Disk {
    pub(crate) table: Table,
    pub(crate) full: Rc<Cell<bool>>,
    journalled: BTreeSet<Knob>,
    pub(crate) disowned: Vec<Knob>,
}

impl Disk {
    pub(crate) fn new() -> (Self, Rc<Cell<bool>>) {
        let full = Rc::new(Cell::new(false));
        let disk = Self {
            table: table(),
            full: Rc::clone(&full),
            journalled: BTreeSet::new(),
            disowned: Vec::new(),
        };
        (disk, full)
    }

    pub(crate) fn error() -> StoreError {
        let source = io::ErrorKind::StorageFull.into();
        StoreError { doing: "append to", name: "knobs.journal".into(), source }
    }
}

impl Platform for Disk {
    fn setup(&self) -> &Setup {
        self.table.setup()
    }

    fn capabilities(&self) -> Vec<CapabilityReport> {
        Vec::new()
    }

    fn sample(&mut self, after: Duration, scope: Scope) -> Result<Sample, PlatformError> {
        self.table.sample(after, scope)
    }

    fn apply(&mut self, action: &Action) -> Result<(), PlatformError> {
        if let Action::Set { knob, .. } = action
            && !self.journalled.contains(knob)
        {
            if self.full.get() {
                return Err(Self::error().into());
            }
            self.journalled.insert(knob.clone());
        }
        self.table.apply(action)
    }

    fn restore(&mut self) -> Result<(), PlatformError> {
        self.journalled.clear();
        self.table.restore()
    }

    fn disown(&mut self, knob: &Knob) -> Result<(), PlatformError> {
        self.disowned.push(knob.clone());
        Ok(())
    }
}

pub(crate) const STARTED: Introduction = Introduction { word: "started", pid: 1, say: |_| () };

pub(crate) fn session<P: Platform>(
    platform: P,
    law: &str,
) -> (tempfile::TempDir, Session<P, DecisionLog>) {
    let folder = tempfile::tempdir().unwrap();
    let log = DecisionLog::open(&StateDir(folder.path().to_owned())).unwrap();
    let begun = Session::begin(platform, &config(law), log, STARTED);
    let Ok(session) = begun else { panic!("the session must begin") };
    (folder, session)
}

/// How a knob of the table stands.
pub(crate) fn knob(table: &mut Table, knob: &Knob) -> Setting {
    let sample = table.sample(Duration::ZERO, Scope::Full).unwrap();
    sample.knobs[knob].clone().unwrap()
}

/// The status after one step of the law `none`.
pub(crate) fn status() -> Status {
    let (_folder, mut session) = session(table(), "none");
    let observation = session.step().unwrap();
    assert_ne!(observation.time, Time(u64::MAX));
    Status::new(session.platform.setup(), &observation, &session.engine)
}
