//! Copies of fixture trees, in which one file at a time is replaced or removed.

use std::fs;
use std::path::{Path, PathBuf};

/// The bit of a file's number that says: remove it.
const REMOVE: u16 = 1 << 15;

/// Copies of some fixture trees.
#[derive(Debug)]
pub struct Trees {
    files: Vec<File>,
}

#[derive(Debug)]
struct File {
    root: PathBuf,
    path: PathBuf,
    content: Vec<u8>,
}

impl Trees {
    /// Copies `fixtures/KIND/NAME` of every name to a temporary folder, which stays: the fuzzer
    /// ends without unwinding, and whoever started it removes its folder (`fuzz/run` does).
    ///
    /// # Panics
    /// If the fixtures cannot be copied.
    #[must_use]
    pub fn of(kind: &str, names: &[&str]) -> Self {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(kind);
        let folder = std::env::temp_dir().join(format!("quell-fuzz-{}", std::process::id()));
        let mut files = Vec::new();
        for name in names {
            copy(&fixtures.join(name), &folder.join(name), &folder.join(name), &mut files);
        }
        files.sort_by(|a, b| (&a.root, &a.path).cmp(&(&b.root, &b.path)));
        Self { files }
    }

    /// Takes the file that the first two bytes name, gives it the rest for its content (or removes
    /// it), has `read` go over its tree, and puts the file back.
    ///
    /// # Panics
    /// If the tree cannot be changed.
    pub fn damaged(&self, data: &[u8], read: impl FnOnce(&Path)) {
        let Some((number, content)) = data.split_first_chunk::<2>() else { return };
        let number = u16::from_le_bytes(*number);
        let file = &self.files[usize::from(number & !REMOVE) % self.files.len()];
        if number & REMOVE == 0 {
            fs::write(&file.path, content).expect("the tree can be written");
        } else {
            fs::remove_file(&file.path).expect("the tree can be written");
        }
        read(&file.root);
        fs::write(&file.path, &file.content).expect("the tree can be written");
    }
}

fn copy(from: &Path, to: &Path, root: &Path, files: &mut Vec<File>) {
    fs::create_dir_all(to).expect("the temporary folder can be written");
    for entry in fs::read_dir(from).expect("the fixtures are there") {
        let entry = entry.expect("the fixtures can be listed");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to, root, files);
        } else {
            let content = fs::read(&from).expect("the fixtures can be read");
            fs::write(&to, &content).expect("the temporary folder can be written");
            files.push(File { root: root.to_owned(), path: to, content });
        }
    }
}
