//! The declaration of a table of the file: each key once, with its type, default, limits and help.
//!
//! The parser, the checks, `recall config`, the template, the schema and `docs/config.md` are derived from it.

/// The type of values that a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    Switch,
    /// A whole number.
    Number,
    Dollars,
    Text,
    Choice(&'static [&'static str]),
    Texts,
    Choices(&'static [&'static str]),
}

/// The declaration of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared {
    /// The name with its table: `timers.batch_idle_s`.
    pub(super) name: &'static str,
    pub(super) kind: KeyKind,
    /// The doc comment.
    pub(super) help: &'static str,
    /// The minimum and the maximum.
    pub(super) limits: Option<(i64, i64)>,
}

/// A type that a setting may have.
pub(super) trait SettingType {
    const KIND: KeyKind;
    /// Limits of all keys of this type.
    const LIMITS: Option<(i64, i64)> = None;

    /// The value as text, if it is outside the limits.
    fn outside(&self, limits: (i64, i64)) -> Option<String> {
        let _ = limits;
        None
    }
}

/// A table of the file with its values.
pub(super) trait Table {
    const NAME: &'static str;
    const KEYS: &'static [Declared];

    /// The numbers outside their limits. Each message begins with the name of its key.
    fn outside(&self) -> Vec<String>;
}

/// [`Table::outside`] for one key.
pub(super) fn outside(key: &Declared, value: &impl SettingType) -> Option<String> {
    let limits = key.limits?;
    let value = value.outside(limits)?;
    Some(format!("{} is {value}; it must be {} to {}", key.name, limits.0, limits.1))
}

/// Facts about a table that do not depend on its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableFacts {
    pub(super) name: &'static str,
    pub(super) keys: &'static [Declared],
    pub(super) acceptance: Acceptance,
}

/// How much of a table is ignored because of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acceptance {
    /// Only the key, or the element of a list of texts.
    ByKey,
    /// The whole table.
    Whole,
}

impl TableFacts {
    pub(super) const fn of<T: Table>(acceptance: Acceptance) -> Self {
        Self { name: T::NAME, keys: T::KEYS, acceptance }
    }
}

impl SettingType for bool {
    const KIND: KeyKind = KeyKind::Switch;
}

impl SettingType for i64 {
    const KIND: KeyKind = KeyKind::Number;

    fn outside(&self, (least, most): (i64, i64)) -> Option<String> {
        (!(least..=most).contains(self)).then(|| self.to_string())
    }
}

impl SettingType for u32 {
    const KIND: KeyKind = KeyKind::Number;

    fn outside(&self, limits: (i64, i64)) -> Option<String> {
        i64::from(*self).outside(limits)
    }
}

impl SettingType for f64 {
    const KIND: KeyKind = KeyKind::Dollars;
    const LIMITS: Option<(i64, i64)> = Some((0, 1_000_000));

    fn outside(&self, (least, most): (i64, i64)) -> Option<String> {
        (!(least as Self..=most as Self).contains(self)).then(|| self.to_string())
    }
}

impl SettingType for Option<String> {
    const KIND: KeyKind = KeyKind::Text;
}

impl SettingType for Option<std::path::PathBuf> {
    const KIND: KeyKind = KeyKind::Text;
}

impl SettingType for Vec<String> {
    const KIND: KeyKind = KeyKind::Texts;
}

/// Declares a table: `["timers"] Timers { /// Help batch_idle_s: i64 = 300, 1..=86_400; }`. The first paragraph of a
/// doc comment is the help; later paragraphs appear only in `docs/config.md`. Fields after `with` are nested tables.
macro_rules! table {
    (
        $(#[$of_table:meta])*
        [$table:literal] $name:ident {
            $( $(#[doc = $help:literal])+ $key:ident: $type:ty = $default:expr $(, $least:literal..=$most:literal)?; )+
        }
        $( with { $( $(#[$of_inner:meta])* $inner:ident: $inner_type:ty, )+ } )?
    ) => {
        $(#[$of_table])*
        #[derive(Debug, serde::Deserialize, serde::Serialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct $name {
            $( pub(super) $key: $type, )+
            $( $( $(#[$of_inner])* pub(super) $inner: $inner_type, )+ )?
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $key: $default, )+ $( $( $inner: <$inner_type>::default(), )+ )? }
            }
        }

        impl $crate::table::Table for $name {
            const NAME: &'static str = $table;
            const KEYS: &'static [$crate::table::Declared] = &[
                $( $crate::table::Declared {
                    name: concat!($table, ".", stringify!($key)),
                    kind: <$type as $crate::table::SettingType>::KIND,
                    help: concat!($($help, "\n"),+),
                    limits: $crate::table::limits!($type $(, $least, $most)?),
                }, )+
            ];

            fn outside(&self) -> Vec<String> {
                let mut keys = Self::KEYS.iter();
                let found = [ $( keys.next().and_then(|key| $crate::table::outside(key, &self.$key)), )+ ];
                found.into_iter().flatten().collect()
            }
        }
    };
}

/// The limits of a key: its own, or those of its type.
macro_rules! limits {
    ($type:ty, $least:literal, $most:literal) => {
        Some(($least, $most))
    };
    ($type:ty) => {
        <$type as $crate::table::SettingType>::LIMITS
    };
}

/// Declares the names from which a key chooses: `Unit { Session = "session", Turn = "turn" }`.
macro_rules! choices {
    ($(#[$of_enum:meta])* $name:ident { $($variant:ident = $written:literal,)+ }) => {
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
        pub(super) enum $name {
            $( #[serde(rename = $written)] $variant, )+
        }

        impl $crate::table::SettingType for $name {
            const KIND: $crate::table::KeyKind = $crate::table::KeyKind::Choice(&[$($written),+]);
        }

        impl $crate::table::SettingType for Vec<$name> {
            const KIND: $crate::table::KeyKind = $crate::table::KeyKind::Choices(&[$($written),+]);
        }
    };
}

pub(crate) use {choices, limits, table};
