//! The languages whose grammars are built in, and what declares a name in each.

use std::path::Path;

/// A language with a grammar. The build decides which ones are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    C,
    Cpp,
    Go,
    Java,
    Python,
    Rust,
    /// Also JavaScript, and both with JSX.
    TypeScript,
}

/// The role of a syntax tree's node in an outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It declares a name, and its inside is skipped.
    Leaf(&'static str),
    /// It declares a name, and its contents belong to that name.
    Group(&'static str),
    /// Its contents belong to the name, which is declared elsewhere.
    Of,
    /// It declares a name if its value is a function.
    Variable(&'static str),
    /// Its inside is skipped.
    Closed,
}

impl Language {
    /// The language of a file by its extension. `None` without a grammar.
    pub fn of(path: &str) -> Option<Self> {
        let ending = Path::new(path).extension()?.to_str()?;
        let language = match ending {
            "c" => Self::C,
            // Without the larger grammar a header is read as C.
            "h" if cfg!(feature = "cpp") => Self::Cpp,
            "h" => Self::C,
            "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" => Self::Cpp,
            "go" => Self::Go,
            "java" => Self::Java,
            "py" | "pyi" => Self::Python,
            "rs" => Self::Rust,
            "ts" | "tsx" | "mts" | "cts" | "js" | "jsx" | "mjs" | "cjs" => Self::TypeScript,
            _ => return None,
        };
        language.grammar().is_some().then_some(language)
    }

    pub(crate) fn grammar(self) -> Option<tree_sitter::Language> {
        match self {
            #[cfg(feature = "c")]
            Self::C => Some(tree_sitter_c::LANGUAGE.into()),
            #[cfg(feature = "cpp")]
            Self::Cpp => Some(tree_sitter_cpp::LANGUAGE.into()),
            #[cfg(feature = "go")]
            Self::Go => Some(tree_sitter_go::LANGUAGE.into()),
            #[cfg(feature = "java")]
            Self::Java => Some(tree_sitter_java::LANGUAGE.into()),
            #[cfg(feature = "python")]
            Self::Python => Some(tree_sitter_python::LANGUAGE.into()),
            #[cfg(feature = "rust")]
            Self::Rust => Some(tree_sitter_rust::LANGUAGE.into()),
            // This one reads the other three forms as well, except casts in angle brackets.
            #[cfg(feature = "typescript")]
            Self::TypeScript => Some(tree_sitter_typescript::LANGUAGE_TSX.into()),
            #[allow(unreachable_patterns)]
            _ => None,
        }
    }

    /// The role of a node of this kind. `None` if only its inside counts.
    pub(crate) fn role(self, node: &str) -> Option<Role> {
        let roles: &[(&str, Role)] = match self {
            Self::Rust => &RUST,
            Self::TypeScript => &TYPESCRIPT,
            Self::Python => &PYTHON,
            Self::Go => &GO,
            Self::Java => &JAVA,
            Self::C | Self::Cpp => &C,
        };
        roles.iter().find(|(kind, _)| *kind == node).map(|(_, role)| *role)
    }
}

use Role::{Closed, Group, Leaf, Of, Variable};

const RUST: [(&str, Role); 13] = [
    ("function_item", Leaf("fn")),
    ("function_signature_item", Leaf("fn")),
    ("struct_item", Leaf("struct")),
    ("enum_item", Leaf("enum")),
    ("union_item", Leaf("union")),
    ("trait_item", Group("trait")),
    ("type_item", Leaf("type")),
    ("mod_item", Group("mod")),
    ("const_item", Leaf("const")),
    ("static_item", Leaf("static")),
    ("macro_definition", Leaf("macro")),
    ("macro_invocation", Closed),
    ("impl_item", Of),
];

const TYPESCRIPT: [(&str, Role); 12] = [
    ("function_declaration", Leaf("function")),
    ("generator_function_declaration", Leaf("function")),
    ("function_signature", Leaf("function")),
    ("class_declaration", Group("class")),
    ("abstract_class_declaration", Group("class")),
    ("interface_declaration", Leaf("interface")),
    ("type_alias_declaration", Leaf("type")),
    ("enum_declaration", Leaf("enum")),
    ("internal_module", Group("namespace")),
    ("method_definition", Leaf("method")),
    ("variable_declarator", Variable("const")),
    ("expression_statement", Closed),
];

const PYTHON: [(&str, Role); 3] = [
    ("function_definition", Leaf("def")),
    ("class_definition", Group("class")),
    ("expression_statement", Closed),
];

const GO: [(&str, Role); 5] = [
    ("function_declaration", Leaf("func")),
    ("method_declaration", Leaf("func")),
    ("type_spec", Leaf("type")),
    ("type_alias", Leaf("type")),
    ("const_spec", Leaf("const")),
];

const JAVA: [(&str, Role); 7] = [
    ("class_declaration", Group("class")),
    ("interface_declaration", Group("interface")),
    ("enum_declaration", Group("enum")),
    ("record_declaration", Group("record")),
    ("annotation_type_declaration", Leaf("@interface")),
    ("method_declaration", Leaf("method")),
    ("constructor_declaration", Closed),
];

const C: [(&str, Role); 9] = [
    ("function_definition", Leaf("function")),
    ("struct_specifier", Group("struct")),
    ("union_specifier", Group("union")),
    ("enum_specifier", Leaf("enum")),
    ("class_specifier", Group("class")),
    ("namespace_definition", Group("namespace")),
    ("type_definition", Leaf("typedef")),
    ("preproc_function_def", Leaf("macro")),
    ("parameter_list", Closed),
];
