//! Declarations in a repository's source files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use recall_domain::context::Declaration;

/// `outline`: where a name is declared.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlaceAnswer {
    /// Relative to the repository's folder.
    pub file: String,
    pub line: u32,
    /// The keyword of the language: `struct`, `class`, `def`.
    pub kind: String,
    /// Qualified with the enclosing type, class or module, separated by a dot.
    pub symbol: String,
}

impl From<Declaration> for PlaceAnswer {
    fn from(place: Declaration) -> Self {
        Self { symbol: place.symbol(), file: place.file, line: place.line, kind: place.kind.into() }
    }
}
