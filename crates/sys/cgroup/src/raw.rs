//! The text of knob files, saved before the first write and brought back byte for byte.
//!
//! The kernel refuses some writes until others are done: a quota over what the group above has, a
//! burst over the quota, a weight in the idle class, CPUs of an exclusive sibling. Rather than
//! knowing every such order, [`restore_raw`] goes over the files that still differ again and again
//! as long as that helps, and where nothing moves any more loosens what stands in the way (quota to
//! "no limit", exclusivity off), whose saved text comes back in the next rounds.
//!
//! One text cannot come back: in cgroup v2 kernels refuse (ENOSPC) to empty the `cpuset.cpus` or
//! `cpuset.mems` of a group that has processes, though a new group's are empty, which means "what
//! the group above has". Such a file gets just that, written out, and counts as restored as long
//! as the group may use no less than the one above ([`RestoreReport::equivalent`]).
//!
//! One text is not brought back whole: of `cgroup.subtree_control` only those controllers are taken
//! out again that Quell puts in, and none that somebody else uses by now ([`RestoreReport::in_use`]).

use crate::{CgroupError, controllers, file};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file and its text.
pub type RawFile = (PathBuf, String);

/// How long a saved freezer state may take to come about.
const FREEZER_DEADLINE: Duration = Duration::from_millis(500);

/// What became of a restore.
#[derive(Debug, Default)]
pub struct RestoreReport {
    /// Files written and read back.
    pub restored: Vec<PathBuf>,
    /// Files that were as saved already.
    pub unchanged: Vec<PathBuf>,
    /// Files whose group no longer exists: there is nothing to bring back.
    pub gone: Vec<PathBuf>,
    /// Files whose saved text the kernel refuses, and which hold another of the same effect: an
    /// empty CPU or node list of a v2 group that has processes. Unlike the empty list, what stands
    /// there does not follow later changes of the group above.
    pub equivalent: Vec<PathBuf>,
    /// Lists of controllers in which some were left that others use by now, and who does.
    pub in_use: Vec<(PathBuf, String)>,
    /// Files that are not as saved, with the last error.
    pub failed: Vec<(PathBuf, CgroupError)>,
}

impl RestoreReport {
    /// Whether every group that still exists is as saved, but for what others use by now.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }
}

/// The present text of these files.
pub(crate) fn save(paths: impl IntoIterator<Item = PathBuf>) -> Result<Vec<RawFile>, CgroupError> {
    paths.into_iter().map(|path| file::read(&path).map(|text| (path, text))).collect()
}

pub(crate) fn malformed(path: &Path, text: &str) -> CgroupError {
    CgroupError::Malformed { path: path.to_owned(), text: text.chars().take(80).collect() }
}

pub(crate) fn verify<T: PartialEq + Debug>(
    path: &Path,
    wanted: &T,
    found: &T,
) -> Result<(), CgroupError> {
    if wanted == found {
        return Ok(());
    }
    Err(CgroupError::ReadBack {
        path: path.to_owned(),
        wanted: format!("{wanted:?}"),
        found: format!("{found:?}"),
    })
}

/// Brings saved texts back, those of several groups together, and reads each back. Only files that
/// differ are written. Of several texts of one file the first, oldest one counts.
#[must_use]
pub fn restore_raw(files: &[RawFile]) -> RestoreReport {
    let files = &oldest(files);
    let mut report = RestoreReport::default();
    let mut open: Vec<&RawFile> = Vec::new();
    for saved in files {
        match stands(saved) {
            Ok(true) => report.unchanged.push(saved.0.clone()),
            Ok(false) => open.push(saved),
            // So is a file whose controller was disabled by the group's owner.
            Err(error) if error.is_gone() || matches!(error, CgroupError::Unsupported { .. }) => {
                report.gone.push(saved.0.clone());
            }
            Err(error) => report.failed.push((saved.0.clone(), error)),
        }
    }
    let mut loosened = false;
    let mut wrote = Vec::new();
    // Each round brings one file further at least, unless another program works against it.
    let mut rounds = 2 * files.len() + 8;
    while !open.is_empty() {
        let before = texts(files);
        let errors = round(&open, &mut wrote);
        // A write may undo another (leaving the idle class resets the weight): look at all anew.
        open = differing(files);
        rounds = rounds.saturating_sub(1);
        if open.is_empty() || texts(files) != before && rounds > 0 {
            continue;
        }
        if std::mem::replace(&mut loosened, true) || rounds == 0 {
            give_up(&mut report, &open, &errors);
            break;
        }
        loosen(files);
        open = differing(files);
    }
    settle(&mut report, files, wrote);
    report
}

/// Nothing moves any more: what is still not as saved has failed, unless its effect is the same.
fn give_up(report: &mut RestoreReport, open: &[&RawFile], errors: &[(PathBuf, String)]) {
    for saved in open {
        if has_effect_of(saved) {
            report.equivalent.push(saved.0.clone());
        } else if let Some(why) = in_use(saved) {
            report.in_use.push((saved.0.clone(), why));
        } else {
            report.failed.push(reason(saved, errors));
        }
    }
}

/// Who uses the controllers that would have to be disabled, if somebody does.
fn in_use((path, saved): &RawFile) -> Option<String> {
    (name(path) == controllers::FILE).then(|| controllers::all_used(path, saved))?
}

/// Whether an empty list was saved and the group may use all that the one above may.
fn has_effect_of(saved: &RawFile) -> bool {
    let Some(above) = effective_above(saved) else { return false };
    let own = saved.0.with_file_name(format!("{}.effective", name(&saved.0)));
    file::read(&own).is_ok_and(|own| own == above)
}

/// For a v2 list that was saved empty: what the group above may use.
fn effective_above((path, saved): &RawFile) -> Option<String> {
    let list = name(path);
    if !matches!(list, "cpuset.cpus" | "cpuset.mems") || !saved.trim().is_empty() {
        return None;
    }
    let above = path.parent()?.parent()?;
    // v1 has no such file.
    file::read(&above.join(format!("{list}.effective"))).ok()
}

fn oldest(files: &[RawFile]) -> Vec<RawFile> {
    let mut seen = BTreeSet::new();
    files.iter().filter(|(path, _)| seen.insert(path.clone())).cloned().collect()
}

fn differing(files: &[RawFile]) -> Vec<&RawFile> {
    files.iter().filter(|saved| matches!(stands(saved), Ok(false))).collect()
}

fn texts(files: &[RawFile]) -> Vec<Option<String>> {
    files.iter().map(|(path, _)| file::read(path).ok()).collect()
}

/// One attempt on each file; the errors by path.
fn round(open: &[&RawFile], wrote: &mut Vec<PathBuf>) -> Vec<(PathBuf, String)> {
    let mut errors = Vec::new();
    for saved in open {
        match bring_back(saved) {
            Ok(()) => wrote.push(saved.0.clone()),
            Err(error) => errors.push((saved.0.clone(), error.to_string())),
        }
    }
    errors
}

fn reason(saved: &RawFile, errors: &[(PathBuf, String)]) -> (PathBuf, CgroupError) {
    let path = saved.0.clone();
    let refused = errors.iter().rev().find(|(at, _)| *at == path).map(|(_, why)| why.clone());
    let found = || file::read(&saved.0).unwrap_or_default();
    let error = match refused {
        Some(why) => CgroupError::Refused { path: path.clone(), why },
        None => {
            CgroupError::ReadBack { path: path.clone(), wanted: saved.1.clone(), found: found() }
        }
    };
    (path, error)
}

/// Sorts out what was written and what has gone meanwhile.
fn settle(report: &mut RestoreReport, files: &[RawFile], mut wrote: Vec<PathBuf>) {
    wrote.sort();
    wrote.dedup();
    let failed = |path: &PathBuf| report.failed.iter().any(|(at, _)| at == path);
    let equivalent = &report.equivalent;
    let in_use = |path: &PathBuf| report.in_use.iter().any(|(at, _)| at == path);
    let exact = |path: &PathBuf| !failed(path) && !equivalent.contains(path) && !in_use(path);
    report.restored = wrote.into_iter().filter(exact).collect();
    for (path, _) in files {
        let gone = matches!(file::read(path), Err(error) if error.is_gone());
        if gone && !report.gone.contains(path) {
            report.gone.push(path.clone());
        }
    }
    let gone = &report.gone;
    report.restored.retain(|path| !gone.contains(path));
    report.unchanged.retain(|path| !gone.contains(path) && !report.restored.contains(path));
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Whether the file holds the saved text.
fn stands((path, saved): &RawFile) -> Result<bool, CgroupError> {
    let now = file::read(path)?;
    Ok(match name(path) {
        // The reason in "root invalid (reason)" is the kernel's, but "root" must be valid again.
        "cpuset.cpus.partition" if saved.contains("invalid") => {
            first_word(&now) == first_word(saved)
        }
        controllers::FILE => controllers::added(&now, saved).is_empty(),
        "freezer.state" => own_freezer(path, &now) == saved.trim(),
        _ => now == *saved,
    })
}

fn own_freezer(path: &Path, state: &str) -> &'static str {
    let own = path.with_file_name("freezer.self_freezing");
    let freezing = match file::read(&own) {
        Ok(text) => text.trim() == "1",
        Err(_) => state.trim() != "THAWED",
    };
    // The state above may hide the own one; FREEZING counts once it is complete.
    match (freezing, state.trim()) {
        (false, _) => "THAWED",
        (true, "FROZEN") => "FROZEN",
        (true, _) => "FREEZING",
    }
}

fn first_word(text: &str) -> &str {
    text.split_ascii_whitespace().next().unwrap_or_default()
}

/// Writes the saved text in the form that the file takes.
fn bring_back(saved: &RawFile) -> Result<(), CgroupError> {
    let (path, text) = saved;
    match name(path) {
        controllers::FILE => controllers::disable_added(path, text),
        "cpuset.cpus.partition" => partition(path, first_word(text)),
        "freezer.state" => freezer(saved),
        // An empty list is written as a line: a write of nothing never reaches the kernel.
        _ if text.is_empty() => file::write(path, "\n"),
        _ => file::write(path, text),
    }
}

/// An invalid partition is only looked at anew after it was a plain member again.
fn partition(path: &Path, state: &str) -> Result<(), CgroupError> {
    if file::read(path)?.contains("invalid") {
        file::write(path, "member")?;
    }
    file::write(path, state)
}

fn freezer(saved: &RawFile) -> Result<(), CgroupError> {
    let start = Instant::now();
    loop {
        file::write(&saved.0, saved.1.trim())?;
        if stands(saved)? || start.elapsed() > FREEZER_DEADLINE {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes away what may make the kernel refuse the saved texts. Errors do not matter: the next round
/// tells.
fn loosen(files: &[RawFile]) {
    for saved in files {
        let path = &saved.0;
        if let Some(all) = effective_above(saved)
            && matches!(stands(saved), Ok(false))
        {
            let _ = file::write(path, &all);
        }
        let looser = match name(path) {
            "cpu.cfs_quota_us" => "-1",
            "cpuset.cpu_exclusive" => "0",
            "cpuset.cpus.partition" => "member",
            _ => continue,
        };
        let _ = file::write(path, looser);
    }
}
