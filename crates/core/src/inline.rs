//! A table of a scenario as a flag has it: its keys, with commas between them.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Reads the keys, or says in part of a sentence what is wrong with them.
pub(crate) fn read<T: DeserializeOwned>(keys: &str) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Inline<T> {
        table: T,
    }
    let inline = toml::from_str::<Inline<T>>(&format!("table = {{ {keys} }}"));
    inline.map(|inline| inline.table).map_err(|e| e.message().replace('\n', "; "))
}
