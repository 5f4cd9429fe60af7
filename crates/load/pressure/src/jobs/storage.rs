//! Kernels that work on storage.

use super::{Jobs, job};
use crate::kernel::{Scratch, StorageBandwidth, StorageCapacity};
use crate::region::Region;
use crate::{Options, PressureError, Resource, room};
use std::time::Duration;

/// Bytes that a stream goes over if nothing else is asked for.
const STREAMED: u64 = 256 << 20;
/// The least that makes sense for a thread.
const LEAST: u64 = 1 << 20;

/// A file for each thread, in the folder given or the one for temporary files.
pub(super) fn files(options: &Options, threads: usize) -> Result<Jobs, PressureError> {
    let folder = options.storage.folder.clone().unwrap_or_else(std::env::temp_dir);
    let share = 1.max(threads as u64);
    let mut jobs = Jobs::default();
    let first = options.plan.at(Duration::ZERO);
    let stream = options.resource == Resource::StorageBandwidth;
    for _ in 0..threads {
        let scratch = Scratch::new(&folder)?;
        let mut room = scratch.room;
        if let (true, Some(memory)) = (scratch.in_memory, room::memory()) {
            room.free_bytes = room.free_bytes.min(memory.free_bytes);
        }
        let asked = options.storage.bytes.or(stream.then_some(STREAMED));
        let (whole, note) = room.whole("storage", asked, LEAST * share)?;
        jobs.notes.extend(note);
        let (buffer, bytes) = (Region::map(1)?, whole / share);
        jobs.jobs.push(if stream {
            job(move || StorageBandwidth::new(scratch, buffer, bytes))
        } else {
            job(move || StorageCapacity::new(scratch, buffer, bytes, first))
        });
    }
    jobs.notes.push(format!("files without a name in {}", folder.display()));
    Ok(jobs)
}
