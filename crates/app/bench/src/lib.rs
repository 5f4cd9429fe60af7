//! The main job, measured end to end: `quell demo` and `quell bench guard`; and whether the right
//! polluter is named: `quell trial polluter`, and one who locks the bus in bursts: `quell trial bus-lock`; and the machine beside its simulated twin
//! (`quell simulate --beside-real`).
//!
//! A service under open-loop load and batch polluters from the queue share one machine. For each
//! load the service runs alone and beside the batch under each control law, interleaved; each law
//! is carried out by a `quell guard` of its own process, as a user would run it.
//!
//! * All tails are the generator's sojourn from the scheduled arrival, never the agent's meter.
//! * Batch is counted by the work it got done, as a share of the same batch alone on the machine.
//! * CPU utilisation is that of service and batch; the generator's CPU time counts as neither.
//!
//! Invariant: every group, process and file that a run makes is gone when it ends, whether it ends
//! well, with an error or by a signal; after SIGKILL, when the next one starts, or by
//! `quell restore` ([`clean_up`]).

mod agent_config;
mod batch;
mod beside;
mod cell;
mod cost;
mod crowd;
mod files;
mod folder;
mod groups;
mod guard;
mod law;
mod leftovers;
mod machine;
mod memory;
mod neighbour;
mod network;
mod options;
mod readings;
mod report;
mod run;
mod run_groups;
mod sampler;
mod service;
mod show;
mod signal;
mod sweep;
mod trial;
mod ui;

pub use batch::{Mix, Polluter};
pub use beside::{
    BESIDE_SCHEMA, BesideOptions, BesideReport, BesideRow, GuardLoad, GuardTold, Part, SearchAlone,
    beside_again, beside_real,
};
pub use law::Contender;
pub use leftovers::{DeadRun, clean_up};
pub use machine::measure_machine;
pub use options::{GuardOptions, Size};
pub use report::{
    AgentCost, BatchAlone, Candidate, DEMO_SCHEMA, DemoReport, Machine, NetworkRun, Round, Run,
    TracePoint, schemas,
};
pub use run::guard;
pub use show::{html_report, network_table, table};
pub use signal::{Cause, Quartiles, SIGNAL_SCHEMA, SignalOptions, SignalReport, SignalRow, signal};
pub use trial::{
    BUS_TRIAL_SCHEMA, BurstHarm, BusTrialOptions, BusTrialReport, Confusion, Harm, HarmControl,
    Judged, LeftOut, Medians, Program, Ratios, SearchPair, TRIAL_SCHEMA, Taken, Throttling, Trial,
    TrialOptions, TrialReport, TrialService, Turn, TurnKind, USUAL_GROUPS, bus_trial, trial,
};
pub use ui::Interrupt;
