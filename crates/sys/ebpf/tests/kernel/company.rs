//! Beside whom a victim's work is done, against what the kernel itself says of who ran.

use crate::common::{Cgroup, Process, eventually, in_groups};
use crate::contention::{
    A, B, VICTIM, about, at_work, group, kernel_says, one_at_a_time, spinner, stood, watching,
    while_running,
};
use quell_ebpf::Company;
use quell_types::Beside;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::time::Duration;

/// A task that sends a line on a TCP connection again and again, on these CPUs.
fn sender(group: &Cgroup, cpus: &str, port: u16) -> Process {
    let script = format!(
        "ulimit -t 30; exec 3>/dev/tcp/127.0.0.1/{port}; while :; do echo line >&3 || exit; done"
    );
    Process::start(&mut in_groups(&[group], &["taskset", "-c", cpus, "bash", "-c", &script]))
}

/// Reads what comes on one connection, until it ends.
fn sink() -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let read = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    };
    (port, std::thread::spawn(read))
}

#[test]
fn what_a_victim_does_is_put_down_to_who_has_the_other_cpu() {
    let _one = one_at_a_time();
    let (victim, a, b) = (group("beside-v"), group("beside-a"), group("beside-b"));
    let probes = watching(&[(&victim, VICTIM), (&a, A), (&b, B)]);
    let (port, sink) = sink();
    let sender = sender(&victim, "0", port);
    let spinners = [spinner(&a, "1"), spinner(&b, "1")];
    [&victim, &a, &b].into_iter().for_each(|group| at_work(group, 1));
    let company = || stood(&probes).company.unwrap();
    let before = company();
    let (_, ran) = while_running(&probes, &[&a, &b, &victim], 1_500_000_000);
    let after = company();
    let beside = |of: fn(&Company) -> Option<Beside>| {
        let (old, new) = (of(&before).unwrap_or_default(), of(&after).unwrap_or_default());
        ((new.cpu_ns - old.cpu_ns) as f64, (new.sends - old.sends) as f64)
    };
    let (beside_a, sent_a) = beside(|c| c.slots.get(&A).copied());
    let (beside_b, sent_b) = beside(|c| c.slots.get(&B).copied());
    let rest = beside(|c| Some(c.others)).0 + beside(|c| Some(c.nobody)).0;
    // Each moment of it is beside whatever each other CPU does.
    let others = std::thread::available_parallelism().unwrap().get() as f64 - 1.0;
    about("beside everybody", beside_a + beside_b + rest, others * ran[2][0]);
    about("beside A and B", beside_a / beside_b, ran[0][0] / ran[1][0]);
    assert!(sent_a > 1000.0 && sent_b > 1000.0, "{sent_a} and {sent_b} sends");
    about("sends a second", sent_a / beside_a, sent_b / beside_b);
    let own = beside(|c| c.slots.get(&VICTIM).copied()).0;
    assert!(own < 0.02 * beside_a, "it is no company of its own: {own}");
    drop((sender, spinners));
    sink.join().unwrap();
}

/// A task that computes for about a millisecond and then sends a line, again and again, on these CPUs.
fn worker(group: &Cgroup, cpus: &str, port: u16) -> Process {
    let script = format!(
        "ulimit -t 30; exec 3>/dev/tcp/127.0.0.1/{port}; \
         while :; do for ((i = 0; i < 500; i++)); do :; done; echo line >&3 || exit; done"
    );
    Process::start(&mut in_groups(&[group], &["taskset", "-c", cpus, "bash", "-c", &script]))
}

/// A task that reads lines from this port, on these CPUs.
fn reader(group: &Cgroup, cpus: &str, port: u16) -> Process {
    let script = format!(
        "ulimit -t 30; exec 3</dev/tcp/127.0.0.1/{port}; while read -r line <&3; do :; done"
    );
    Process::start(&mut in_groups(&[group], &["taskset", "-c", cpus, "bash", "-c", &script]))
}

/// Hands on what comes on one connection to another one, both to be made to these ports.
fn relay() -> (u16, u16, std::thread::JoinHandle<()>) {
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (from, to) = (listen(), listen());
    let ports = [&from, &to].map(|listener| listener.local_addr().unwrap().port());
    let hand_on = move || {
        let ((mut from, _), (mut to, _)) = (from.accept().unwrap(), to.accept().unwrap());
        let _ = std::io::copy(&mut from, &mut to);
    };
    (ports[0], ports[1], std::thread::spawn(hand_on))
}

#[test]
fn who_wakes_in_the_midst_of_a_request_is_no_company_for_it() {
    let _one = one_at_a_time();
    let (victim, a) = (group("midst-v"), group("midst-a"));
    let probes = watching(&[(&victim, VICTIM), (&a, A)]);
    let (from, to, relay) = relay();
    let worker = worker(&victim, "0", from);
    let reader = reader(&a, "1", to);
    [&victim, &a].into_iter().for_each(|group| at_work(group, 1));
    let company = || stood(&probes).company.unwrap();
    let (before, said) = (company(), kernel_says(&victim)[0]);
    let (_, ran) = while_running(&probes, &[&victim, &a], 1_000_000_000);
    let after = company();
    let all = |company: &Company| {
        let sum = |of: fn(&Beside) -> u64| {
            company.slots.values().chain([&company.others, &company.nobody]).map(of).sum::<u64>()
        };
        [sum(|beside| beside.cpu_ns), sum(|beside| beside.sends)].map(|sum| sum as f64)
    };
    let of_a = |company: &Company| company.slots.get(&A).copied().unwrap_or_default();
    // It answers each of the victim's sends, so it runs in the midst of its requests and sleeps when
    // the next one begins; the victim never rests.
    let beside_a = (of_a(&after).cpu_ns - of_a(&before).cpu_ns) as f64;
    assert!(ran[1][0] > 5e6, "A ran for {} ns only", ran[1][0]);
    // Where others keep it from its CPU it is late, and there when the next one begins: then it has both, what
    // such requests cost and their sends. All of its time, and next to no sends in it, is what counting by
    // turns gives.
    let [cpu_ns, sends] = [0, 1].map(|i| all(&after)[i] - all(&before)[i]);
    assert!(sends > 50.0, "{sends} sends");
    let sends_a = (of_a(&after).sends - of_a(&before).sends) as f64;
    if sends_a >= 20.0 {
        let cost = (beside_a / sends_a) / (cpu_ns / sends);
        assert!(
            (0.5..2.0).contains(&cost),
            "beside A a send costs {cost} times what it usually does"
        );
    } else {
        assert!(beside_a < 0.75 * ran[1][0], "{beside_a} ns beside A, which ran for {}", ran[1][0]);
    }
    let others = std::thread::available_parallelism().unwrap().get() as f64 - 1.0;
    // What goes on is counted when a CPU turns next: one that somebody else has for long is behind for a while.
    eventually("all of its time", || {
        let told = all(&company())[0] - all(&before)[0];
        let whole = others * (kernel_says(&victim)[0] - said) as f64;
        let is_all = (0.85..1.15).contains(&(told / whole));
        if is_all { Ok(()) } else { Err(format!("beside everybody: {told} of {whole} ns")) }
    });
    drop((worker, reader));
    relay.join().unwrap();
}

/// A service that takes a while for the first of the answers to each line that it reads, and next to none for the others.
fn in_rows(group: &Cgroup, cpus: &str, port: u16) -> Process {
    let script = format!(
        "ulimit -t 30; exec 3<>/dev/tcp/127.0.0.1/{port}; \
         while read -r line <&3; do for ((i = 0; i < 1000; i++)); do :; done; \
         for ((i = 0; i < {ROW}; i++)); do echo answer >&3 || exit; done; done"
    );
    Process::start(&mut in_groups(&[group], &["taskset", "-c", cpus, "bash", "-c", &script]))
}

/// Answers to a line, and lines.
const ROW: usize = 20;
const ROWS: usize = 250;

/// From this CPU asks whoever comes so many lines, with pauses in which others have the CPU.
fn asks(listener: &TcpListener, cpu: usize, rows: usize) {
    let mut only = rustix::thread::CpuSet::new();
    only.set(cpu);
    rustix::thread::sched_setaffinity(None, &only).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let answers = BufReader::new(stream.try_clone().unwrap());
    let mut answers = answers.lines();
    for _ in 0..rows {
        stream.write_all(b"ask\n").unwrap();
        answers.by_ref().take(ROW).for_each(|line| drop(line.unwrap()));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn answers_in_a_row_are_one_stretch_and_cost_alike_beside_all() {
    let _one = one_at_a_time();
    let (victim, a) = (group("row-v"), group("row-a"));
    let probes = watching(&[(&victim, VICTIM), (&a, A)]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = in_rows(&victim, "0", listener.local_addr().unwrap().port());
    let spinner = spinner(&a, "1");
    at_work(&a, 1);
    let company = || stood(&probes).company.unwrap();
    let before = company();
    std::thread::spawn(move || asks(&listener, 1, ROWS)).join().unwrap();
    let after = company();
    let of = |company: &Company, a: bool| {
        let slot = company.slots.get(&A).copied().unwrap_or_default();
        let of = |of: fn(&Beside) -> u64| match a {
            true => of(&slot) as f64,
            false => (of(&company.others) + of(&company.nobody)) as f64,
        };
        [of(|beside| beside.cpu_ns), of(|beside| beside.sends)]
    };
    let [beside_a, beside_rest] =
        [true, false].map(|a| [0, 1].map(|i| of(&after, a)[i] - of(&before, a)[i]));
    let [sends_a, sends_rest] = [beside_a, beside_rest].map(|[_, sends]| sends);
    assert!(sends_a + sends_rest > 5.0 * ROW as f64, "{sends_a} and {sends_rest} sends");
    // Who has the other CPU while answers go out has it by their doing: it is no company for them but by rows.
    if sends_a.min(sends_rest) >= ROW as f64 / 2.0 {
        let [a, rest] = [beside_a, beside_rest].map(|[ns, sends]| ns / sends);
        assert!((0.5..2.0).contains(&(a / rest)), "{a} ns a send beside A, else {rest}");
    }
    drop((service, spinner));
}
