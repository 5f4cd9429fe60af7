//! Any HTTP/1.1 server, here a tiny one.

#![allow(clippy::unwrap_used)]

mod common;

use common::plan;
use quell_service::{Bench, Controls, RunReport, Target};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Serves every connection on a thread of its own until the client leaves.
fn server(answer: &'static str, once: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream, answer, once));
        }
    });
    address
}

fn serve(mut stream: TcpStream, answer: &str, once: bool) {
    let _ = stream.set_nodelay(true);
    let Ok(copy) = stream.try_clone() else { return };
    let mut lines = BufReader::new(copy).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        assert!(first.starts_with("GET /path?q HTTP/1.1"), "{first}");
        let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        assert!(head.iter().any(|field| field.starts_with("Host: 127.0.0.1:")), "{head:?}");
        if stream.write_all(answer.as_bytes()).is_err() || once {
            return;
        }
    }
}

fn drive(address: SocketAddr) -> RunReport {
    let target = Target::Http { url: format!("http://{address}/path?q") };
    let bench = Bench::open(&target, None).unwrap();
    bench.run(&plan(200.0, 1.0), &Controls::default(), &mut |_| ()).unwrap()
}

fn assert_all_answered(run: &RunReport) {
    assert!(run.offered > 100);
    assert_eq!((run.answered, run.failed), (run.offered, 0), "{run:?}");
}

#[test]
fn lengths_and_chunks() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        let run = drive(server(answer, false));
        assert_all_answered(&run);
        assert_eq!(run.generator.reconnects, 0);
    }
}

#[test]
fn a_server_that_closes_after_each_answer() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
    let run = drive(server(answer, true));
    assert_all_answered(&run);
    assert!(run.generator.reconnects >= run.offered / 2, "{run:?}");
}

#[test]
fn errors_are_failures_and_not_fast_answers() {
    let address = server("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", false);
    let target = Target::Http { url: format!("http://{address}/path?q") };
    let bench = Bench::open(&target, None).unwrap();
    let error = bench.run(&plan(200.0, 0.5), &Controls::default(), &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("no request was answered"), "{error}");
}
