//! The meter's latency against a client's: first byte of the answer less request written, less
//! the median of an idle echo. A program of its own, so that the crate's other tests do not run
//! beside it.
//!
//! The echo looks for its next line without sleeping. One that slept would have to be woken, as
//! redis is: that wait is part of what a service takes, which the meter counts, and where idle
//! CPUs halt it is some 60 us. So the echo stands for the way alone.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[allow(dead_code, reason = "shared with the other tests")]
#[path = "../kernel/common.rs"]
mod common;

use common::{Client, Redis, probes};
use quell_ebpf::{Probes, ServiceKey};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const ROUNDS: usize = 8;
const REQUESTS: usize = 1500;
const GAP: Duration = Duration::from_micros(700);
/// Every 25th request takes redis some milliseconds, the others some hundred microseconds.
const SLOW_EVERY: usize = 25;
const SLOW_STEPS: u32 = 150_000;
const FAST_STEPS: u32 = 25_000;

/// Makes this thread run as soon as it is woken, whatever else runs: an echo that is idle on a
/// busy machine, and a client that adds no waits of its own.
fn hurry() {
    let priority = libc::sched_param { sched_priority: 10 };
    // SAFETY: the struct lives through the call, which changes nothing but this thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
    assert_eq!(result, 0, "real-time: {}", std::io::Error::last_os_error());
}

/// Answers every read with one line, awake from the connection's first byte to its end.
fn echo_awake(mut stream: TcpStream) {
    hurry();
    stream.set_nodelay(true).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut buffer = [0; 64];
    loop {
        match stream.read(&mut buffer) {
            Ok(1..) => stream.write_all(b"ok\n").unwrap(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            _ => return,
        }
    }
}

/// An echo for one connection at a time.
fn start_echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(|stream| echo_awake(stream.unwrap())));
    address
}

/// Nanoseconds from before the request is written to after the answer's first byte is read.
fn timed(client: &mut Client, request: &[u8], answer: usize) -> f64 {
    let start = Instant::now();
    let mut got = client.ask(request, 1);
    let elapsed = start.elapsed();
    got.extend(client.answer(answer - 1));
    assert!(got.ends_with(b"\n"));
    elapsed.as_nanos() as f64
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1]
}

fn ask_all(requests: &[&[u8]], client: &mut Client, answer: usize) -> Vec<f64> {
    let mut times: Vec<f64> = Vec::new();
    for request in requests {
        std::thread::sleep(GAP);
        times.push(timed(client, request, answer));
    }
    times.sort_by(f64::total_cmp);
    times
}

/// A request that keeps redis busy for so many steps.
fn busy(steps: u32) -> Vec<u8> {
    let script = format!("local s=0 for i=1,{steps} do s=s+i end return 1");
    format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\n", script.len()).into_bytes()
}

/// Client's and meter's p50 and p99 in microseconds over one round.
fn round(probes: &mut Probes, redis: &Redis, echo: SocketAddr) -> [(f64, f64); 2] {
    let (slow, fast) = (busy(SLOW_STEPS), busy(FAST_STEPS));
    let pick = |i: usize| if i.is_multiple_of(SLOW_EVERY) { &slow[..] } else { &fast[..] };
    let requests: Vec<&[u8]> = (0..REQUESTS).map(pick).collect();
    let before = probes.read_requests(0).unwrap();
    let (idle, seen) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            hurry();
            let idle = ask_all(&[b"echo\n".as_slice(); 500], &mut Client::connect(echo), 3);
            (idle, ask_all(&requests, &mut redis.client("127.0.0.1"), 4))
        });
        thread.join().unwrap()
    });
    let after = probes.read_requests(0).unwrap();
    assert_eq!(after.requests - before.requests, REQUESTS as u64);
    let metered = after.latency_ns.unwrap().since(&before.latency_ns.unwrap());
    let way = quantile(&idle, 0.5);
    [0.5, 0.99].map(|share| {
        let client = (quantile(&seen, share) - way).max(0.0);
        (client / 1e3, metered.quantile(share).unwrap() / 1e3)
    })
}

#[test]
fn median_and_tail_are_those_that_a_client_sees() {
    let redis = Redis::start(&[]);
    let echo = start_echo();
    let mut probes = probes();
    probes.set_service(0, ServiceKey::ports(&[redis.port])).unwrap();
    let mut figures = Vec::new();
    for _ in 0..ROUNDS {
        let [median, tail] = round(&mut probes, &redis, echo);
        let near = |(client, meter): (f64, f64)| {
            (client - meter).abs() <= (0.1 * client.max(meter)).max(50.0)
        };
        let line = format!(
            "p50 client {:.1} meter {:.1} us, p99 client {:.1} meter {:.1} us",
            median.0, median.1, tail.0, tail.1
        );
        println!("{line}");
        figures.push(line);
        if near(median) && near(tail) {
            return;
        }
    }
    panic!("the meter and the client disagree in every round: {figures:#?}");
}
