//! Memory traffic of a cgroup, second by second, and what reading it costs.
//!
//! `cargo run -p quell-counters --example traffic -- /sys/fs/cgroup/batch [SECONDS] [EVENT]`
//!
//! EVENT is `cache-misses` (× 64 bytes) or, to see the way of a reading where there is no PMU,
//! `page-faults` (× 4096 bytes).

use quell_counters::{Event, MemoryTraffic, Target};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let dir = words.next().ok_or("name a cgroup's folder (of cgroup v2, or v1's perf_event)")?;
    let seconds: u32 = words.next().map_or(Ok(5), |text| text.parse())?;
    let (event, bytes_each) = match words.next().as_deref() {
        None | Some("cache-misses") => (Event::CacheMisses, 64),
        Some("page-faults") => (Event::PageFaults, 4096),
        Some(other) => {
            return Err(format!("{other} is neither cache-misses nor page-faults").into());
        }
    };
    println!("counters of this PMU: {:?}", MemoryTraffic::usable());
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/online")?.parse()?;
    let target = Target::Cgroup { dir: dir.into(), cpus };
    let begun = Instant::now();
    let mut traffic = MemoryTraffic::by(event, bytes_each, &target)?;
    println!("{} descriptors, opened in {:?}", traffic.descriptors(), begun.elapsed());
    let mut last = traffic.read()?.bytes;
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        let begun = Instant::now();
        let now = traffic.read()?.bytes;
        println!("{:10.3} MB/s, read in {:?}", (now - last) as f64 / 1e6, begun.elapsed());
        last = now;
    }
    Ok(())
}
