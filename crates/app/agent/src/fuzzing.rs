//! Private readers, for the fuzz targets.

use crate::metrics::Metrics;
use crate::serve;
use std::io::{self, Cursor, Read, Write};

/// What the metrics page answers to these bytes.
///
/// # Errors
/// Never: nothing here can fail to be read or written.
pub fn metrics_answer(request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = Memory { request: Cursor::new(request), answer: Vec::new() };
    serve::answer(&mut stream, &Metrics::new())?;
    Ok(stream.answer)
}

struct Memory<'a> {
    request: Cursor<&'a [u8]>,
    answer: Vec<u8>,
}

impl Read for Memory<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.request.read(buffer)
    }
}

impl Write for Memory<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
