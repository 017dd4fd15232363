//! A model provider on this machine. It is a real HTTP server for both APIs, and misbehaves on request.
//!
//! It is written by hand, because a library cannot be made to misbehave. It sends bytes slowly, resets connections,
//! announces wrong lengths and sends without end. It counts the tokens that it has charged, to compare them with a
//! ledger.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// The tokens that every good answer costs.
pub const TOKENS_IN: u64 = 300;
pub const TOKENS_OUT: u64 = 50;

/// What a provider does with a request.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Answers with this text, in the format of the API that was called.
    Answers(String),
    /// Answers in the same way after a delay.
    AnswersAfter(Duration, String),
    Status(u16),
    /// Sends this status, headers and body.
    Raw {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// Never answers, but keeps the connection.
    Silence,
    /// Sends a valid head, and then one byte at a time.
    Drip {
        every: Duration,
    },
    /// Sends a valid head and then bytes without end.
    Flood,
    /// Closes the connection in the middle of the answer.
    Breaks,
    /// Announces the whole body, sends this many bytes of it and closes the connection.
    Cut {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
        sent: usize,
    },
    /// Answers only when the test allows it.
    Held,
}

/// A request as received.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as JSON, or null if it is not JSON.
    pub body: Value,
    pub bytes: Vec<u8>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the material and the question, for either API.
    pub fn text(&self) -> String {
        let messages = self.body["messages"].as_array().cloned().unwrap_or_default();
        messages.iter().filter_map(|message| message["content"].as_str()).collect::<Vec<_>>().join("\n")
    }
}

type Script = Box<dyn Fn(&Asked, u64) -> Behaviour + Send + Sync>;

struct Shared {
    script: Mutex<Arc<Script>>,
    asked: Mutex<Vec<Asked>>,
    arrived: Condvar,
    open: Mutex<bool>,
    opened: Condvar,
    connections: AtomicU64,
    charged: AtomicU64,
}

/// The server. It runs until the process ends.
#[derive(Clone)]
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Provider {
    /// Starts a server. It applies `script` to each request and the request's number, counted from 0.
    pub fn start(script: impl Fn(&Asked, u64) -> Behaviour + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared {
            script: Mutex::new(Arc::new(Box::new(script))),
            asked: Mutex::default(),
            arrived: Condvar::new(),
            open: Mutex::default(),
            opened: Condvar::new(),
            connections: AtomicU64::new(0),
            charged: AtomicU64::new(0),
        });
        let provider = Self { address: listener.local_addr().unwrap(), shared };
        let serving = provider.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serving.shared.connections.fetch_add(1, Ordering::SeqCst);
                let serving = serving.clone();
                // A client under test may close the connection in the middle.
                std::thread::spawn(move || drop(serving.serve(stream)));
            }
        });
        provider
    }

    /// Replaces the script from now on.
    pub fn change(&self, script: impl Fn(&Asked, u64) -> Behaviour + Send + Sync + 'static) {
        *self.shared.script.lock().unwrap() = Arc::new(Box::new(script));
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the `[compression]` section of a config which asks this server about each turn. `backend` is the
    /// backend, and `more` are additional lines.
    pub fn config(&self, backend: &str, more: &str) -> String {
        self.config_of(backend, &format!("unit = 'turn'\n{more}"))
    }

    /// Like [`Self::config`], but about each session.
    pub fn config_of(&self, backend: &str, more: &str) -> String {
        format!("[compression]\nbackend = '{backend}'\nmodel = 'mock'\nbase_url = '{}'\n{more}\n", self.url())
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// Returns how many connections were opened, with or without a request.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Returns the tokens of all answers that the server has begun to send.
    pub fn charged(&self) -> u64 {
        self.shared.charged.load(Ordering::SeqCst)
    }

    /// Waits until this many requests have arrived.
    #[track_caller]
    pub fn wait_for(&self, requests: usize) {
        let asked = self.shared.asked.lock().unwrap();
        let waited = self
            .shared
            .arrived
            .wait_timeout_while(asked, Duration::from_secs(60), |asked| asked.len() < requests);
        let (asked, timeout) = waited.unwrap();
        assert!(!timeout.timed_out(), "{} of {requests} requests came", asked.len());
    }

    /// Releases held answers.
    pub fn let_go(&self) {
        *self.shared.open.lock().unwrap() = true;
        self.shared.opened.notify_all();
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        // An answer is sent in several writes. They must not wait 40 ms for the first acknowledgement.
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut stream = stream;
        while let Some(asked) = read(&mut reader)? {
            let number = {
                let mut all = self.shared.asked.lock().unwrap();
                all.push(asked.clone());
                self.shared.arrived.notify_all();
                all.len() as u64 - 1
            };
            let script = Arc::clone(&self.shared.script.lock().unwrap());
            self.behave(&mut stream, &asked, script(&asked, number))?;
        }
        Ok(())
    }

    fn behave(&self, stream: &mut TcpStream, asked: &Asked, behaviour: Behaviour) -> std::io::Result<()> {
        match behaviour {
            Behaviour::Answers(text) => self.say(stream, asked, &text),
            Behaviour::AnswersAfter(delay, text) => {
                std::thread::sleep(delay);
                self.say(stream, asked, &text)
            }
            Behaviour::Status(status) => {
                send(stream, status, &[], b"{\"error\": {\"type\": \"mock_error\"}}")
            }
            Behaviour::Raw { status, headers, body } => send(stream, status, &headers, &body),
            Behaviour::Silence => loop {
                std::thread::park();
            },
            Behaviour::Drip { every } => {
                head(stream, 200, &[], 1_000_000)?;
                loop {
                    stream.write_all(b" ")?;
                    std::thread::sleep(every);
                }
            }
            Behaviour::Flood => {
                head(stream, 200, &[], 10 << 30)?;
                let block = vec![b' '; 64 * 1024];
                loop {
                    stream.write_all(&block)?;
                }
            }
            Behaviour::Breaks => {
                head(stream, 200, &[], 1_000)?;
                stream.write_all(b"{\"choices\": [")?;
                stream.shutdown(std::net::Shutdown::Both)
            }
            Behaviour::Cut { status, headers, body, sent } => {
                head(stream, status, &headers, body.len() as u64)?;
                stream.write_all(body.get(..sent).unwrap_or(&body))?;
                stream.shutdown(std::net::Shutdown::Both)
            }
            Behaviour::Held => {
                let open = self.shared.open.lock().unwrap();
                drop(self.shared.opened.wait_while(open, |open| !*open).unwrap());
                self.say(stream, asked, OBSERVATIONS)
            }
        }
    }

    fn say(&self, stream: &mut TcpStream, asked: &Asked, text: &str) -> std::io::Result<()> {
        self.shared.charged.fetch_add(TOKENS_IN + TOKENS_OUT, Ordering::SeqCst);
        send(stream, 200, &[], envelope(asked, text).to_string().as_bytes())
    }
}

/// One observation, as a model would answer.
pub const OBSERVATIONS: &str = r#"{"observations": [{"type": "gotcha", "title": "The mock provider was asked",
    "subtitle": "", "narrative": "A model on this machine has answered.", "facts": ["It answers what it is told to."],
    "concepts": ["mock"], "files_read": [], "files_modified": [], "importance": 6, "evidence": [1]}]}"#;

pub const SUMMARY: &str = r#"{"title": "A session with a mock", "request": "To be summed up", "investigated": "",
    "learned": "Mocks answer.", "completed": "The answer", "next_steps": "", "notes": ""}"#;

/// Notes on a session.
pub const NOTES: &str = r#"{"observations": [{"turn": 1, "type": "gotcha", "title": "The mock provider was asked about a session",
    "narrative": "A model on this machine has answered, once for all turns.", "importance": 6}],
    "summary": {"title": "A session with a mock", "request": "To be noted", "learned": "Mocks answer.",
    "completed": "The answer", "next_steps": "Ask a real one."}}"#;

/// Answers every request as a good model would.
pub fn well(asked: &Asked, _number: u64) -> Behaviour {
    let answer = match (is_notes(asked), is_summary(asked)) {
        (true, _) => NOTES,
        (false, true) => SUMMARY,
        (false, false) => OBSERVATIONS,
    };
    Behaviour::Answers(answer.to_owned())
}

/// Returns whether the request asks for notes on a session.
pub fn is_notes(asked: &Asked) -> bool {
    asked.body.to_string().contains("keep_notes")
}

/// Returns whether the request asks for a session's summary.
pub fn is_summary(asked: &Asked) -> bool {
    asked.body.to_string().contains("keep_summary")
}

fn envelope(asked: &Asked, text: &str) -> Value {
    if asked.path.ends_with("/messages") {
        let block = match serde_json::from_str::<Value>(text) {
            Ok(input) => json!({"type": "tool_use", "id": "t1", "name": "answer", "input": input}),
            Err(_) => json!({"type": "text", "text": text}),
        };
        let usage = json!({"input_tokens": TOKENS_IN, "output_tokens": TOKENS_OUT});
        return json!({"type": "message", "content": [block], "usage": usage});
    }
    let usage = json!({"prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT});
    json!({"choices": [{"message": {"role": "assistant", "content": text}}], "usage": usage})
}

/// Reads a request. Returns `None` if the client closed the connection between two requests.
fn read(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Asked>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (bytes, body) = (body.clone(), serde_json::from_slice(&body).unwrap_or(Value::Null));
    Ok(Some(Asked { path, headers, body, bytes }))
}

fn head(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(String, String)],
    length: u64,
) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Mock\r\ncontent-length: {length}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())
}

fn send(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(String, String)],
    body: &[u8],
) -> std::io::Result<()> {
    head(stream, status, headers, body.len() as u64)?;
    stream.write_all(body)
}
