//! Key-value transactions in memory, the role of TailBench's silo: each reads a few records and
//! most write them back, as an order does in TPC-C.

use super::zipf::Ranks;
use super::{RequestSource, Service};
use crate::{Draws, LoadError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use redb::backends::InMemoryBackend;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
/// Above the store's size, so that its own cache never evicts.
const CACHE_BYTES: usize = 1 << 30;
const MAX_KEYS: usize = 64;
/// The first bytes of a record are the counter that a transaction raises.
const COUNTER_BYTES: usize = 8;

const READ: u8 = b'r';
const UPDATE: u8 = b'u';
/// First byte of a response that carries a sum.
const DONE: u8 = b'+';

/// Size of the store and mix of its transactions. With the defaults the records are about 20 MB
/// and a transaction takes some tens of microseconds to read and about a tenth of a millisecond to
/// update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StoreParams {
    /// Records.
    pub records: u32,
    /// Bytes of each.
    pub record_bytes: u32,
    /// Records that a transaction touches.
    pub keys: u32,
    /// Share of transactions that write back what they read.
    pub update_frac: f64,
    /// Exponent of Zipf's law for keys.
    pub key_exponent: f64,
    /// Seed of the records.
    pub seed: u64,
}

impl Default for StoreParams {
    fn default() -> Self {
        Self {
            records: 100_000,
            record_bytes: 128,
            keys: 24,
            update_frac: 0.5,
            key_exponent: 0.6,
            seed: 1,
        }
    }
}

/// The store.
pub struct Store {
    database: Database,
}

impl Store {
    /// Fills a new store.
    pub fn build(params: &StoreParams) -> Result<Self, LoadError> {
        check(params)?;
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = builder.create_with_backend(InMemoryBackend::new());
        let store = Self { database: database.map_err(|e| failed("open", e))? };
        store.fill(params).map_err(|e| failed("fill its records", e))?;
        Ok(store)
    }

    fn fill(&self, params: &StoreParams) -> Result<(), redb::Error> {
        let mut rng = ChaCha8Rng::seed_from_u64(params.seed);
        let mut record = vec![0u8; params.record_bytes as usize];
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(RECORDS)?;
            for key in 0..params.records {
                rng.fill(&mut record[COUNTER_BYTES..]);
                table.insert(u64::from(key), record.as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// The sum of the records' counters.
    fn read(&self, keys: &[u64]) -> Result<u64, redb::Error> {
        let table = self.database.begin_read()?.open_table(RECORDS)?;
        let mut sum = 0;
        for &key in keys {
            sum += table.get(key)?.map_or(0, |record| counter(record.value()));
        }
        Ok(sum)
    }

    /// Raises the records' counters; their sum afterwards.
    fn update(&self, keys: &[u64]) -> Result<u64, redb::Error> {
        let mut transaction = self.database.begin_write()?;
        // Nothing lives longer than the process, so nothing has to reach a disk.
        transaction.set_durability(Durability::None)?;
        let mut sum = 0;
        {
            let mut table = transaction.open_table(RECORDS)?;
            for &key in keys {
                let Some(mut record) = table.get(key)?.map(|r| r.value().to_vec()) else {
                    continue;
                };
                let raised = counter(&record).wrapping_add(1);
                record[..COUNTER_BYTES].copy_from_slice(&raised.to_le_bytes());
                table.insert(key, record.as_slice())?;
                sum += raised;
            }
        }
        transaction.commit()?;
        Ok(sum)
    }
}

impl Service for Store {
    /// The request is `r` or `u` and 8 bytes a key (little endian); the response `+` and the sum
    /// of the counters, or text that begins with `error`.
    fn serve(&self, request: &[u8], response: &mut Vec<u8>) {
        let outcome = match parse(request) {
            Some((READ, keys)) => self.read(&keys),
            Some((_, keys)) => self.update(&keys),
            None => {
                response.extend_from_slice(b"error: a request is r or u and up to 64 keys");
                return;
            }
        };
        match outcome {
            Ok(sum) => {
                response.push(DONE);
                response.extend_from_slice(&sum.to_le_bytes());
            }
            Err(error) => response.extend_from_slice(format!("error: {error}").as_bytes()),
        }
    }
}

pub(crate) fn parse(request: &[u8]) -> Option<(u8, Vec<u64>)> {
    let (&kind, keys) = request.split_first()?;
    let (keys, rest) = keys.as_chunks::<8>();
    let sound = matches!(kind, READ | UPDATE) && rest.is_empty() && keys.len() <= MAX_KEYS;
    sound.then(|| (kind, keys.iter().map(|key| u64::from_le_bytes(*key)).collect()))
}

fn counter(record: &[u8]) -> u64 {
    record.first_chunk::<COUNTER_BYTES>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn failed(action: &'static str, error: impl std::fmt::Display) -> LoadError {
    LoadError::Service { service: "store", action, why: error.to_string() }
}

fn check(params: &StoreParams) -> Result<(), LoadError> {
    let sizes = [
        ("records", params.records, 1, 50_000_000),
        ("record_bytes", params.record_bytes, COUNTER_BYTES as u32, 65_536),
        ("keys", params.keys, 1, MAX_KEYS as u32),
    ];
    for (name, value, least, most) in sizes {
        if !(least..=most).contains(&value) {
            return Err(LoadError::option(name, format!("must be {least} to {most}, is {value}")));
        }
    }
    if !(0.0..=1.0).contains(&params.update_frac) {
        return Err(LoadError::option("update_frac", "must be 0 to 1"));
    }
    Ok(())
}

/// Transactions on keys drawn by Zipf's law.
pub(crate) struct Transactions {
    ranks: Ranks,
    keys: u32,
    records: u32,
    update_frac: f64,
}

impl Transactions {
    pub(crate) fn new(params: &StoreParams) -> Result<Self, LoadError> {
        check(params)?;
        let ranks = Ranks::new("records", params.records, params.key_exponent)?;
        let StoreParams { keys, records, update_frac, .. } = *params;
        Ok(Self { ranks, keys, records, update_frac })
    }
}

/// Odd, so multiplying by it permutes the 32-bit numbers.
const SCATTER: u32 = 0x9E37_79B1;

impl RequestSource for Transactions {
    fn request(&mut self, draws: &mut Draws, out: &mut Vec<u8>) {
        out.push(if draws.chance(0, self.update_frac) { UPDATE } else { READ });
        for _ in 0..self.keys {
            // Popular keys shall not lie side by side, or one page would hold them all.
            let key = self.ranks.draw(draws.rng()).wrapping_mul(SCATTER) % self.records;
            out.extend_from_slice(&u64::from(key).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static SMALL: LazyLock<Store> = LazyLock::new(|| {
        Store::build(&StoreParams { records: 1000, ..StoreParams::default() }).unwrap()
    });

    fn ask(kind: u8, keys: &[u64]) -> Vec<u8> {
        let mut request = vec![kind];
        keys.iter().for_each(|key| request.extend_from_slice(&key.to_le_bytes()));
        let mut response = Vec::new();
        SMALL.serve(&request, &mut response);
        response
    }

    fn sum(response: &[u8]) -> u64 {
        assert_eq!(response[0], DONE, "{}", String::from_utf8_lossy(response));
        u64::from_le_bytes(response[1..].try_into().unwrap())
    }

    #[test]
    fn concurrent_transactions_lose_no_update() {
        let keys = [900, 901, 902];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| drop(ask(UPDATE, &keys))));
            }
        });
        assert_eq!(sum(&ask(READ, &keys)), 3 * 4 * 50);
    }

    #[test]
    fn even_transactions_write_equally_often_in_each_window() {
        let spread = |is_even| {
            let mut transactions = Transactions::new(&StoreParams::default()).unwrap();
            let mut draws = Draws::new(1, 0, is_even);
            let mut writes = || {
                let mut out = Vec::new();
                transactions.request(&mut draws, &mut out);
                out[0] == UPDATE
            };
            let counts: Vec<_> = (0..50).map(|_| (0..40).filter(|_| writes()).count()).collect();
            counts.iter().max().unwrap() - counts.iter().min().unwrap()
        };
        assert!(spread(true) <= 3, "{}", spread(true));
        assert!(spread(false) > 8, "{}", spread(false));
    }

    #[test]
    fn absent_keys_count_as_nothing() {
        assert_eq!(sum(&ask(UPDATE, &[1 << 40])), 0);
        assert_eq!(sum(&ask(READ, &[1 << 40])), 0);
    }

    #[test]
    fn memory_does_not_grow_with_updates() {
        let params = StoreParams { records: 2_000, ..StoreParams::default() };
        let store = Store::build(&params).unwrap();
        let pages = |store: &Store| {
            let write = store.database.begin_write().unwrap();
            let stats = write.stats().unwrap();
            stats.allocated_pages()
        };
        let update = |count: u64| {
            (0..count).try_for_each(|i| store.update(&[i % 2000]).map(|_| ())).unwrap();
        };
        update(300);
        let before = pages(&store);
        update(3000);
        let after = pages(&store);
        assert!(after < 2 * before, "{before} pages before, {after} after");
    }

    #[test]
    fn sizes_are_checked() {
        for bad in [
            StoreParams { records: 0, ..StoreParams::default() },
            StoreParams { record_bytes: 7, ..StoreParams::default() },
            StoreParams { update_frac: 1.5, ..StoreParams::default() },
        ] {
            assert!(matches!(Store::build(&bad), Err(LoadError::Option { .. })), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_request_is_answered(request in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut response = Vec::new();
            SMALL.serve(&request, &mut response);
            prop_assert!(!response.is_empty());
        }
    }
}
