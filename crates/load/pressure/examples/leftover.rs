//! What is left in a core's own caches of lines that were read there some milliseconds before, while nothing but
//! a loop on registers had the CPU since.
//!
//! `cargo run --release -p quell-pressure --example leftover -- [CPU [MS…]]`
//!
//! Where a core is the guest's own they are still there. Where its other thread works for somebody else, who
//! fills the second cache, they go whoever has the CPU: so what the kernel's gauge says of who drives out what
//! (`crates/core/model/src/blame/gauge/kept.rs`) is compared among groups. Printed are the tenth, fifth and ninth
//! tenth of a hundred tries, in ns for one of sixteen lines; beside them what reads of memory take that nobody
//! has touched for long.

use quell_pressure::bind_all;
use quell_types::CpuSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Lines that are read, each in a page of its own.
const LINES: usize = 16;
const WORDS_IN_PAGE: usize = 4096 / 8;
const WORDS_IN_LINE: usize = 8;
const PLACES: usize = 64;
const TRIES: usize = 100;
/// Larger than any cache that one CPU has a good part of.
const FAR_PAGES: usize = 64 << 8;

/// Reads a line of each page, each read waiting for the one before; ns for one.
fn read(words: &[u64], pages: usize, stride: usize, place: usize) -> f64 {
    let begun = Instant::now();
    let mut zero = 0;
    for line in 0..pages {
        let at = line * stride * WORDS_IN_PAGE + place * WORDS_IN_LINE;
        // All words are 0, which the compiler must not know.
        zero = black_box(words[at + zero as usize]);
    }
    begun.elapsed().as_secs_f64() * 1e9 / pages as f64
}

/// What lines take that were read so long before, try by try.
fn left_after(words: &[u64], wait: Duration) -> Vec<f64> {
    let one = |number: usize| {
        let place = 1 + number % (PLACES - 1);
        read(words, LINES, 1, place);
        let begun = Instant::now();
        while begun.elapsed() < wait {
            black_box(number);
        }
        read(words, LINES, 1, place)
    };
    (0..TRIES).map(one).collect()
}

/// What lines take that are far apart and were not read for long.
fn far(words: &[u64]) -> Vec<f64> {
    let stride = FAR_PAGES / LINES;
    let pages = |number: usize| &words[(number * 37 % stride) * WORDS_IN_PAGE..];
    (0..TRIES).map(|number| read(pages(number), LINES - 1, stride, number % PLACES)).collect()
}

fn print(what: &str, mut ns: Vec<f64>) {
    ns.sort_by(f64::total_cmp);
    let [low, mid, high] = [1, 5, 9].map(|tenth| ns[tenth * ns.len() / 10]);
    println!("{what:>16}: {low:4.0} {mid:4.0} {high:4.0} ns");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1);
    let cpu: u32 = numbers.next().map_or(Ok(0), |text| text.parse())?;
    let waits: Vec<f64> = numbers.map(|text| text.parse()).collect::<Result<_, _>>()?;
    bind_all(&CpuSet::from_iter([cpu]))?;
    let mut words = vec![1_u64; FAR_PAGES * WORDS_IN_PAGE];
    words.fill(0);
    print("memory", far(&words));
    for ms in if waits.is_empty() { vec![0.1, 1.0, 4.0] } else { waits } {
        let wait = Duration::try_from_secs_f64(1e-3 * ms)?.min(Duration::from_millis(100));
        print(&format!("after {ms} ms"), left_after(&words, wait));
    }
    Ok(())
}
