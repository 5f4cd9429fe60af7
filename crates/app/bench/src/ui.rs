//! What the user sees while it runs, and how the user ends it.

use indicatif::{ProgressBar, ProgressStyle};
use quell_service::Controls;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Ctrl-C and SIGTERM as a wish to end: the run stops what it made and reports what it has.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT, SIGTERM and SIGHUP end the run instead of the process.
    pub fn on_signals(&self) -> anyhow::Result<()> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&self.0))?;
        }
        Ok(())
    }

    /// Asks for the end.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the end is asked for.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error if the end is asked for.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.requested(), "interrupted");
        Ok(())
    }

    /// Waits, unless the end is asked for.
    pub(crate) fn sleep(&self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check()?;
            std::thread::sleep(Duration::from_millis(20).min(end - Instant::now()));
        }
        self.check()
    }
}

/// A progress bar over the planned time, moved by a thread of its own, which also carries an
/// interrupt to a generator that is at work.
pub(crate) struct Ui {
    bar: ProgressBar,
    began: Instant,
    running: Arc<Mutex<Controls>>,
    stop: Option<Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

impl Ui {
    pub(crate) fn start(planned: Duration, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let bar = ProgressBar::new(planned.as_secs().max(1));
        bar.set_style(ProgressStyle::with_template("{bar:24} {prefix:>11}  {msg}")?);
        let running = Arc::new(Mutex::new(Controls::default()));
        let (stop, stopped) = channel();
        let began = Instant::now();
        let ticker = {
            let (bar, running, interrupt) = (bar.clone(), Arc::clone(&running), interrupt.clone());
            std::thread::Builder::new().name("quell-progress".into()).spawn(move || {
                tick(&bar, began, &running, &interrupt, &stopped);
            })?
        };
        Ok(Self { bar, began, running, stop: Some(stop), ticker: Some(ticker) })
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Corrects the planned length of the whole.
    pub(crate) fn plan(&self, total: Duration) {
        self.bar.set_length(total.as_secs().max(1));
    }

    /// Says what happens now.
    pub(crate) fn now(&self, what: impl Into<String>) {
        let what = what.into();
        if self.bar.is_hidden() {
            eprintln!("{:6.1} s  {what}", self.elapsed().as_secs_f64());
        }
        self.bar.set_message(what);
    }

    /// A line that stays.
    pub(crate) fn say(&self, line: impl AsRef<str>) {
        self.bar.suspend(|| eprintln!("{}", line.as_ref()));
    }

    /// Controls for the next run of the generator; an interrupt stops it.
    pub(crate) fn controls(&self) -> Controls {
        let controls = Controls::default();
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = controls.clone();
        controls
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
        self.bar.finish_and_clear();
    }
}

fn tick(
    bar: &ProgressBar,
    began: Instant,
    running: &Mutex<Controls>,
    interrupt: &Interrupt,
    stopped: &Receiver<()>,
) {
    while stopped.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
        let (elapsed, total) = (began.elapsed().as_secs(), bar.length().unwrap_or(0));
        bar.set_position(elapsed.min(total));
        bar.set_prefix(left_words(total.saturating_sub(elapsed)));
        if interrupt.requested() {
            running.lock().unwrap_or_else(PoisonError::into_inner).stop();
        }
    }
}

fn left_words(seconds: u64) -> String {
    match seconds {
        0 => "almost done".to_owned(),
        1..=119 => format!("{seconds} s left"),
        120..=7199 => format!("{} min left", seconds / 60),
        _ => format!("{:.1} h left", seconds as f64 / 3600.0),
    }
}
