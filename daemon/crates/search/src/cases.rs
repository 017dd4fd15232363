//! Fifty queries that people type, and the documents they should find in one small memory.

use recall_domain::document::{Document, DocumentKey, DocumentKind, Status};
use recall_domain::ids::{AgentName, LogSeq, ProjectKey, SessionId, Timestamp};
use recall_domain::observation::{Importance, Maker, ObservationType};

use super::fusion::search;
use super::index::{Index, Opened};
use super::query::parse;
use super::request::Spelling;
use super::request::{Hits, Scope, SearchRequest};

const NOW: Timestamp = Timestamp(1_795_262_400_000);
const DAY: i64 = 86_400_000;
const SHOP: &str = "git:github.com/acme/shop";
const BLOG: &str = "git:github.com/acme/blog";

/// One memory of two projects. The number is the observation's id.
fn memory() -> Vec<Document> {
    let texts = [
        (
            1,
            "Session tokens expire too early",
            "TokenStore::refresh_token read the wrong clock in src/auth/token_store.rs.",
        ),
        (
            2,
            "Retry policy of the payment gateway",
            "PaymentGateway.maxRetries is 3; ECONNRESET and ETIMEDOUT are retried.",
        ),
        (
            3,
            "Borrow checker refuses the cache",
            "error[E0382]: use of moved value: `entries` in cache.rs line 42.",
        ),
        (4, "Upgraded tokio to 1.38.2", "The release-notes of 1.38.2 mention a fixed wake-up race."),
        (5, "Umlaute in file names", "Größenänderung and Müller.txt were read as Latin-1."),
        (6, "登录页面很慢", "登录页面使用 bcrypt，成本 14。"),
        (7, "Deploy emoji 🚀 in the status line", "The 🚀 breaks alignment in narrow terminals."),
        (8, "Attribution of commits", "Commit attribution counts lines that the agent wrote."),
        (9, "Dark mode colours", "The colour palette follows prefers-color-scheme."),
        (10, "Database migrations run at start", "Migrations take a lock; a second instance waits."),
        (11, "Parser is recursive descent", "ParseError carries a span; see parser/expr.rs."),
        (13, "ฉันเขียนตัวส่งออกใหม่", "It writes the header once."),
        (12, "Rate limit is 100 requests per minute", "HTTP 429 Too Many Requests, header Retry-After."),
    ];
    let mut documents: Vec<Document> =
        texts.into_iter().map(|(row, title, body)| observation(row, title, body)).collect();
    let mut other =
        observation(20, "Session tokens of the blog", "The blog keeps session tokens in a cookie.");
    (other.project, other.project_name) = (ProjectKey::from(BLOG), "Blog".to_owned());
    documents.push(other);
    // A thread: three statements on one subject, oldest first.
    for (row, days, status) in
        [(30, 60, Status::Superseded), (31, 30, Status::Resolved), (32, 1, Status::Active)]
    {
        let mut note = observation(row, "Webhook signature check", "The webhook signature is checked.");
        (note.at, note.status) = (Timestamp(NOW.0 - days * DAY), status);
        documents.push(note);
    }
    for (row, days) in [(40, 200), (41, 2)] {
        let mut note = observation(row, "Invoice numbering", "Invoices are numbered per year.");
        note.at = Timestamp(NOW.0 - days * DAY);
        documents.push(note);
    }
    let mut file = observation(50, "Rounding of totals", "Totals are rounded half to even.");
    (file.files, file.observation_type) =
        (vec!["src/cart/total.rs".to_owned()], Some(ObservationType::Bugfix));
    documents.push(file);
    let mut call = observation(
        60,
        "Bash",
        "cargo test\nthread 'main' panicked at src/auth/token_store.rs:17:5: called `Option::unwrap()` on a `None` value",
    );
    (call.key.kind, call.observation_type) = (DocumentKind::Activity, None);
    documents.push(call);
    documents
}

fn observation(row: i64, title: &str, body: &str) -> Document {
    Document {
        key: DocumentKey { kind: DocumentKind::Observation, row },
        project: ProjectKey::from(SHOP),
        project_name: "Shop".to_owned(),
        agent: AgentName::from("claude-code"),
        session: SessionId(format!("session-{row}")),
        observation_type: Some(ObservationType::Discovery),
        status: Status::Active,
        importance: Importance::clamped(5),
        maker: Maker::Machine,
        at: Timestamp(NOW.0 - 10 * DAY - row),
        files: Vec::new(),
        title: title.to_owned(),
        body: body.to_owned(),
        passages: Vec::new(),
    }
}

struct Memory {
    _folder: tempfile::TempDir,
    index: Index,
}

impl Memory {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let Opened { index, mut writer } = Index::open(folder.path()).unwrap();
        for document in memory() {
            writer.put(&document).unwrap();
        }
        writer.commit(LogSeq(1)).unwrap();
        Self { _folder: folder, index }
    }

    fn search(&self, text: &str, scope: Scope) -> Hits {
        let request =
            SearchRequest { scope, spelling: Spelling::Forgiving, ..SearchRequest::new(parse(text), NOW) };
        search(&[&self.index], &request).unwrap()
    }

    fn ids(&self, text: &str, scope: Scope) -> Vec<String> {
        self.search(text, scope).hits.iter().map(|hit| hit.key.to_string()).collect()
    }
}

/// Queries with the ids of the first hits, in order. `!` before an id means that it must not be found.
const CASES: [(&str, &str); 54] = [
    // Parts of identifiers, in any spelling.
    ("refresh_token", "1"),
    ("refreshToken", "1"),
    ("refresh token", "1"),
    ("token store", "1"),
    ("TokenStore", "1 a60"),
    ("max_retries", "2"),
    ("maxRetries", "2"),
    ("retries", "2"),
    ("payment-gateway", "2"),
    ("ParseError", "11"),
    ("parse error span", "11"),
    // Paths.
    ("token_store.rs", "1 a60"),
    ("src/auth/token_store.rs", "1 a60"),
    ("src/auth/token_store.rs:17:5", "1 a60"),
    ("file:total.rs", "50"),
    ("file:cart", "50"),
    ("expr.rs", "11"),
    // Texts and codes of errors.
    ("use of moved value", "3"),
    ("E0382", "3"),
    ("error[E0382]", "3"),
    ("ECONNRESET", "2"),
    ("econnreset", "2"),
    ("429", "12"),
    ("\"called `Option::unwrap()` on a `None` value\"", "a60"),
    ("E0383", "!3"),
    // Inflected words.
    ("migrating the database", "10"),
    ("expired tokens", "1"),
    ("color", "9"),
    ("colored", "9"),
    ("rounded", "50"),
    // Negation, phrases, filters.
    ("session tokens -blog", "1 !20"),
    ("\"session tokens\" cookie", "20 1"),
    ("\"tokens session\"", "!1 !20"),
    ("type:bugfix totals", "50"),
    ("kind:activity token", "a60 !1"),
    ("session tokens project:blog", "20 !1"),
    ("since:5d webhook", "32 !31 !30"),
    // The newest first; resolved or superseded ones last.
    ("webhook signature", "32 31 30"),
    ("invoice numbering", "41 40"),
    // Typos.
    ("atribution", "8"),
    ("attrbution of comits", "8"),
    ("databse migratoins", "10"),
    ("gatway", "2"),
    // Synonyms.
    ("hue", "9"),
    ("purchase", "2"),
    ("which hue does the page have at night?", "9"),
    // Scripts, accents, emoji, hyphens, versions.
    ("登录", "6"),
    ("ส่งออก", "13"),
    ("Größenänderung", "5"),
    ("muller", "5"),
    ("🚀 status line", "7"),
    ("release notes", "4"),
    ("tokio 1.38.2", "4"),
    ("prefers color scheme", "9"),
];

#[test]
fn typical_queries_find_the_expected_documents() {
    let memory = Memory::new();
    let mut wrong = Vec::new();
    for (query, expected) in CASES {
        let found = memory.ids(query, Scope::Everything);
        let (unwanted, wanted): (Vec<&str>, Vec<&str>) =
            expected.split(' ').partition(|id| id.starts_with('!'));
        let begins = found.iter().take(wanted.len()).eq(wanted.iter());
        let clean = unwanted.iter().all(|id| !found.contains(&id[1..].to_owned()));
        if !(begins && clean) {
            wrong.push(format!("{query:?}: expected {expected}, found {}", found.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_project_search_finds_no_documents_of_other_projects() {
    let memory = Memory::new();
    let within = |project| memory.ids("session tokens", Scope::Project(ProjectKey::from(project)));
    assert_eq!(within(BLOG), ["20"]);
    assert!(!within(SHOP).contains(&"20".to_owned()));
}

#[test]
fn a_query_of_only_stop_words_finds_something() {
    let found = Memory::new().ids("how is the", Scope::Everything);
    assert!(found.contains(&"12".to_owned()), "{found:?}");
}

#[test]
fn a_very_long_query_matches_the_words_at_its_beginning() {
    let text = format!("rate limit {}", "lorem ipsum dolor sit amet ".repeat(2_000));
    assert_eq!(Memory::new().ids(&text, Scope::Everything).first().map(String::as_str), Some("12"));
}

#[test]
fn a_query_word_replaced_by_another_is_reported() {
    let memory = Memory::new();
    let hits = memory.search("atribution commits", Scope::Everything);
    let read: Vec<_> = hits.read_as.iter().map(|word| (word.typed.as_str(), word.read.as_str())).collect();
    assert_eq!(read, [("atribution", "attribut")]);
    let hits = memory.search("hue", Scope::Everything);
    assert!(hits.read_as.iter().any(|word| word.typed == "hue" && word.read.starts_with("colo")), "{hits:?}");
    // A word that occurs is never replaced, and words of other projects are not used as replacements.
    assert!(memory.search("tokens", Scope::Everything).read_as.is_empty());
    let request = SearchRequest::new(parse("atribution"), NOW);
    assert_eq!(search(&[&memory.index], &request).unwrap(), Hits::default());
}

#[test]
fn the_factors_of_a_score_multiply_to_the_score() {
    let hits = Memory::new().search("session token clock webhook", Scope::Everything);
    assert!(hits.hits.len() > 3);
    for hit in &hits.hits {
        let product: f32 = hit.named_factors().iter().map(|(_, factor)| factor).product();
        assert!((product - hit.score).abs() < 1e-4 * hit.score.max(1.0), "{hit:?}");
        assert_eq!(hit.matched.len() + hit.missing.len(), 4, "{hit:?}");
    }
}
