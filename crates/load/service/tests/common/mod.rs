//! What the tests share. Each test file uses a part of it.
#![allow(clippy::unwrap_used)]
#![allow(dead_code, unreachable_pub)]

use quell_service::{
    Extent, LoadPlan, Profile, SearchParams, ServerLaunch, ServiceSpec, StoreParams, TopicsParams,
    WindowRule,
};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far longer than anything here takes, even on a machine that is busy compiling.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn small_search() -> ServiceSpec {
    ServiceSpec::Search(SearchParams {
        documents: 2_000,
        vocabulary: 2_000,
        words_per_document: 30,
        ..SearchParams::default()
    })
}

pub fn small_store() -> ServiceSpec {
    ServiceSpec::Store(StoreParams { records: 2_000, ..StoreParams::default() })
}

pub fn small_topics() -> ServiceSpec {
    ServiceSpec::Topics(TopicsParams { rows: 1_024, topics: 16, ..TopicsParams::default() })
}

pub fn plan(qps: f64, seconds: f64) -> LoadPlan {
    LoadPlan {
        profile: Profile::Constant { qps },
        warmup: Extent::Seconds(0.2),
        measured: Extent::Seconds(seconds),
        drain_s: 30.0,
        window: WindowRule { length_s: 0.5, min_requests: 20 },
        ..LoadPlan::default()
    }
}

/// This test program, which becomes a server when its test `server_process` is run.
pub fn this_test_as_server() -> ServerLaunch {
    ServerLaunch::this_program(&["--exact", "server_process", "--ignored", "--nocapture"]).unwrap()
}

/// A free port of the loopback interface.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A process that ends with the test.
pub struct Daemon {
    child: Child,
    pub address: SocketAddr,
}

impl Daemon {
    /// Starts a server on a free port (named by `PORT` in `args`) and waits until it listens.
    pub fn start(program: &str, args: &[&str]) -> Self {
        // Between finding a port and taking it, another test may take it: then try another.
        for _ in 0..10 {
            let port = free_port();
            let args: Vec<String> =
                args.iter().map(|arg| arg.replace("PORT", &port.to_string())).collect();
            let child = Command::new(program)
                .args(&args)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|e| panic!("{program} must be installed: {e}"));
            let mut daemon = Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)) };
            if daemon.listens() {
                return daemon;
            }
        }
        panic!("{program} does not listen");
    }

    fn listens(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if TcpStream::connect(self.address).is_ok() {
                return true;
            }
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}
