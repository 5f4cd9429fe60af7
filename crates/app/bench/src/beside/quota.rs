//! An integer loop under steps of `cpu.max`: how much it gets done of what it does without.

use super::Ground;
use super::report::{BesideRow, Part, Rows};
use crate::folder::RunFolder;
use crate::run_groups::RunGroups;
use crate::signal::Worker;
use quell_cgroup::{BandwidthKnob, GroupKnob as _};
use quell_pressure::FeedReader;
use quell_sim::{Scene, SimBatch, SimServer, program};
use quell_types::{BatchSpec, CpuBandwidth, CpuSet, Knob, Setting};
use std::path::Path;
use std::time::{Duration, Instant};

const GROUP: &str = "loop";
const STEPS: [u32; 6] = [10, 20, 40, 60, 80, 100];
/// From a step to the begin of what is counted: a period and a half.
const SETTLE: Duration = Duration::from_millis(150);
/// Whole periods of 100 ms.
const LOOK: Duration = Duration::from_millis(1_000);
/// The loop works by then.
const BEGUN: Duration = Duration::from_secs(10);
/// Of the loop in the preset, for each step.
const SIMULATED: Duration = Duration::from_secs(10);

pub(super) fn run(ground: &Ground<'_>) -> anyhow::Result<Vec<BesideRow>> {
    let folder = RunFolder::make()?;
    let groups = RunGroups::make(folder.name(), &[GROUP])?;
    let knob = BandwidthKnob::new(groups.get(GROUP)?)
        .map_err(|gap| anyhow::anyhow!("there is no cpu.max here: {gap}"))?;
    let feed = folder.path().join("loop.feed");
    let _worker = worker(ground, &groups, &feed)?;
    let reader = FeedReader::new(feed);
    await_work(ground, &reader)?;
    let mut rows = Rows::default();
    ground.rounds(&mut rows, |rows| {
        knob.write(&Setting::Bandwidth(CpuBandwidth::unlimited()))?;
        let whole = rate(&reader)?;
        for percent in STEPS {
            knob.write(&setting(percent))?;
            rows.see(&words(percent), "% of unlimited", false, 100.0 * rate(&reader)? / whole);
        }
        Ok(())
    })?;
    Ok(rows.of(Part::Quota))
}

/// What the preset says of a figure of this part.
pub(super) fn simulated(what: &str) -> Option<f64> {
    let percent = STEPS.into_iter().find(|percent| words(*percent) == what)?;
    Some(100.0 * loop_work(Some(percent))? / loop_work(None)?)
}

fn words(percent: u32) -> String {
    format!("integer loop, cpu.max {percent} % of a CPU")
}

fn setting(percent: u32) -> Setting {
    let cpus = f64::from(percent) / 100.0;
    Setting::Bandwidth(CpuBandwidth::limited(cpus, CpuBandwidth::DEFAULT_PERIOD))
}

/// The loop in its group, bound to the second CPU.
fn worker(ground: &Ground<'_>, groups: &RunGroups, feed: &Path) -> anyhow::Result<Worker> {
    let cpu = ground.seats.second.to_string();
    let feed = feed.display().to_string();
    let words = ["cpu", "--cpus", &cpu, "--feed", &feed];
    Worker::start(&ground.options.program, &groups.doors(GROUP)?, &words)
}

fn await_work(ground: &Ground<'_>, reader: &FeedReader) -> anyhow::Result<()> {
    let end = Instant::now() + BEGUN;
    while !reader.read().is_ok_and(|feed| feed.work > 0) {
        anyhow::ensure!(Instant::now() < end, "the loop has not begun within {BEGUN:?}");
        ground.interrupt.sleep(Duration::from_millis(20))?;
    }
    Ok(())
}

/// Work a second.
fn rate(reader: &FeedReader) -> anyhow::Result<f64> {
    std::thread::sleep(SETTLE);
    let (begun, before) = (Instant::now(), reader.read()?.work);
    std::thread::sleep(LOOK);
    Ok((reader.read()?.work - before) as f64 / begun.elapsed().as_secs_f64())
}

/// Instructions of the loop in the preset; none = no limit.
fn loop_work(percent: Option<u32>) -> Option<f64> {
    let mut scene = Scene::new(quell_sim::preset(super::PRESET)?, 7);
    let spec = BatchSpec { name: GROUP.into(), links: vec![], takes_tasks: false, max_tasks: 0 };
    scene.batch = vec![SimBatch { spec, programs: vec![program("integer")?] }];
    let mut server = SimServer::new(&scene).ok()?;
    let cpus = Knob::Cpus { tenant: GROUP.into() };
    server.change_behind(&cpus, &Setting::Cpus(CpuSet::of(1))).ok()?;
    let knob = Knob::CpuBandwidth { tenant: GROUP.into() };
    if let Some(percent) = percent {
        server.change_behind(&knob, &setting(percent)).ok()?;
    }
    let done = |server: &mut SimServer| server.truth().instructions.get(&GROUP.into()).copied();
    server.advance(SETTLE);
    let before = done(&mut server)?;
    server.advance(SIMULATED);
    Some(done(&mut server)? - before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_of_the_preset_gets_the_share_that_its_quota_says() {
        for percent in STEPS {
            let share = simulated(&words(percent)).unwrap();
            assert!((share - f64::from(percent)).abs() < 2.0, "{share} for {percent}");
        }
    }
}
