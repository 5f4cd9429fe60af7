//! Small files of the tree.

use crate::ResctrlError;
use quell_types::{Gap, Reading};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file and its exact text, as the restore journal keeps it: writing the text back restores
/// the setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawFile {
    /// Where.
    pub path: PathBuf,
    /// What it held.
    pub text: String,
}

pub(crate) fn read(path: &Path) -> Result<String, ResctrlError> {
    fs::read_to_string(path).map_err(|e| ResctrlError::io("read", path, e))
}

/// Writes in a single `write` call: the kernel takes each call as one whole command.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    let written = file.write(text.as_bytes())?;
    if written == text.len() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::WriteZero,
        format!("only {written} of {} bytes were taken", text.len()),
    ))
}

/// A file of `info/`: its trimmed text, or why there is none.
pub(crate) fn info_text(path: &Path) -> Reading<String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(Gap::absent(format!("this kernel has no {}", path.display())))
        }
        Err(e) => Err(Gap::failed(format!("{}: {e}", path.display()))),
    }
}

pub(crate) fn info_number(path: &Path) -> Reading<u64> {
    let text = info_text(path)?;
    text.parse().map_err(|_| not("a number", path, &text))
}

pub(crate) fn info_hex(path: &Path) -> Reading<u64> {
    let text = info_text(path)?;
    u64::from_str_radix(&text, 16).map_err(|_| not("a hexadecimal mask", path, &text))
}

pub(crate) fn info_flag(path: &Path) -> Reading<bool> {
    Ok(info_number(path)? != 0)
}

fn not(what: &str, path: &Path, text: &str) -> Gap {
    let shown: String = text.chars().take(60).collect();
    Gap::failed(format!("{}: not {what}: {shown:?}", path.display()))
}
