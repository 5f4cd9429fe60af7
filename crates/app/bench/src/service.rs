//! The guarded service: a process of its own, in its group from its first instruction.

use crate::groups::Groups;
use quell_service::{
    Bench, Controls, Extent, LoadError, LoadPlan, Profile, RunReport, ServeOptions, ServerLaunch,
    ServiceSpec, Target, Window, WindowRule,
};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Enters the groups whose `cgroup.procs` stand before `--`, then becomes the program: sockets
/// belong to the group in which they are made.
pub(crate) const ENTER: &str = r#"while [ "$1" != -- ]; do echo $$ > "$1" || exit 125; shift; done
shift; exec "$@""#;

/// The program, run in the service's group; `load serve` and the options follow.
pub(crate) fn launch(program: &Path, groups: &Groups) -> ServerLaunch {
    launch_in(program, &groups.service_doors())
}

/// The same in any group, by its `cgroup.procs` files.
fn launch_in(program: &Path, doors: &[PathBuf]) -> ServerLaunch {
    let mut args = vec!["-c".to_owned(), ENTER.to_owned(), "quell-service".to_owned()];
    args.extend(doors.iter().map(|door| door.display().to_string()));
    args.extend(["--".to_owned(), program.display().to_string()]);
    args.extend(["load".to_owned(), "serve".to_owned()]);
    ServerLaunch { program: "/bin/sh".into(), args, env: Vec::new() }
}

/// Starts the service on loopback with one worker a CPU.
pub(crate) fn start(
    program: &Path,
    groups: &Groups,
    spec: &ServiceSpec,
) -> Result<Bench, LoadError> {
    start_in(program, &groups.service_doors(), spec)
}

/// The same in any group, by its `cgroup.procs` files.
pub(crate) fn start_in(
    program: &Path,
    doors: &[PathBuf],
    spec: &ServiceSpec,
) -> Result<Bench, LoadError> {
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let serve = ServeOptions { spec: spec.clone(), listen, threads: 0, netns: None };
    Bench::open(&Target::Spawned { launch: launch_in(program, doors), serve }, None)
}

/// One load on it.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) profile: Profile,
    pub(crate) warmup_s: f64,
    pub(crate) seconds: f64,
    pub(crate) window: WindowRule,
    pub(crate) seed: u64,
}

impl Load {
    pub(crate) fn plan(&self) -> LoadPlan {
        LoadPlan {
            profile: self.profile.clone(),
            warmup: Extent::Seconds(self.warmup_s),
            measured: Extent::Seconds(self.seconds),
            window: self.window,
            seed: self.seed,
            drain_s: 1.0,
            ..LoadPlan::default()
        }
    }

    pub(crate) fn run(
        &self,
        bench: &Bench,
        controls: &Controls,
        on_window: &mut dyn FnMut(&Window),
    ) -> Result<RunReport, LoadError> {
        bench.run(&self.plan(), controls, on_window)
    }
}
