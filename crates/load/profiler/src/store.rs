//! Profiles that are kept: an SQLite file that the command line and the agent share.
//!
//! A profile is kept by the workload's name and the machine's fingerprint: figures of one machine say
//! little of another, so each machine has its own. A newer one takes the older one's place.
//!
//! The file carries its kind (`application_id`) and version (`user_version`). What is not a store, or
//! is one of a later version, is refused and left as it is; so is one whose content cannot be read.

use crate::{Machine, Profile, ToleratedAt};
use quell_pressure::Resource;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior,
    params,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// "Qupr": tells a store from other people's databases.
const KIND: i64 = 0x5175_7072;
/// Of the tables below.
const VERSION: i64 = 1;
const TABLES: &str = "
CREATE TABLE profiles (
  name TEXT NOT NULL, machine TEXT NOT NULL,
  measured_unix_ms INTEGER NOT NULL,
  profile TEXT NOT NULL,
  PRIMARY KEY (name, machine)
) STRICT;
";
/// Others write for moments only.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest name.
const LONGEST_NAME: usize = 200;

/// Why the store did not do as asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The file cannot be used.
    #[error("the profile store {path}: {why}")]
    File {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// SQLite refused.
    #[error("the profile store {path}: {source}")]
    Sqlite {
        /// The file.
        path: String,
        /// Why.
        source: rusqlite::Error,
    },
    /// A profile in it cannot be read.
    #[error(
        "the profile of {name} in {path} cannot be read ({why}): remove it with `quell profile \
         remove {name}` and measure anew"
    )]
    Unreadable {
        /// Whose.
        name: String,
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// A name that cannot be kept.
    #[error("{0:?} is no name for a profile: give 1 to 200 characters, none of them control ones")]
    Name(String),
}

/// A profile with what it is kept by.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The workload's name.
    pub name: String,
    /// When it was measured, in milliseconds since 1970.
    pub measured_unix_ms: u64,
    /// The profile.
    pub profile: Profile,
}

/// The store.
#[derive(Debug)]
pub struct ProfileStore {
    db: Connection,
    path: PathBuf,
}

impl ProfileStore {
    /// Opens the store, or makes it.
    ///
    /// # Errors
    /// The file cannot be made, is something else's, or of a later version; then it is untouched.
    pub fn open(path: &Path) -> Result<ProfileStore, StoreError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| file(path, e.to_string()))?;
        }
        let db = Connection::open(path).map_err(|e| file(path, e.to_string()))?;
        let store = ProfileStore { db, path: path.to_owned() };
        store.begin()?;
        Ok(store)
    }

    /// Opens a store that is there, for reading and writing; none if there is no such file.
    ///
    /// # Errors
    /// As [`ProfileStore::open`].
    pub fn find(path: &Path) -> Result<Option<ProfileStore>, StoreError> {
        if !path.exists() {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags).map_err(|e| file(path, e.to_string()))?;
        let store = ProfileStore { db, path: path.to_owned() };
        store.begin()?;
        Ok(Some(store))
    }

    /// Looks whose file it is before anything is written to it.
    fn begin(&self) -> Result<(), StoreError> {
        self.db.busy_timeout(PATIENCE).map_err(|e| self.refused(e))?;
        let kind = self.pragma("application_id")?;
        let version = self.pragma("user_version")?;
        let tables = "SELECT count(*) FROM sqlite_schema";
        let tables: i64 =
            self.db.query_row(tables, [], |row| row.get(0)).map_err(|e| self.refused(e))?;
        match (kind, version) {
            (0, 0) if tables == 0 => self.make(),
            (KIND, VERSION) => Ok(()),
            (KIND, later) => Err(file(
                &self.path,
                format!(
                    "it is of version {later}, this program knows {VERSION}: use the newer one"
                ),
            )),
            _ => {
                Err(file(&self.path, "it is a database of something else; it is left alone".into()))
            }
        }
    }

    fn make(&self) -> Result<(), StoreError> {
        let all = format!(
            "PRAGMA journal_mode = WAL; BEGIN IMMEDIATE;
             PRAGMA application_id = {KIND}; PRAGMA user_version = {VERSION};
             {TABLES} COMMIT;"
        );
        match self.db.execute_batch(&all) {
            Ok(()) => Ok(()),
            // Another process made it at this very moment.
            Err(_) if self.pragma("application_id")? == KIND => {
                let _ = self.db.execute_batch("ROLLBACK");
                Ok(())
            }
            Err(e) => Err(self.refused(e)),
        }
    }

    fn pragma(&self, name: &str) -> Result<i64, StoreError> {
        self.db.pragma_query_value(None, name, |row| row.get(0)).map_err(|e| self.refused(e))
    }

    fn refused(&self, source: rusqlite::Error) -> StoreError {
        let code = source.sqlite_error_code();
        if matches!(code, Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)) {
            let why =
                format!("it is no store, or damaged ({source}); it is left as it is: move it away");
            return file(&self.path, why);
        }
        StoreError::Sqlite { path: self.path.display().to_string(), source }
    }

    /// Keeps a profile, in the place of an older one of the same name and machine.
    ///
    /// # Errors
    /// The name cannot be kept, or the file cannot be written.
    pub fn put(&self, name: &str, profile: &Profile, now_unix_ms: u64) -> Result<(), StoreError> {
        let fits = !name.is_empty() && name.chars().count() <= LONGEST_NAME;
        if !fits || name.chars().any(char::is_control) {
            return Err(StoreError::Name(name.chars().take(80).collect()));
        }
        let text = serde_json::to_string(profile).map_err(|e| file(&self.path, e.to_string()))?;
        let sql = "INSERT OR REPLACE INTO profiles (name, machine, measured_unix_ms, profile)
                   VALUES (?1, ?2, ?3, ?4)";
        let ms = i64::try_from(now_unix_ms).unwrap_or(i64::MAX);
        let row = params![name, profile.machine.fingerprint, ms, text];
        self.db.execute(sql, row).map(drop).map_err(|e| self.refused(e))
    }

    /// The profile of this name on the machine of this fingerprint.
    ///
    /// # Errors
    /// The file or the profile cannot be read.
    pub fn get(&self, name: &str, machine: &str) -> Result<Option<Kept>, StoreError> {
        let sql = "SELECT name, measured_unix_ms, profile FROM profiles
                   WHERE name = ?1 AND machine = ?2";
        let found = self.db.query_row(sql, [name, machine], raw).optional();
        found.map_err(|e| self.refused(e))?.map(|raw| self.kept(raw)).transpose()
    }

    /// All profiles, by name and machine; what cannot be read is told beside them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list(&self) -> Result<(Vec<Kept>, Vec<StoreError>), StoreError> {
        let sql = "SELECT name, measured_unix_ms, profile FROM profiles ORDER BY name, machine";
        let mut statement = self.db.prepare(sql).map_err(|e| self.refused(e))?;
        let rows = statement.query_map([], raw).map_err(|e| self.refused(e))?;
        let (mut kept, mut lost) = (Vec::new(), Vec::new());
        for row in rows {
            match self.kept(row.map_err(|e| self.refused(e))?) {
                Ok(one) => kept.push(one),
                Err(why) => lost.push(why),
            }
        }
        Ok((kept, lost))
    }

    /// Removes what is kept under a name: of one machine, or of all. Answers how many.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remove(&self, name: &str, machine: Option<&str>) -> Result<usize, StoreError> {
        let sql = "DELETE FROM profiles WHERE name = ?1 AND (?2 IS NULL OR machine = ?2)";
        self.db.execute(sql, params![name, machine]).map_err(|e| self.refused(e))
    }

    /// Takes what was found of a service in use into its profile; without one begins one.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn refresh(
        &self,
        name: &str,
        machine: &Machine,
        found: &BTreeMap<Resource, ToleratedAt>,
    ) -> Result<(), StoreError> {
        let behaviour = TransactionBehavior::Immediate;
        let change =
            Transaction::new_unchecked(&self.db, behaviour).map_err(|e| self.refused(e))?;
        let now_unix_ms = found.values().map(|one| one.unix_ms).max().unwrap_or(0);
        let kept = self.get(name, &machine.fingerprint)?;
        let measured = kept.as_ref().map_or(now_unix_ms, |kept| kept.measured_unix_ms);
        let mut profile = kept.map_or_else(|| Profile::begun(name, machine), |kept| kept.profile);
        for (resource, one) in found {
            profile.tolerated.insert(*resource, one.tolerated);
            profile.refreshed_unix_ms.insert(*resource, one.unix_ms);
        }
        self.put(name, &profile, measured)?;
        change.commit().map_err(|e| self.refused(e))
    }

    fn kept(&self, (name, ms, text): Raw) -> Result<Kept, StoreError> {
        let unreadable = |why: serde_json::Error| StoreError::Unreadable {
            name: name.clone(),
            path: self.path.display().to_string(),
            why: why.to_string(),
        };
        let profile = serde_json::from_str(&text).map_err(unreadable)?;
        Ok(Kept { measured_unix_ms: u64::try_from(ms).unwrap_or(0), profile, name })
    }
}

/// Name, time, JSON.
type Raw = (String, i64, String);

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn file(path: &Path, why: String) -> StoreError {
    StoreError::File { path: path.display().to_string(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Estimate;

    const PRESSED: Resource = Resource::MemoryBandwidth;

    fn machine(fingerprint: &str) -> Machine {
        Machine { fingerprint: fingerprint.to_owned(), ..Machine::default() }
    }

    fn profile(fingerprint: &str, tolerates: f64) -> Profile {
        let mut profile = Profile::begun("web", &machine(fingerprint));
        profile.tolerated.insert(PRESSED, Estimate::exact(tolerates));
        profile
    }

    fn store() -> (tempfile::TempDir, ProfileStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = ProfileStore::open(&folder.path().join("state/profiles.sqlite")).unwrap();
        (folder, store)
    }

    fn tolerated(store: &ProfileStore, fingerprint: &str) -> f64 {
        store.get("web", fingerprint).unwrap().unwrap().profile.tolerated[&PRESSED].value
    }

    #[test]
    fn each_machine_has_its_own_and_the_newer_one_stays() {
        let (_folder, store) = store();
        store.put("web", &profile("a", 10.0), 5).unwrap();
        store.put("web", &profile("b", 20.0), 6).unwrap();
        store.put("web", &profile("a", 30.0), 7).unwrap();
        assert_eq!((tolerated(&store, "a"), tolerated(&store, "b")), (30.0, 20.0));
        assert_eq!(store.get("web", "c").unwrap(), None);
        let (kept, lost) = store.list().unwrap();
        let times: Vec<u64> = kept.iter().map(|k| k.measured_unix_ms).collect();
        assert_eq!((times, lost.len()), (vec![7, 6], 0));
        assert_eq!(store.remove("web", Some("a")).unwrap(), 1);
        assert_eq!(store.remove("web", None).unwrap(), 1);
        assert_eq!(store.remove("web", None).unwrap(), 0);
        assert!(matches!(store.put("a\nb", &profile("a", 1.0), 8), Err(StoreError::Name(_))));
    }

    #[test]
    fn what_is_written_is_there_for_the_next_to_open_it() {
        let (folder, store) = store();
        store.put("web", &profile("a", 10.0), 5).unwrap();
        let path = folder.path().join("state/profiles.sqlite");
        let other = ProfileStore::find(&path).unwrap().unwrap();
        assert_eq!(tolerated(&other, "a"), 10.0);
        assert!(ProfileStore::find(&folder.path().join("none")).unwrap().is_none());
    }

    #[test]
    fn a_refreshed_profile_keeps_the_rest() {
        let (_folder, store) = store();
        let mut first = profile("a", 10.0);
        first.caused.insert(PRESSED, Estimate::exact(7.0));
        store.put("web", &first, 5).unwrap();
        let found = |value: f64, unix_ms: u64| {
            let tolerated = Estimate::exact(value);
            BTreeMap::from([(PRESSED, ToleratedAt { tolerated, unix_ms })])
        };
        store.refresh("web", &machine("a"), &found(44.0, 9)).unwrap();
        let kept = store.get("web", "a").unwrap().unwrap();
        assert_eq!((kept.measured_unix_ms, tolerated(&store, "a")), (5, 44.0));
        assert_eq!(kept.profile.caused, first.caused);
        assert_eq!(kept.profile.refreshed_unix_ms[&PRESSED], 9);
        store.refresh("mail", &machine("a"), &found(50.0, 11)).unwrap();
        let begun = store.get("mail", "a").unwrap().unwrap();
        assert_eq!((begun.measured_unix_ms, begun.profile.workload.name.as_str()), (11, "mail"));
    }

    #[test]
    fn what_is_no_store_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        let content = "something of somebody's, long enough to be no database header".repeat(20);
        std::fs::write(&text, &content).unwrap();
        let error = ProfileStore::open(&text).unwrap_err().to_string();
        assert!(error.contains("no store") && error.contains("left as it is"), "{error}");
        assert_eq!(std::fs::read_to_string(&text).unwrap(), content);
        let foreign = folder.path().join("foreign");
        Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
        let before = std::fs::read(&foreign).unwrap();
        let error = ProfileStore::open(&foreign).unwrap_err().to_string();
        assert!(error.contains("something else"), "{error}");
        assert_eq!(std::fs::read(&foreign).unwrap(), before);
    }

    #[test]
    fn a_later_version_and_a_damaged_profile_are_told() {
        let (folder, store) = store();
        store.put("web", &profile("a", 10.0), 5).unwrap();
        store.put("mail", &profile("a", 10.0), 5).unwrap();
        store.db.execute("UPDATE profiles SET profile = '{' WHERE name = 'web'", []).unwrap();
        let error = store.get("web", "a").unwrap_err().to_string();
        assert!(error.contains("quell profile remove web"), "{error}");
        let (kept, lost) = store.list().unwrap();
        assert_eq!((kept.len(), lost.len()), (1, 1), "the others are there");
        store.db.pragma_update(None, "user_version", 9).unwrap();
        let path = folder.path().join("state/profiles.sqlite");
        let error = ProfileStore::open(&path).unwrap_err().to_string();
        assert!(error.contains("version 9"), "{error}");
    }
}
