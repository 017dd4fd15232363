use std::fs;
use std::path::Path;

use super::*;

fn related_places(outline: &Outline, text: &str) -> Vec<String> {
    let places = outline.related(text, Asked::Unasked, 3);
    places
        .iter()
        .map(|place| format!("{}:{} {} {}", place.file, place.line, place.kind, place.symbol()))
        .collect()
}

#[test]
fn each_grammar_finds_the_declarations_of_a_file() {
    for (path, text, declared) in [
        (
            "a.rs",
            "mod m {\n impl<T> Cart<T> { fn total(&self) {} }\n}\nstruct Cart;",
            "m 1, Cart.total 2, Cart 4",
        ),
        (
            "a.ts",
            "export class Cart { total() {} }\nconst tax = () => 1;\ntype Rate = 1;",
            "Cart 1, Cart.total 1, tax 2, Rate 3",
        ),
        ("a.py", "class Cart:\n    def total(self):\n        def inner(): pass\n", "Cart 1, Cart.total 2"),
        ("a.go", "package a\ntype Cart struct{}\nfunc (c *Cart) Total() {}\n", "Cart 2, Cart.Total 3"),
        ("A.java", "class Cart {\n  int total() { return 1; }\n}", "Cart 1, Cart.total 2"),
        (
            "a.c",
            "struct cart { int n; };\nint *total(struct cart *c) { return 0; }\n#define TAX(x) x\n",
            "cart 1, total 2, TAX 3",
        ),
    ] {
        let outline = Outline::of_texts([(path, text)].into_iter());
        let found: Vec<String> =
            outline.of_file(path).iter().map(|place| format!("{} {}", place.symbol(), place.line)).collect();
        assert_eq!(found.join(", "), declared, "{path}");
    }
}

#[test]
fn a_prompt_matches_symbols_written_as_code_or_in_rare_words() {
    let mut text = "pub struct PassageCache;\nfn get_it() {}\nfn total() {}\n".to_owned();
    for number in 0..2_000 {
        text.push_str(&format!("fn other_thing{number}() {{}}\n"));
    }
    let (first, rest) = text.split_at(text.len() / 2);
    let split = first.rfind('\n').unwrap();
    let (a, b) = (&text[..split], format!("{}{rest}", &first[split..]));
    let outline = Outline::of_texts([("src/a.rs", a), ("src/b.rs", b.as_str())].into_iter());
    let cache = "src/a.rs:1 struct PassageCache";
    assert_eq!(related_places(&outline, "Why is the passage cache emptied?"), [cache]);
    assert_eq!(related_places(&outline, "rename `PassageCache`"), [cache]);
    assert_eq!(
        related_places(&outline, "call get_it first, and total()"),
        ["src/a.rs:2 fn get_it", "src/a.rs:3 fn total"]
    );
    for nothing in ["what is the total?", "get the passage, then empty this cache", "do it", ""] {
        assert!(related_places(&outline, nothing).is_empty(), "{nothing}");
    }
}

#[test]
fn ignored_foreign_linked_and_hidden_files_are_not_read() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(".gitignore", "/made/\n*_pb.py\n");
    write("src/.gitignore", "!kept_pb.py\n");
    for path in [
        "src/cart.py",
        "src/kept_pb.py",
        "src/gone_pb.py",
        "made/x.py",
        "node_modules/x.py",
        ".venv/x.py",
        "other/.git/HEAD",
        "other/x.py",
        "hidden.py",
    ] {
        write(path, "def f(): pass\n");
    }
    std::os::unix::fs::symlink(root.join("made/x.py"), root.join("link.py")).unwrap();
    let hides = |path: &Path| path.ends_with("hidden.py");
    let outline = read(&root, &Outline::default(), &hides).unwrap();
    let files: Vec<&str> = outline.files.iter().map(|file| &*file.path).collect();
    assert_eq!(files, ["src/cart.py", "src/kept_pb.py"]);
    assert_eq!(outline.coverage, Coverage::Whole);
}

#[test]
fn a_symbol_is_located_at_its_current_line() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    let file = root.join("cart.py");
    fs::write(&file, "def cart_total(): pass\n").unwrap();
    let outline = read(&root, &Outline::default(), &|_| false).unwrap();
    let now = || outline.as_now(&root, outline.related("cart_total", Asked::Unasked, 3));
    assert_eq!(now()[0].line, 1);
    fs::write(&file, "import os\n\ndef cart_total(): pass\n").unwrap();
    assert_eq!(now()[0].line, 3);
    let again = read(&root, &outline, &|_| false).unwrap();
    assert_eq!(again.of_file("cart.py")[0].line, 3);
    fs::write(&file, "import os\n").unwrap();
    assert!(now().is_empty());
}
