//! Shows the programs about waits who stands already.
//!
//! They learn from changes: a task is woken, gets a CPU, is put off one. Who was ready before they were attached, and
//! never has its turn since somebody starves it, makes none. So each task is looked at once (an iterator, since
//! Linux 5.8); without that such a one is seen when it has run for the first time.

use crate::error::{EbpfError, chain};
use crate::objects;
use aya::programs::Iter;
use aya::{Btf, Ebpf};
use std::io;

const NAME: &str = "quell_wait_begun";
const OVER: &str = "task";

/// Loads the program; whether there is one.
pub(crate) fn load(ebpf: &mut Ebpf, btf: &Btf) -> bool {
    let program: Option<&mut Iter> = objects::program(ebpf, NAME).ok();
    program.is_some_and(|program| program.load(OVER, btf).is_ok())
}

/// Lets it look at each task.
pub(crate) fn look(ebpf: &mut Ebpf) -> Result<(), EbpfError> {
    let program: &mut Iter = objects::program(ebpf, NAME)?;
    let link = program.attach().and_then(|id| program.take_link(id)).map_err(failed)?;
    let mut tasks = link.into_file().map_err(failed)?;
    // It prints nothing; to read is to let it look.
    io::copy(&mut tasks, &mut io::sink()).map_err(failed)?;
    Ok(())
}

fn failed(why: impl std::error::Error) -> EbpfError {
    EbpfError::Attach { program: NAME, place: OVER.into(), why: chain(&why) }
}
