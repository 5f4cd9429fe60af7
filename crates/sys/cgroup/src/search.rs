//! Walking group trees.

use crate::layout::{Layout, Version};
use std::path::Path;

/// Groups nest no deeper than this in practice; a bound keeps a hostile tree from costing much.
const MAX_DEPTH: usize = 24;

/// Names of a directory's sub-directories (groups below a group), in no order.
pub(crate) fn subdirs(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let name = |entry: std::fs::DirEntry| {
        entry.file_type().ok().filter(std::fs::FileType::is_dir)?;
        entry.file_name().into_string().ok()
    };
    entries.filter_map(|entry| name(entry.ok()?)).collect()
}

/// Calls `visit` with `dir` and every group below it, parents first.
pub(crate) fn walk(dir: &Path, visit: &mut dyn FnMut(&Path)) {
    walk_to(dir, MAX_DEPTH, visit);
}

fn walk_to(dir: &Path, depth: usize, visit: &mut dyn FnMut(&Path)) {
    visit(dir);
    if depth > 0 {
        for name in subdirs(dir) {
            walk_to(&dir.join(name), depth - 1, visit);
        }
    }
}

/// The numbers in a list of processes; none if it cannot be read. Process 0 (one outside our pid
/// namespace) is left out.
pub(crate) fn numbers(path: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).filter(|&pid| pid > 0).collect()
}

/// Whether a process is in `dir` or below it.
pub(crate) fn any_process(dir: &Path) -> bool {
    !numbers(&dir.join("cgroup.procs")).is_empty()
        || subdirs(dir).iter().any(|name| any_process(&dir.join(name)))
}

/// The path (with leading `/`) of the first group of this name: systemd's own tree first, then the
/// others; the shallowest in each.
pub(crate) fn by_name(layout: &Layout, name: &str) -> Option<String> {
    let mut trees: Vec<_> = layout.hierarchies().iter().collect();
    trees.sort_by_key(|h| (h.version != Version::V2, h.name.as_deref() != Some("systemd")));
    trees.iter().find_map(|hierarchy| {
        let mut found: Option<String> = None;
        walk(&hierarchy.dir, &mut |dir| {
            let here = dir.file_name().is_some_and(|last| last == name);
            let inner = dir.strip_prefix(&hierarchy.dir).ok().filter(|_| here);
            let path = inner.map(|inner| format!("/{}", inner.display()));
            let depth = |path: &str| path.matches('/').count();
            if let Some(path) = path.filter(|p| found.as_ref().is_none_or(|f| depth(p) < depth(f)))
            {
                found = Some(path);
            }
        });
        found
    })
}
