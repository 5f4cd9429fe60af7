//! Writes every key of a key-value server before the load begins.

use super::{Driver, KeyValue};
use crate::{LoadError, netns};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Bytes written per round trip: a server that answers while we still write would else block on
/// us, and we on it.
const BATCH_BYTES: usize = 64 << 10;
/// What redis says of any request while it reads its data.
const LOADING: &str = "-LOADING ";
const TIMEOUT: Duration = Duration::from_secs(10);

/// Writes every key once, so that reads find something.
pub(crate) fn fill(
    address: SocketAddr,
    client_netns: Option<&str>,
    driver: &(impl KeyValue + Sync),
) -> Result<(), LoadError> {
    netns::inside(client_netns, || {
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)
            .map_err(|source| LoadError::Connect { address, source })?;
        stream.set_nodelay(true).map_err(LoadError::io("set the filling connection up"))?;
        stream
            .set_read_timeout(Some(TIMEOUT))
            .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)))
            .map_err(LoadError::io("set the filling connection up"))?;
        write_all_keys(&mut stream, driver)
    })
}

fn write_all_keys(stream: &mut TcpStream, driver: &impl KeyValue) -> Result<(), LoadError> {
    let (mut output, mut input, mut asked) = (Vec::new(), Vec::new(), 0);
    for key in 0..driver.keys() {
        driver.set(key, &mut output);
        asked += 1;
        if output.len() >= BATCH_BYTES || key + 1 == driver.keys() {
            stream.write_all(&output).map_err(LoadError::io("fill the key-value server"))?;
            output.clear();
            take_answers(stream, driver, &mut input, std::mem::take(&mut asked))?;
        }
    }
    Ok(())
}

fn take_answers(
    stream: &mut TcpStream,
    driver: &dyn Driver,
    input: &mut Vec<u8>,
    count: usize,
) -> Result<(), LoadError> {
    let refused = |why: String| LoadError::Service {
        service: "key-value",
        action: "take the keys to be read later",
        why,
    };
    let mut left = count;
    let mut chunk = [0; 16 << 10];
    while left > 0 {
        match driver.answer(input).map_err(|e| refused(e.to_string()))? {
            Some(answer) if answer.ok => {
                input.drain(..answer.length);
                left -= 1;
            }
            Some(answer) => {
                let said = String::from_utf8_lossy(&input[..answer.length]);
                let said: String = said.trim().chars().take(200).collect();
                let loads = said.starts_with(LOADING);
                return Err(if loads { LoadError::Loading { said } } else { refused(said) });
            }
            None => match stream.read(&mut chunk).map_err(|e| refused(e.to_string()))? {
                0 => return Err(refused("it closed the connection".into())),
                n => input.extend_from_slice(&chunk[..n]),
            },
        }
    }
    Ok(())
}
