//! Serves [`Kernel`] over FUSE.

use super::kernel::{Kernel, Node};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
    spawn_mount,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NO_CACHE: Duration = Duration::ZERO;

struct State {
    kernel: Kernel,
    /// Inode n is paths[n - 1].
    paths: Vec<String>,
    /// What each open file held when it was opened.
    open: BTreeMap<u64, String>,
    next_handle: u64,
}

struct Served(Mutex<State>);

pub(crate) fn mount(kernel: Kernel, at: &Path) -> BackgroundSession {
    let state = State { kernel, paths: vec![String::new()], open: BTreeMap::new(), next_handle: 1 };
    let mut config = Config::default();
    config.mount_options.extend([MountOption::FSName("quell-test".into()), MountOption::NoExec]);
    spawn_mount(Served(Mutex::new(state)), at, &config).expect("mounting FUSE as root")
}

impl State {
    fn path(&self, inode: INodeNo) -> String {
        self.paths[inode.0 as usize - 1].clone()
    }

    fn inode(&mut self, path: String) -> u64 {
        let known = self.paths.iter().position(|p| *p == path);
        let at = known.unwrap_or_else(|| {
            self.paths.push(path);
            self.paths.len() - 1
        });
        at as u64 + 1
    }

    fn attributes(&mut self, path: String) -> Option<FileAttr> {
        let is_dir = matches!(self.kernel.read(&path)?, Node::Dir(_));
        Some(FileAttr {
            ino: INodeNo(self.inode(path)),
            size: 0,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_dir { FileType::Directory } else { FileType::RegularFile },
            perm: if is_dir { 0o755 } else { 0o644 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        })
    }
}

fn below(parent: &str, name: &OsStr) -> String {
    let name = name.to_str().unwrap_or("\u{fffd}");
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.0.lock().unwrap();
        let path = below(&state.path(parent), name);
        match state.attributes(path) {
            Some(attributes) => reply.entry(&NO_CACHE, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let mut state = self.0.lock().unwrap();
        let path = state.path(inode);
        match state.attributes(path) {
            Some(attributes) => reply.attr(&NO_CACHE, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    // Called for O_TRUNC, which means nothing here.
    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.getattr(request, inode, handle, reply);
    }

    // The text is fixed here: one made anew by each read would give a torn one.
    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let mut state = self.0.lock().unwrap();
        let path = state.path(inode);
        state.kernel.advance(&path);
        let Some(Node::File(text)) = state.kernel.read(&path) else {
            return reply.error(Errno::ENOENT);
        };
        let handle = state.next_handle;
        state.next_handle += 1;
        state.open.insert(handle, text);
        reply.opened(FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.0.lock().unwrap().open.remove(&handle.0);
        reply.ok();
    }

    // A reader that keeps its file open begins anew at offset 0, and then sees the present text.
    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.0.lock().unwrap();
        if offset == 0 {
            let path = state.path(inode);
            let Some(Node::File(text)) = state.kernel.read(&path) else {
                return reply.error(Errno::ENODEV);
            };
            state.open.insert(handle.0, text);
        }
        let text = state.open.get(&handle.0).map_or(&[][..], |text| text.as_bytes());
        let from = (offset as usize).min(text.len());
        let to = (from + size as usize).min(text.len());
        reply.data(&text[from..to]);
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.0.lock().unwrap();
        let path = state.path(inode);
        match state.kernel.write(&path, &String::from_utf8_lossy(data)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let mut state = self.0.lock().unwrap();
        let parent = state.path(parent);
        let path = below(&parent, name);
        match state.kernel.mkdir(&parent, &name.to_string_lossy()) {
            Ok(()) => {
                let attributes = state.attributes(path).expect("just made");
                reply.entry(&NO_CACHE, &attributes, Generation(0));
            }
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.0.lock().unwrap();
        let parent = state.path(parent);
        match state.kernel.rmdir(&parent, &name.to_string_lossy()) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut state = self.0.lock().unwrap();
        let path = state.path(inode);
        let Some(Node::Dir(entries)) = state.kernel.read(&path) else {
            return reply.error(Errno::ENOTDIR);
        };
        for (at, (name, is_dir)) in entries.into_iter().enumerate().skip(offset as usize) {
            let kind = if is_dir { FileType::Directory } else { FileType::RegularFile };
            let child = state.inode(below(&path, OsStr::new(&name)));
            if reply.add(INodeNo(child), at as u64 + 1, kind, &name) {
                break;
            }
        }
        reply.ok();
    }
}
