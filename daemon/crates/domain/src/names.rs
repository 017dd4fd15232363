//! The names of an enum's variants in the database, in answers and in filters.

/// Names every variant of an enum of this crate or another. A variant without a name does not compile.
#[macro_export]
macro_rules! named {
    ($type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            pub const ALL: [(Self, &'static str); [$($name),+].len()] = [$((Self::$variant, $name)),+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().find(|(_, known)| *known == name).map(|(value, _)| *value)
            }
        }
    };
}
pub(crate) use named;
