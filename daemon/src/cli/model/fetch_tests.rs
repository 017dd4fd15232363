use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use super::*;

const BODY: &[u8] = b"0123456789";

/// A server that sends these answers to successive connections and keeps each open during the test. Returns its address
/// and the requests it got.
fn server(answers: &'static [&'static str]) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/file", listener.local_addr().unwrap());
    let (sender, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for (stream, answer) in listener.incoming().flatten().zip(answers) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
                head.push_str(&line);
                line.clear();
            }
            let _ = sender.send(head.to_lowercase());
            (&stream).write_all(answer.as_bytes()).unwrap();
            open.push(stream);
        }
        std::thread::park();
    });
    (address, asked)
}

fn wanted() -> PublishedFile {
    PublishedFile { name: "file".into(), size: 10, sha256: hex(&Sha256::digest(BODY)) }
}

fn model() -> Published {
    Published::all().remove(0)
}

const SHORT: Patience = Patience {
    connect: Duration::from_secs(60),
    silence: Duration::from_secs(60),
    connections: 2,
    pause: Duration::from_millis(1),
    all: Duration::from_secs(60),
};

fn get(address: &str, place: &Path, patience: Patience) -> Result<(), FetchError> {
    let (model, file, mut out) = (model(), wanted(), Vec::new());
    let fetcher = Fetcher::new(address, None, patience, &model).unwrap();
    let mut progress = DownloadProgress::new(10, &mut out);
    fetcher.file(address, &Wanted::Published(&file), place, &mut progress)
}

#[test]
fn a_stalled_download_resumes_on_a_new_connection() {
    let (address, asked) = server(&[
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n0123",
        "HTTP/1.1 206 OK\r\ncontent-length: 6\r\ncontent-range: bytes 4-9/10\r\n\r\n456789",
    ]);
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("file");
    // Long enough for the first answer on a busy machine.
    get(&address, &place, Patience { silence: Duration::from_secs(5), ..SHORT }).unwrap();
    assert_eq!(fs::read(&place).unwrap(), BODY);
    assert!(!asked.recv().unwrap().contains("range:"));
    assert!(asked.recv().unwrap().contains("range: bytes=4-"));
}

#[test]
fn a_download_over_the_time_limit_is_aborted_and_its_part_is_kept() {
    let (address, _asked) = server(&["HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n0123"]);
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("file");
    let patience = Patience { silence: Duration::from_secs(60), all: Duration::from_millis(300), ..SHORT };
    assert!(matches!(get(&address, &place, patience), Err(FetchError::TooLong { got: 4, .. })));
    assert_eq!(fs::read(folder.path().join("file.part")).unwrap(), b"0123", "what came is kept");
}

#[test]
fn an_answer_with_the_wrong_byte_range_is_not_appended() {
    let (address, _asked) = server(&[
        "HTTP/1.1 206 OK\r\nconnection: close\r\ncontent-length: 3\r\ncontent-range: bytes 7-9/10\r\n\r\n789",
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n0123456789",
    ]);
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("file");
    fs::write(folder.path().join("file.part"), "01").unwrap();
    get(&address, &place, SHORT).unwrap();
    assert_eq!(fs::read(&place).unwrap(), BODY);
}

#[test]
fn only_redirects_to_trusted_https_addresses_are_followed() {
    let model = model();
    let fetcher = Fetcher::new("http://127.0.0.1", None, SHORT, &model).unwrap();
    let from = Url::parse("https://huggingface.co/a/b").unwrap();
    for to in ["/c", "https://us.aws.cdn.hf.co/x?y", "https://huggingface.co:443/z"] {
        fetcher.next(&from, to).unwrap();
    }
    for to in [
        "http://huggingface.co/c",
        "https://example.com",
        "https://a@huggingface.co/",
        "file:///etc/passwd",
        "https://",
    ] {
        assert!(matches!(fetcher.next(&from, to), Err(FetchError::Elsewhere { .. })), "{to}");
    }
}
