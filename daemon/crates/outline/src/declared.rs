//! The names that one source file declares.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use super::Declared;
use super::language::{Language, Role};

/// The time limit for parsing a file. Broken files can exceed it.
const LONGEST: Duration = Duration::from_millis(500);
/// The maximum depth of declarations. Deeper ones are skipped.
const DEEPEST: usize = 24;
/// The maximum length of a name. Longer ones are generated.
const LONGEST_NAME: usize = 80;
/// The maximum number of declarations of a file. Files with more are generated.
const MOST: usize = 2_000;

/// The names that a text declares, in order. Empty if it cannot be parsed in time.
pub(crate) fn declared(text: &[u8], language: Language) -> Vec<Declared> {
    let Some(tree) = tree(text, language) else { return Vec::new() };
    let mut found = Vec::new();
    collect(tree.root_node(), (text, language), ("", 0), &mut found);
    if found.len() > MOST {
        return Vec::new();
    }
    found
}

fn tree(text: &[u8], language: Language) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()?).ok()?;
    let until = Instant::now() + LONGEST;
    let mut in_time = |_: &_| match Instant::now() < until {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let options = ParseOptions::new().progress_callback(&mut in_time);
    parser.parse_with_options(&mut |at, _| text.get(at..).unwrap_or_default(), None, Some(options))
}

fn collect(
    node: Node<'_>,
    (text, language): (&[u8], Language),
    (within, depth): (&str, usize),
    found: &mut Vec<Declared>,
) {
    if depth > DEEPEST || found.len() > MOST {
        return;
    }
    let mut cursor = node.walk();
    for child in node.named_children(&mut cursor) {
        let role = language.role(child.kind());
        let name = name_of(child, text);
        let mut add = |kind, name: &str| {
            let around = receiver(child, text).unwrap_or(within);
            if name.len() <= LONGEST_NAME && is_name(name) {
                let line = u32::try_from(child.start_position().row + 1).unwrap_or(u32::MAX);
                found.push(Declared { name: name.into(), kind, within: around.into(), line });
            }
        };
        match (role, name) {
            (Some(Role::Leaf(kind)), Some(name)) => add(kind, name),
            (Some(Role::Variable(kind)), Some(name)) if is_function(child) => add(kind, name),
            // A type that is only mentioned has no body.
            (Some(Role::Group(kind)), Some(name)) if child.child_by_field_name("body").is_some() => {
                add(kind, name);
                collect(child, (text, language), (name, depth + 1), found);
            }
            (Some(Role::Of), _) => {
                let of = child.child_by_field_name("type").and_then(|of| text_of(of, text));
                let of = of.map_or(within, |of| of.split('<').next().unwrap_or(of));
                collect(child, (text, language), (of, depth + 1), found);
            }
            (None, _) => collect(child, (text, language), (within, depth + 1), found),
            (Some(_), _) => {}
        }
    }
}

/// The name that a node declares. In C it is nested in the declarator.
fn name_of<'t>(node: Node<'_>, text: &'t [u8]) -> Option<&'t str> {
    if let Some(name) = node.child_by_field_name("name") {
        return text_of(name, text);
    }
    let mut inner = node.child_by_field_name("declarator")?;
    for _ in 0..DEEPEST {
        match inner.child_by_field_name("declarator") {
            Some(deeper) => inner = deeper,
            None => break,
        }
    }
    let name = text_of(inner, text)?;
    Some(name.rsplit("::").next().unwrap_or(name))
}

/// The type of a Go method.
fn receiver<'t>(node: Node<'_>, text: &'t [u8]) -> Option<&'t str> {
    let receiver = text_of(node.child_by_field_name("receiver")?, text)?;
    let of = receiver.trim_matches(['(', ')']).rsplit([' ', '*']).next()?;
    Some(of.split('[').next().unwrap_or(of))
}

fn is_function(node: Node<'_>) -> bool {
    let value = node.child_by_field_name("value");
    value.is_some_and(|value| {
        matches!(value.kind(), "arrow_function" | "function_expression" | "generator_function" | "class")
    })
}

fn text_of<'t>(node: Node<'_>, text: &'t [u8]) -> Option<&'t str> {
    std::str::from_utf8(text.get(node.byte_range())?).ok()
}

fn is_name(text: &str) -> bool {
    text.chars().next().is_some_and(|first| first.is_alphabetic() || matches!(first, '_' | '$' | '#'))
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '#' | '~'))
}
