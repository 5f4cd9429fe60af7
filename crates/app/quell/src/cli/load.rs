//! `quell load`: open-loop load on a service.

mod words;

use super::embedded::Embedded as Own;
use super::{files, measure};
use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use quell_service::{
    Controls, Extent, KeyValueMix, LoadOptions, LoadPlan, Profile, RepeatRule, ServeOptions,
    ServerLaunch, ServiceSpec, Target, WindowRule,
};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Puts open-loop load on a service and measures its latency.
///
/// Latency counts from each request's scheduled arrival, so that no wait is left out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quell load redis 127.0.0.1:6379 --rate 5000
  quell load search --rate 500 --to 1500 --flash-crowd 5:3
  quell load http http://127.0.0.1:8080/path --rate 200 --seconds 30 --json load.json")]
pub(crate) struct Args {
    #[command(subcommand)]
    target: What,
    #[command(flatten)]
    load: Load,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The embedded search engine.
    #[command(after_help = "\
Examples:
  quell load search --rate 500 --seconds 20
  quell load search --rate 500 --to 1500 --flash-crowd 5:3 --json load.json")]
    Search(Embedded),
    /// The embedded transactional key-value store.
    #[command(after_help = "\
Examples:
  quell load store --rate 2000 --workers 1
  quell load store --mode integrated --rate 2000 --repeat 5")]
    Store(Embedded),
    /// The embedded service that tells what texts are about, by a model in memory.
    #[command(after_help = "\
Examples:
  quell load topics --rate 1000 --workers 1
  quell load topics --rate 2000 --json load.json")]
    Topics(Embedded),
    /// A redis server, as 127.0.0.1:6379.
    #[command(after_help = "\
Examples:
  quell load redis 127.0.0.1:6379 --rate 5000
  quell load redis 127.0.0.1:6379 --rate 5000 --keys 100000 --set-frac 0.5")]
    Redis(KeyValue),
    /// A memcached server, as 127.0.0.1:11211.
    #[command(after_help = "\
Example:
  quell load memcached 127.0.0.1:11211 --rate 5000 --connections 8")]
    Memcached(KeyValue),
    /// An HTTP URL, as http://127.0.0.1:8080/path.
    #[command(after_help = "\
Example:
  quell load http http://127.0.0.1:8080/path --rate 200 --seconds 30")]
    Http {
        /// What to get.
        url: String,
    },
    /// Becomes the server of an embedded service: what the modes above start.
    #[command(hide = true)]
    Serve {
        /// The options as JSON.
        #[arg(value_name = "JSON")]
        serve_options: String,
    },
}

/// More threads than this no machine wants, and many cannot have.
const MOST_THREADS: i64 = 1024;

/// TailBench's three ways of connecting client and service.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// Both in this process.
    Integrated,
    /// The service in a process of its own, over loopback.
    Loopback,
    /// The same, between two network namespaces.
    Networked,
}

#[derive(Debug, clap::Args)]
struct Embedded {
    /// How client and service are connected.
    #[arg(long, value_enum, default_value = "loopback")]
    mode: Mode,
    /// Worker threads of the service; one a CPU if left out.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(..=MOST_THREADS))]
    workers: u32,
    /// Where the service listens; loopback and any free port if left out.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// networked: the service's namespace, a name of `ip netns` or a path.
    #[arg(long, value_name = "NAME")]
    server_netns: Option<String>,
}

#[derive(Debug, clap::Args)]
struct KeyValue {
    /// The server's host and port.
    server: String,
    /// Keys in use, `quell:00000000` upwards; all are written before the load begins, and stay
    /// [default: 10000].
    #[arg(long, value_name = "N")]
    keys: Option<u32>,
    /// Bytes of a value [default: 200].
    #[arg(long, value_name = "N")]
    value_bytes: Option<u32>,
    /// Share of requests that write, 0 to 1 [default: 0.1].
    #[arg(long, value_name = "FRAC")]
    set_frac: Option<f64>,
}

#[derive(Debug, clap::Args)]
struct Load {
    /// Requests per second.
    #[arg(long, global = true, default_value_t = 500.0, value_name = "QPS")]
    rate: f64,
    /// The second rate of --step, --ramp, --flash-crowd and --diurnal.
    #[arg(long, global = true, value_name = "QPS")]
    to: Option<f64>,
    /// Changes to the second rate after so many seconds.
    #[arg(long, global = true, value_name = "S", group = "profile", requires = "to")]
    step: Option<f64>,
    /// Goes to the second rate between two times, as 5:20.
    #[arg(long, global = true, value_name = "S:S", group = "profile", requires = "to")]
    ramp: Option<String>,
    /// Jumps to the second rate and back: when, and for how long, as 10:5.
    #[arg(long, global = true, value_name = "S:S", group = "profile", requires = "to")]
    flash_crowd: Option<String>,
    /// Goes back and forth between both rates in a day of so many seconds.
    #[arg(long, global = true, value_name = "S", group = "profile", requires = "to")]
    diurnal: Option<f64>,
    /// Seconds measured.
    #[arg(long, global = true, default_value_t = 10.0, value_name = "S")]
    seconds: f64,
    /// Measures so many requests in place of a time.
    #[arg(long, global = true, value_name = "N", conflicts_with = "seconds")]
    requests: Option<u64>,
    /// Seconds of load before that.
    #[arg(long, global = true, default_value_t = 2.0, value_name = "S")]
    warmup: f64,
    /// Seed of arrivals and contents.
    #[arg(long, global = true, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Draws what decides how much a request costs evenly, not at random: short windows differ less then, and
    /// tails are shorter than they would be.
    #[arg(long, global = true)]
    even: bool,
    /// Connections over all client threads.
    #[arg(long, global = true, default_value_t = 64, value_name = "N")]
    connections: u32,
    /// Client threads.
    #[arg(long, global = true, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_THREADS))]
    threads: u32,
    /// Leaves the generator at normal priority.
    #[arg(long, global = true)]
    no_realtime: bool,
    /// Network namespace of the client's sockets.
    #[arg(long, global = true, value_name = "NAME")]
    client_netns: Option<String>,
    /// Length of a window.
    #[arg(long, global = true, default_value_t = 1.0, value_name = "S")]
    window: f64,
    /// A window with fewer requests is joined to the next.
    #[arg(long, global = true, default_value_t = 300, value_name = "N")]
    window_requests: u64,
    /// Writes queue, service and sojourn time of each request, 64-bit nanoseconds.
    #[arg(long, global = true, value_name = "FILE")]
    requests_file: Option<PathBuf>,
    /// Repeats with new seeds until the tail's interval is narrow, at most so many times.
    #[arg(long, global = true, value_name = "RUNS")]
    repeat: Option<u32>,
    /// Narrow enough: half-width as a share of the mean.
    #[arg(long, global = true, default_value_t = 0.01, value_name = "FRAC")]
    half_width: f64,
    /// The judged percentile: 50, 90, 95, 99 or 99.9.
    #[arg(long, global = true, default_value_t = 95.0, value_name = "P")]
    percentile: f64,
    /// Writes the report as JSON; `-` for standard output.
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let What::Serve { serve_options } = &args.target {
        quell_service::serve_command(serve_options)?;
        return Ok(());
    }
    let options = LoadOptions {
        target: target(&args.target)?,
        client_netns: args.load.client_netns.clone(),
        plan: args.load.plan()?,
        repeat: args.load.repeat.map(|max_runs| RepeatRule {
            percentile: args.load.percentile,
            half_width_frac: args.load.half_width,
            min_runs: max_runs.min(3),
            max_runs,
        }),
    };
    let controls = Controls::default();
    stop_on_signals(&controls)?;
    let quiet = measure::to_stdout(args.load.json.as_deref());
    // A reader that went away (`| head`) is no error, and what else there is shows at the end.
    let print = |text: &str| files::print_text(text).unwrap_or_default();
    let report = quell_service::run(&options, &controls, &mut |window| {
        if !quiet {
            print(&words::window(window));
        }
    })?;
    if !quiet {
        files::print_text(&words::report(&report))?;
    }
    measure::write_json(args.load.json.as_deref(), &report)
}

/// Ends the run at SIGINT or SIGTERM, so that what was measured is still reported.
fn stop_on_signals(controls: &Controls) -> anyhow::Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second one ends the process at once, should the first not be enough.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&asked))?;
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    let controls = controls.clone();
    std::thread::spawn(move || {
        while !asked.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        controls.stop();
    });
    Ok(())
}

fn target(what: &What) -> anyhow::Result<Target> {
    Ok(match what {
        What::Search(options) => embedded(Own::Search.spec(), options)?,
        What::Store(options) => embedded(Own::Store.spec(), options)?,
        What::Topics(options) => embedded(Own::Topics.spec(), options)?,
        What::Redis(options) => {
            Target::Redis { address: address(&options.server)?, mix: options.mix() }
        }
        What::Memcached(options) => {
            Target::Memcached { address: address(&options.server)?, mix: options.mix() }
        }
        What::Http { url } => Target::Http { url: url.clone() },
        What::Serve { .. } => anyhow::bail!("serve is no target"),
    })
}

fn embedded(spec: ServiceSpec, options: &Embedded) -> anyhow::Result<Target> {
    let threads = options.workers;
    if matches!(options.mode, Mode::Integrated) {
        return Ok(Target::Integrated { spec, threads });
    }
    if matches!(options.mode, Mode::Networked) {
        anyhow::ensure!(
            options.server_netns.is_some() && options.listen.is_some(),
            "--mode networked needs --server-netns and --listen, and --client-netns for the client"
        );
    }
    let listen = options.listen.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
    let netns = options.server_netns.clone();
    let launch = ServerLaunch::this_program(&["load", "serve"])?;
    Ok(Target::Spawned { launch, serve: ServeOptions { spec, listen, threads, netns } })
}

fn address(server: &str) -> anyhow::Result<SocketAddr> {
    let found = server.to_socket_addrs();
    let found =
        found.with_context(|| format!("{server}: give host and port, as 127.0.0.1:6379"))?;
    found.into_iter().next().with_context(|| format!("{server} has no address"))
}

impl KeyValue {
    fn mix(&self) -> KeyValueMix {
        let mut mix = KeyValueMix::default();
        mix.keys = self.keys.unwrap_or(mix.keys);
        mix.value_bytes = self.value_bytes.unwrap_or(mix.value_bytes);
        mix.set_frac = self.set_frac.unwrap_or(mix.set_frac);
        mix
    }
}

impl Load {
    fn plan(&self) -> anyhow::Result<LoadPlan> {
        Ok(LoadPlan {
            profile: self.profile()?,
            warmup: Extent::Seconds(self.warmup),
            measured: self.requests.map_or(Extent::Seconds(self.seconds), Extent::Requests),
            seed: self.seed,
            even: self.even,
            client_threads: self.threads,
            connections: self.connections,
            realtime: !self.no_realtime,
            window: WindowRule { length_s: self.window, min_requests: self.window_requests },
            requests_file: self.requests_file.clone(),
            ..LoadPlan::default()
        })
    }

    fn profile(&self) -> anyhow::Result<Profile> {
        let qps = self.rate;
        let Some(to_qps) = self.to else { return Ok(Profile::Constant { qps }) };
        if let Some(at_s) = self.step {
            return Ok(Profile::Step { from_qps: qps, to_qps, at_s });
        }
        if let Some(times) = &self.ramp {
            let (start_s, end_s) = two_times("--ramp", times)?;
            let length_s = end_s - start_s;
            return Ok(Profile::Ramp { from_qps: qps, to_qps, start_s, length_s });
        }
        if let Some(times) = &self.flash_crowd {
            let (at_s, hold_s) = two_times("--flash-crowd", times)?;
            return Ok(Profile::FlashCrowd { base_qps: qps, crowd_qps: to_qps, at_s, hold_s });
        }
        let period_s = self.diurnal.context(
            "--to is the second rate of --step, --ramp, --flash-crowd or --diurnal: give one",
        )?;
        Ok(Profile::Diurnal { low_qps: qps, high_qps: to_qps, period_s })
    }
}

fn two_times(option: &str, text: &str) -> anyhow::Result<(f64, f64)> {
    let parse = |part: &str| part.trim().parse::<f64>().ok();
    let both = text.split_once(':').and_then(|(a, b)| Some((parse(a)?, parse(b)?)));
    both.with_context(|| format!("{option} {text}: give two times in seconds, as 5:20"))
}
