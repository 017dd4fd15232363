use std::fs;

use super::*;
use crate::{Embedder, Model};

/// The folder of test models, made by `make.py` in it.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/tiny-model")
}

#[derive(Deserialize)]
struct Golden {
    text: String,
    ids: Vec<u32>,
    /// Signed bytes in hexadecimal digits.
    vector: String,
}

/// Compares a model with the values of the reference implementation.
fn check(model: &Model, golden: &str) {
    let golden: Vec<Golden> = serde_json::from_slice(&fs::read(fixtures().join(golden)).unwrap()).unwrap();
    assert_eq!(golden.len(), 20);
    for Golden { text, ids, vector } in golden {
        assert_eq!(model.ids(&text), ids, "{text:?}");
        let digits = vector.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
        let expected: Vec<f32> =
            digits.map(|two| f32::from(u8::from_str_radix(two, 16).unwrap().cast_signed())).collect();
        let found = model.vector(&text);
        let dot: f32 = expected.iter().zip(&found).map(|(a, b)| a * b).sum();
        let length = expected.iter().map(|value| value * value).sum::<f32>().sqrt();
        // The reference has weights of 32 bits, and here they have 8.
        assert!(dot / length > 0.995, "{text:?}: {}", dot / length);
    }
}

#[test]
fn the_tiny_model_matches_the_reference_implementation() {
    check(&Model::open(&fixtures()).unwrap(), "golden.json");
}

#[test]
fn minilm_matches_the_reference_implementation() {
    let Some(folder) = std::env::var_os("RECALL_MINILM") else {
        return eprintln!("skipped: RECALL_MINILM does not name the folder of all-MiniLM-L6-v2");
    };
    check(&Model::open(Path::new(&folder)).unwrap(), "minilm-golden.json");
}

/// A copy of the tiny model with one file changed, and the expected refusal.
#[track_caller]
fn refused(name: &str, change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors", "vocab.txt"] {
        fs::copy(fixtures().join(file), folder.path().join(file)).unwrap();
    }
    match change(fs::read(folder.path().join(name)).unwrap_or_default()) {
        Some(bytes) => fs::write(folder.path().join(name), bytes).unwrap(),
        None => fs::remove_file(folder.path().join(name)).unwrap(),
    }
    let error = Model::open(folder.path()).err().expect("it is refused");
    assert!(error.to_string().contains(expected), "{error}");
    assert!(!error.hint().is_empty());
}

fn replaced(from: &str, to: &str) -> impl FnOnce(Vec<u8>) -> Option<Vec<u8>> {
    move |bytes| Some(String::from_utf8(bytes).unwrap().replace(from, to).into_bytes())
}

#[test]
fn an_invalid_model_folder_is_rejected_with_the_reason() {
    refused("config.json", |_| None, "config.json is missing in");
    refused("model.safetensors", |_| None, "model.safetensors is missing in");
    refused("vocab.txt", |_| None, "vocab.txt or tokenizer.json is missing");
    refused("config.json", replaced("\"bert\"", "\"gpt2\""), "type is \"gpt2\"");
    refused("config.json", replaced("\"gelu\"", "\"relu\""), "activation is \"relu\"");
    refused("config.json", replaced("\"hidden_size\": 16", "\"hidden_size\": 32"), "has the sizes");
    refused("config.json", replaced("\"num_attention_heads\": 2", "\"num_attention_heads\": 3"), "3 heads");
    refused(
        "config.json",
        replaced("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"),
        "encoder.layer.2.",
    );
    refused("vocab.txt", |bytes| Some([bytes, b"one\nmore\n".repeat(9)].concat()), "a piece has the number");
    refused("vocab.txt", replaced("[CLS]", "[CSL]"), "the vocabulary has no [CLS]");
    refused(
        "model.safetensors",
        |bytes| Some(bytes[..bytes.len() / 2].to_vec()),
        "run this model: model.safetensors: ",
    );
    refused("model.safetensors", |_| Some(vec![0xff; 64]), "run this model: model.safetensors: ");
}

#[test]
fn a_model_with_nan_weights_is_rejected() {
    let spoil = |mut bytes: Vec<u8>| {
        let header = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        bytes[header + 8..]
            .chunks_exact_mut(4)
            .for_each(|word| word.copy_from_slice(&f32::NAN.to_le_bytes()));
        Some(bytes)
    };
    refused("model.safetensors", spoil, "its vectors are not numbers");
}

#[test]
fn a_models_identity_changes_only_with_files_that_affect_its_vectors() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors", "vocab.txt"] {
        fs::copy(fixtures().join(file), folder.path().join(file)).unwrap();
    }
    let first = Model::open(folder.path()).unwrap();
    assert_eq!(first.model(), Model::open(folder.path()).unwrap().model());
    assert_eq!((first.facts().dimensions, first.facts().layers), (16, 2));
    fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    fs::write(folder.path().join("1_Pooling/config.json"), "{\"pooling_mode_cls_token\": true}").unwrap();
    let second = Model::open(folder.path()).unwrap();
    assert!(first.model() != second.model() && first.vector("login") != second.vector("login"));
    fs::write(folder.path().join("readme.md"), "x").unwrap();
    assert_eq!(Model::open(folder.path()).unwrap().model(), second.model());
}

/// A copy of the tiny model with an additional file.
fn with(name: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors", "vocab.txt"] {
        fs::copy(fixtures().join(file), folder.path().join(file)).unwrap();
    }
    fs::write(folder.path().join(name), text).unwrap();
    folder
}

#[test]
fn a_model_adds_the_prefixes_from_its_prompts_file() {
    let plain = Model::open(&fixtures()).unwrap();
    let text = |text: &str| vec![text.to_owned()];
    let folder = with(PROMPTS, "{\"prompts\": {\"query\": \"login \", \"document\": \"theme \"}}");
    let model = Model::open(folder.path()).unwrap();
    assert!(model.model() != plain.model(), "other prefixes make other vectors");
    let made = |model: &Model, words: &str, purpose| model.embed(&text(words), purpose).unwrap();
    let (question, passage) = (crate::Purpose::Question, crate::Purpose::Passages);
    assert_eq!(made(&model, "slow", question), made(&plain, "login slow", question));
    assert_eq!(made(&model, "slow", passage), made(&plain, "theme slow", passage));
    // A file without prompts changes nothing.
    let folder = with(PROMPTS, "{\"__version__\": {}}");
    assert_eq!(Model::open(folder.path()).unwrap().model(), plain.model());
    refused(
        PROMPTS,
        |_| Some(format!("{{\"prompts\": {{\"query\": \"{}\"}}}}", "x".repeat(999)).into_bytes()),
        "prompt",
    );
}

#[test]
fn a_model_with_a_unigram_tokenizer_is_supported() {
    let tokenizer = |model: &str, normalizer: &str| {
        format!(
            "{{\"normalizer\": {{\"type\": \"{normalizer}\"}}, \"pre_tokenizer\": {{\"type\": \"Metaspace\"}}, \"model\": {model}}}"
        )
    };
    let good = "{\"type\": \"Unigram\", \"unk_id\": 3, \"vocab\": [[\"<s>\", 0.0], [\"<pad>\", 0.0], [\"</s>\", 0.0], [\"<unk>\", 0.0],
        [\"\u{2581}log\", -2.0], [\"in\", -2.5], [\"\u{2581}\", -3.0], [\"l\", -4.0]]}";
    let folder = with("tokenizer.json", &tokenizer(good, "Precompiled"));
    fs::remove_file(folder.path().join("vocab.txt")).unwrap();
    let home = tempfile::tempdir().unwrap();
    let models = crate::InstalledModels::new(home.path().to_owned());
    models.add(folder.path(), "likely").unwrap();
    let model = models.open("likely").unwrap();
    assert_eq!(model.ids("login l x"), [0, 4, 5, 6, 7, 6, 3, 2]);
    let bad = |model: &str, normalizer: &str, expected| {
        refused("tokenizer.json", |_| Some(tokenizer(model, normalizer).into_bytes()), expected);
    };
    bad(good, "Lowercase", "normalizes texts in a way");
    bad(&good.replace("<s>", "<t>"), "NFKC", "lacks <s>");
    bad(&good.replace("\"unk_id\": 3", "\"unk_id\": 3, \"byte_fallback\": true"), "NFKC", "into bytes");
    bad("{\"type\": \"Unigram\", \"vocab\": 1}", "NFKC", "this model: tokenizer.json: ");
}
