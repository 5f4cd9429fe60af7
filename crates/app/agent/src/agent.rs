//! The agent on a real server: opened, run, reloaded, ended.

use crate::claim::Claims;
use crate::cost::CostMeter;
use crate::decisions::DecisionLog;
use crate::error::AgentError;
use crate::heart::Heart;
use crate::metrics::Metrics;
use crate::profiles::{ProfileKeeper, with_profiles};
use crate::reserve::Reserve;
use crate::serve::{self, Bound, Server};
use crate::session::{Introduction, Session, SessionError};
use crate::signals::Signals;
use crate::status::{GuardState, Status};
use crate::status_file::StatusFile;
use crate::{fit, laws, options};
use quell_config::Checked;
use quell_linux::{AgentLock, KeptTasks, Linux, OpenError, Remarks, StateDir, restore_state};
use quell_types::Observation;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What an agent is told besides its configuration.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// A file that is rewritten with a [`Status`] at every full sample.
    pub status_file: Option<PathBuf>,
    /// Whether the cost of the eBPF programs is measured (which costs a little itself).
    pub bpf_stats: bool,
    /// Where messages for people go.
    pub say: fn(&str),
}

/// Why an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Asked,
    /// The time it was given is over.
    TimeUp,
}

/// A configuration as it is read for a reload, or why it cannot be.
pub type Reloaded = Result<Checked, String>;

/// An agent that guards.
pub struct Agent {
    // Fields are dropped in this order: the knobs go back before others may have the groups.
    session: Option<Session<Linux, DecisionLog>>,
    claims: Claims,
    _lock: AgentLock,
    config: Checked,
    options: AgentOptions,
    state: StateDir,
    metrics: Option<(Arc<Metrics>, Server)>,
    status_file: Option<StatusFile>,
    cost: CostMeter,
    heart: Heart,
    last: Option<Status>,
    /// Since when it guards with this configuration.
    since: Instant,
    /// Where what probes find goes; none where none are made.
    keeper: Option<ProfileKeeper>,
    /// Watches over the thread that opened it, which is to run it.
    reserve: Reserve,
}

impl Agent {
    /// Finds everything that the configuration names and gets ready to guard it. Groups may be
    /// adopted; otherwise nothing is changed yet. The thread that opens it is to run it: should others starve
    /// that one, CPU time is set aside for it.
    ///
    /// # Errors
    /// Everything that is wrong, at once; then nothing is left changed.
    pub fn open(mut config: Checked, options: AgentOptions) -> Result<Self, AgentError> {
        if !rustix::process::geteuid().is_root() {
            return Err(AgentError::Open(vec![OpenError::NotRoot]));
        }
        laws::check_laws(&config)?;
        fit::fit(&config)?;
        // To get ready takes CPU time as well.
        let reserve = Reserve::new(config.agent.cpu_reserve_frac, options.say);
        let state = StateDir(PathBuf::from(&config.agent.state_dir));
        let lock = AgentLock::take(&state.0)?;
        let claims = Claims::take(&config)?;
        with_profiles(&mut config, &this_machine()).iter().for_each(|why| (options.say)(why));
        let session = open_session(&config, &state, "started", options.say, KeptTasks::default())?;
        let metrics = open_metrics(&config, options.say)?;
        let status_file = open_status_file(options.status_file.as_deref())?;
        Ok(Self {
            keeper: ProfileKeeper::of(&config, this_machine()),
            session: Some(session),
            claims,
            _lock: lock,
            config,
            options,
            state,
            metrics,
            status_file,
            cost: CostMeter::begin(None),
            heart: Heart::new(),
            last: None,
            since: Instant::now(),
            reserve,
        })
    }

    /// Guards until it is asked to stop or `limit` is over, then puts every knob back. `reload` is
    /// called on a reload; a configuration that is wrong is told, and the present one stays.
    ///
    /// # Errors
    /// Something could not be put back, or it was stopped on the safe side.
    pub fn run(
        mut self,
        signals: &Signals,
        limit: Option<Duration>,
        mut reload: impl FnMut() -> Reloaded,
    ) -> Result<Ended, AgentError> {
        let begun = Instant::now();
        self.begin_measuring();
        self.heart.ready("guarding");
        let ended = loop {
            if signals.stops() {
                break Ended::Asked;
            }
            if limit.is_some_and(|limit| begun.elapsed() >= limit) {
                break Ended::TimeUp;
            }
            if signals.takes_reload() {
                self.reload(reload())?;
                self.reserve.renew(self.config.agent.cpu_reserve_frac, self.options.say);
            }
            self.step(signals)?;
        };
        self.end().map(|()| ended)
    }

    fn begin_measuring(&mut self) {
        let bpf = self.bpf_stats();
        self.cost = CostMeter::begin(bpf.as_ref());
        self.since = Instant::now();
    }

    fn bpf_stats(&mut self) -> Option<Vec<(String, u64, u64)>> {
        let session = self.session.as_mut().filter(|_| self.options.bpf_stats)?;
        Some(session.platform.bpf_stats())
    }

    fn step(&mut self, signals: &Signals) -> Result<(), AgentError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        if !session.playing {
            signals.sleep(session.pace.idle(), || self.heart.beat());
            if signals.any() {
                return Ok(());
            }
        }
        let was_held = session.held.is_some();
        let seen = session.step();
        let held = session.held.clone();
        self.heart.beat();
        match (seen, held) {
            (Some(observation), _) => self.show(&observation),
            (None, Some(why)) if !was_held => self.show_held(why),
            _ => Ok(()),
        }
    }

    fn show(&mut self, observation: &Observation) -> Result<(), AgentError> {
        self.keep_tolerances();
        let bpf = self.bpf_stats();
        let Some(session) = &self.session else { return Ok(()) };
        let setup = quell_platform::Platform::setup(&session.platform);
        let status = Status {
            law: self.config.agent.law.clone(),
            seconds: self.since.elapsed().as_secs_f64(),
            samples: session.full_samples,
            actions_total: session.actions_total.clone(),
            agent: self.cost.read(bpf.as_ref()),
            ..Status::new(setup, observation, &session.engine)
        };
        self.publish(status)
    }

    /// A store that cannot be written is no reason not to guard.
    fn keep_tolerances(&mut self) {
        let (Some(keeper), Some(session)) = (&mut self.keeper, &self.session) else { return };
        let kept = keeper.keep(&session.engine.tolerances(), crate::state::unix_ms());
        if let Err(error) = kept {
            (self.options.say)(&format!("what probes found is not kept: {error}"));
        }
    }

    fn show_held(&mut self, why: String) -> Result<(), AgentError> {
        match self.last.clone() {
            Some(last) => self.publish(Status { state: GuardState::FailSafe, why, ..last }),
            None => Ok(()),
        }
    }

    fn publish(&mut self, status: Status) -> Result<(), AgentError> {
        if let Some((metrics, _)) = &self.metrics {
            metrics.update(&status);
        }
        let published = self.status_file.as_ref().map(|file| file.publish(status.clone()));
        self.last = Some(status);
        published.map_or(Ok(()), |published| self.check_status(published))
    }

    /// A disk that is full must not end the guarding.
    fn check_status(&self, written: std::io::Result<()>) -> Result<(), AgentError> {
        match (written, &self.options.status_file) {
            (Err(source), Some(path)) if source.kind() != std::io::ErrorKind::StorageFull => {
                Err(AgentError::Status { path: path.clone(), source })
            }
            _ => Ok(()),
        }
    }

    fn reload(&mut self, new: Reloaded) -> Result<(), AgentError> {
        self.heart.reloading();
        match new.and_then(|new| self.acceptable(new)) {
            Ok(new) => self.replace(new)?,
            Err(why) => (self.options.say)(&format!("{why}\nnot reloaded: the old one stays")),
        }
        self.heart.ready("guarding");
        Ok(())
    }

    /// What can be known before anything is given up.
    fn acceptable(&self, new: Checked) -> Reloaded {
        let old = &self.config.agent;
        if new.agent.state_dir != old.state_dir || new.agent.metrics != old.metrics {
            return Err("state_dir and metrics only change by a restart".into());
        }
        laws::check_laws(&new).and_then(|()| fit::fit(&new)).map_err(|e| e.to_string())?;
        Ok(new)
    }

    /// Puts all knobs back and begins with the new configuration; with the old one if that fails.
    /// Tasks in groups that stay run on, unless it fails: then they begin again.
    fn replace(&mut self, mut new: Checked) -> Result<(), AgentError> {
        let say = self.options.say;
        with_profiles(&mut new, &this_machine()).iter().for_each(|why| say(why));
        let kept = self.session.as_mut().map(|session| session.platform.hand_over_tasks());
        self.close_session("stopped for a reload")?;
        self.claims = Claims::default();
        if let Some((metrics, _)) = &self.metrics {
            metrics.clear();
        }
        match self.reopen(&new, kept.unwrap_or_default()) {
            Ok(()) => {
                self.keeper = ProfileKeeper::of(&new, this_machine());
                self.config = new;
                say("reloaded");
                Ok(())
            }
            Err(error) => {
                say(&format!("{error}\nnot reloaded: the old configuration stays"));
                self.reopen(&self.config.clone(), KeptTasks::default())
            }
        }
    }

    fn reopen(&mut self, config: &Checked, kept: KeptTasks) -> Result<(), AgentError> {
        self.claims = Claims::take(config)?;
        let say = self.options.say;
        self.session = Some(open_session(config, &self.state, "reloaded", say, kept)?);
        self.begin_measuring();
        Ok(())
    }

    fn end(mut self) -> Result<(), AgentError> {
        self.heart.stopping();
        let held = self.session.as_ref().and_then(|session| session.held.clone());
        self.close_session("stopped")?;
        if let Some(last) = self.last.take() {
            self.publish(Status { state: GuardState::Stopped, ..last })?;
        }
        if let Some(file) = self.status_file.take() {
            self.check_status(file.finish())?;
        }
        match held {
            Some(why) => Err(AgentError::FailSafe(why)),
            None => Ok(()),
        }
    }

    /// Puts everything back; what the platform could not is tried again from the journal alone.
    fn close_session(&mut self, word: &str) -> Result<(), AgentError> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        let ended = session.end(word);
        let remarks = session.platform.take_remarks();
        tell_left(&remarks, self.options.say);
        if ended.is_ok() {
            return Ok(());
        }
        drop(session);
        let failed = |why: String| AgentError::NotRestored(why);
        let report =
            restore_state(Path::new("/"), &self.state).map_err(|e| failed(e.to_string()))?;
        tell_left(&Remarks { left: report.left.clone(), unreadable: None }, self.options.say);
        // What could not be read is no longer in the journal, but not put back either.
        let troubles: Vec<String> =
            report.troubles().into_iter().chain(remarks.unreadable).collect();
        if troubles.is_empty() { Ok(()) } else { Err(failed(troubles.join("; "))) }
    }
}

fn tell_left(remarks: &Remarks, say: fn(&str)) {
    remarks.left.iter().for_each(|what| say(&format!("left as it is: {what}")));
}

/// As profiles name it.
fn this_machine() -> quell_profiler::Machine {
    quell_profiler::Machine::of(&quell_topology::Machine::new("/").topology())
}

fn open_session(
    config: &Checked,
    state: &StateDir,
    word: &'static str,
    say: fn(&str),
    kept: KeptTasks,
) -> Result<Session<Linux, DecisionLog>, AgentError> {
    let log = DecisionLog::open(state)?;
    let mut linux =
        Linux::open_with(options::linux_options(config), kept).map_err(AgentError::Open)?;
    // A look keeps the sampling thread for a whole interval, which may be longer than a watchdog waits.
    let mut heart = Heart::new();
    linux.while_waiting(move || heart.beat());
    tell_left(&linux.take_remarks(), say);
    let introduction = Introduction { word, pid: std::process::id(), say };
    // A platform that is dropped puts its knobs back.
    Session::begin(linux, config, log, introduction).map_err(|(error, _linux)| match error {
        SessionError::Platform(error) => error.into(),
        SessionError::Journal(error) => error.into(),
        SessionError::Config(errors) => errors.into(),
    })
}

fn open_status_file(path: Option<&Path>) -> Result<Option<StatusFile>, AgentError> {
    let of = |path: &Path| {
        let failed = |source| AgentError::Status { path: path.to_owned(), source };
        StatusFile::new(path.to_owned()).map_err(failed)
    };
    path.map(of).transpose()
}

fn open_metrics(
    config: &Checked,
    say: fn(&str),
) -> Result<Option<(Arc<Metrics>, Server)>, AgentError> {
    let metrics = Arc::new(Metrics::new());
    Ok(match &config.agent.metrics {
        quell_config::Metrics::Off => None,
        quell_config::Metrics::Address(address) => {
            Some((Arc::clone(&metrics), serve::on_address(*address, metrics)?))
        }
        quell_config::Metrics::Unix(path) => {
            match serve::on_socket(Path::new(path), Arc::clone(&metrics))? {
                Bound::Here(server) => Some((metrics, server)),
                Bound::Taken => {
                    say(&format!("another agent serves metrics on {path}: none are served here"));
                    None
                }
            }
        }
    })
}
