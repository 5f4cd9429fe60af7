//! Maps whose keys are no text are written to JSON as lists of pairs.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

pub(crate) fn serialize<K, V, S>(map: &BTreeMap<K, V>, serializer: S) -> Result<S::Ok, S::Error>
where
    K: Serialize,
    V: Serialize,
    S: Serializer,
{
    serializer.collect_seq(map)
}

pub(crate) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
where
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Vec::<(K, V)>::deserialize(deserializer).map(|pairs| pairs.into_iter().collect())
}

/// The same for maps that are shared.
pub(crate) mod shared {
    pub(crate) use super::serialize;
    use serde::{Deserialize, Deserializer};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    pub(crate) fn deserialize<'de, K, V, D>(
        deserializer: D,
    ) -> Result<Arc<BTreeMap<K, V>>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        super::deserialize(deserializer).map(Arc::new)
    }
}
