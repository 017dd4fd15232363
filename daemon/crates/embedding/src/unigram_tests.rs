use std::path::Path;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::model_folder::Vocabulary;

#[derive(Deserialize)]
struct Golden {
    text: String,
    ids: Vec<u32>,
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/tiny-model").join(name))
        .unwrap()
}

fn tokenizer() -> Unigram {
    let json = serde_json::from_slice(&fixture("unigram.json")).unwrap();
    let Vocabulary::Unigram { pieces, scores, marks } = Vocabulary::of_unigram(&json).unwrap() else {
        panic!()
    };
    let text: String = pieces.iter().flat_map(|piece| [piece.as_str(), "\n"]).collect();
    let order = Unigram::order_of(&pieces, marks);
    Unigram::new(OwnedBytes::new(text.into_bytes()), order, scores, marks).unwrap()
}

#[test]
fn unigram_pieces_match_the_reference() {
    let tokenizer = tokenizer();
    let golden: Vec<Golden> = serde_json::from_slice(&fixture("unigram-golden.json")).unwrap();
    assert!(golden.len() > 20);
    for Golden { text, ids } in golden {
        assert_eq!(tokenizer.ids(&text, 64), ids, "{text:?}");
    }
}

proptest! {
    #[test]
    fn the_number_of_unigram_pieces_is_bounded_for_any_text(text in "\\PC{0,80}|.{0,80}", most in 2usize..40) {
        let ids = tokenizer().ids(&text, most);
        prop_assert!(ids.len() >= 2 && ids.len() <= most);
        prop_assert_eq!((ids[0], ids[ids.len() - 1]), (0, 2));
    }
}
