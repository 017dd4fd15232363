//! Reads the client's lines. Each line that expects an answer gets one, even if it cannot be parsed, because a client
//! waits for its answer forever. The library's own transport drops such lines.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex, mpsc};

/// The maximum length of a line. Of a longer one, only both ends are kept.
const LONGEST: usize = 16 * 1024 * 1024;
/// The number of bytes kept of each end, to find the id of the request.
const END: usize = 4 * 1024;
/// The number of messages that may wait for the server before reading stops.
const WAITING: usize = 8;
/// The maximum number of requests of a batch that are refused individually.
const REFUSED: usize = 100;
/// The methods that this server supports. The library treats a request with invalid parameters as unknown.
const METHODS: [&str; 7] = [
    "initialize",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
];

type Output<W> = Arc<Mutex<W>>;

/// A transport over lines of JSON.
pub(super) struct Lines<W> {
    messages: mpsc::Receiver<ClientJsonRpcMessage>,
    output: Output<W>,
    progress: Progress,
}

/// Whether a session has begun. The library ends the session if anything except a request comes first.
#[derive(PartialEq)]
enum Progress {
    BeforeRequest,
    Begun,
}

impl<W: AsyncWrite + Send + Unpin + 'static> Lines<W> {
    pub(super) fn new(input: impl AsyncRead + Send + Unpin + 'static, output: W) -> Self {
        let (sender, messages) = mpsc::channel(WAITING);
        let output = Arc::new(Mutex::new(output));
        tokio::spawn(read(BufReader::new(input), output.clone(), sender));
        Self { messages, output, progress: Progress::BeforeRequest }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for Lines<W> {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let output = self.output.clone();
        async move { write(&output, &serde_json::to_value(message)?).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let message = self.messages.recv().await?;
            if matches!(message, JsonRpcMessage::Request(_)) {
                self.progress = Progress::Begun;
            }
            if self.progress == Progress::Begun {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.messages.close();
        self.output.lock().await.flush().await
    }
}

async fn write<W: AsyncWrite + Unpin>(output: &Output<W>, message: &Value) -> std::io::Result<()> {
    let mut output = output.lock().await;
    output.write_all(format!("{message}\n").as_bytes()).await?;
    output.flush().await
}

/// Reads until the input ends, or nobody takes the messages.
async fn read<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    mut input: BufReader<R>,
    output: Output<W>,
    messages: mpsc::Sender<ClientJsonRpcMessage>,
) {
    let mut line = Line::default();
    while let Ok(bytes) = input.fill_buf().await {
        let is_over = bytes.is_empty();
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(bytes.len(), |end| end + 1);
        line.add(bytes.get(..taken).unwrap_or_default());
        input.consume(taken);
        // The last line may lack a line end.
        if end.is_some() || is_over {
            match std::mem::take(&mut line).read() {
                Read::Nothing => {}
                Read::Message(message) => {
                    if messages.send(*message).await.is_err() {
                        return;
                    }
                }
                Read::Refused(refusals) => {
                    for refusal in refusals {
                        if write(&output, &refusal).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
        if is_over {
            return;
        }
    }
}

/// A line that is being received.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    /// The end of a line that is too long.
    tail: Option<Vec<u8>>,
}

impl Line {
    fn add(&mut self, bytes: &[u8]) {
        if self.tail.is_none() && self.bytes.len() + bytes.len() > LONGEST {
            self.bytes.truncate(END);
            self.bytes.shrink_to_fit();
            self.tail = Some(Vec::new());
        }
        match &mut self.tail {
            None => self.bytes.extend_from_slice(bytes),
            Some(tail) => {
                tail.extend_from_slice(bytes.get(bytes.len().saturating_sub(END)..).unwrap_or_default());
                tail.drain(..tail.len().saturating_sub(END));
            }
        }
    }

    fn read(self) -> Read {
        if let Some(tail) = self.tail {
            let id = id_at_start(&self.bytes).or_else(|| id_at_end(&tail));
            let why = format!("The line has more than {LONGEST} bytes.");
            return refused(ErrorCode::INVALID_REQUEST, &why, id);
        }
        let line = self.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.bytes).trim_ascii();
        if line.is_empty() {
            return Read::Nothing;
        }
        match serde_json::from_slice(line) {
            Ok(Value::Object(object)) => message(object),
            Ok(Value::Array(items)) => batch(&items),
            Ok(_) => refused(ErrorCode::INVALID_REQUEST, "A message is a JSON object.", None),
            Err(error) => {
                let id = id_at_start(line).or_else(|| id_at_end(line));
                refused(ErrorCode::PARSE_ERROR, &format!("The line is not JSON: {error}."), id)
            }
        }
    }
}

/// The kind of a line.
enum Read {
    Nothing,
    Message(Box<ClientJsonRpcMessage>),
    /// The refusals to send back.
    Refused(Vec<Value>),
}

fn refused(code: ErrorCode, why: &str, id: Option<Value>) -> Read {
    Read::Refused(vec![refusal(code, why, id)])
}

fn refusal(code: ErrorCode, why: &str, id: Option<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code.0, "message": why}})
}

fn message(object: Map<String, Value>) -> Read {
    let method = object.get("method").and_then(Value::as_str).map(str::to_owned);
    let (given, id) = (object.get("id").cloned(), object.get("id").and_then(usable));
    let is_current = object.get("jsonrpc").is_some_and(|version| version == "2.0");
    // Answering an error with an error could go on forever.
    let is_error = method.is_none() && object.contains_key("error");
    let wrong_parameters = || {
        let why = format!("The parameters of {:?} are invalid.", method.as_deref().unwrap_or_default());
        refused(ErrorCode::INVALID_PARAMS, &why, id.clone())
    };
    match serde_json::from_value::<ClientJsonRpcMessage>(Value::Object(object)) {
        Ok(JsonRpcMessage::Request(request)) if matches!(&request.request, ClientRequest::CustomRequest(custom) if METHODS.contains(&custom.method.as_str())) => {
            wrong_parameters()
        }
        Ok(message) => Read::Message(Box::new(message)),
        Err(_) if is_error => Read::Nothing,
        // A notification gets no answer.
        Err(_) if given.is_none() && method.is_some() && is_current => Read::Nothing,
        Err(_) if id.is_some() && method.is_some() && is_current => wrong_parameters(),
        Err(_) => {
            let why = "The message is not a JSON-RPC 2.0 request.";
            refused(ErrorCode::INVALID_REQUEST, why, id)
        }
    }
}

/// Refuses each request in a batch, because each expects an answer. The protocol no longer has batches.
fn batch(items: &[Value]) -> Read {
    let ids = items.iter().filter_map(|item| usable(item.get("id")?)).take(REFUSED);
    let refuse =
        |id| refusal(ErrorCode::INVALID_REQUEST, "Send each message on its own line, not in an array.", id);
    let mut refusals: Vec<Value> = ids.map(|id| refuse(Some(id))).collect();
    if refusals.is_empty() || refusals.len() == REFUSED {
        refusals.push(refuse(None));
    }
    Read::Refused(refusals)
}

/// Returns an id that is valid in an answer.
fn usable(id: &Value) -> Option<Value> {
    (id.is_string() || id.is_i64() || id.is_u64()).then(|| id.clone())
}

/// Returns the id of a message that is damaged or truncated after it.
fn id_at_start(line: &[u8]) -> Option<Value> {
    struct Id<'a>(&'a mut Option<Value>);

    impl<'de> Visitor<'de> for Id<'_> {
        type Value = ();

        fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            to.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<String>()? {
                if key == "id" {
                    *self.0 = usable(&map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(())
        }
    }

    let mut id = None;
    // Parsing fails at the damage.
    let _ = serde_json::Deserializer::from_slice(line).deserialize_map(Id(&mut id));
    id
}

/// Returns the id at the end of a message, where most clients write it.
fn id_at_end(line: &[u8]) -> Option<Value> {
    const KEY: &[u8] = b"\"id\":";
    let at = line.windows(KEY.len()).rposition(|part| part == KEY)?;
    let mut rest = serde_json::Deserializer::from_slice(line.get(at + KEY.len()..)?).into_iter::<Value>();
    let id = usable(&rest.next()?.ok()?)?;
    let end = line.get(at + KEY.len() + rest.byte_offset()..)?;
    (end.trim_ascii() == b"}").then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(line: &[u8]) -> Vec<(i64, Value)> {
        let mut whole = Line::default();
        line.chunks(1 << 20).for_each(|part| whole.add(part));
        assert!(whole.bytes.len() <= LONGEST);
        match whole.read() {
            Read::Refused(refusals) => refusals
                .iter()
                .map(|refusal| (refusal["error"]["code"].as_i64().unwrap(), refusal["id"].clone()))
                .collect(),
            Read::Nothing => Vec::new(),
            Read::Message(message) => panic!("{message:?}"),
        }
    }

    #[test]
    fn unreadable_requests_are_answered_with_errors() {
        let (parse, request, params) = (-32700, -32600, -32602);
        let long = [b"{\"method\":\"tools/call\",\"params\":\"", "x".repeat(LONGEST).as_bytes()].concat();
        let ends = |end: &str| [&long, end.as_bytes()].concat();
        for (line, expected) in [
            (b"not json".to_vec(), vec![(parse, json!(null))]),
            (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":".to_vec(), vec![(parse, json!(7))]),
            (b"{\"id\":\"a\",\"method\":\"\xff\xfe\"}".to_vec(), vec![(parse, json!("a"))]),
            (b"{\"method\":\"\xff\",\"jsonrpc\":\"2.0\",\"id\":8}".to_vec(), vec![(parse, json!(8))]),
            ("[".repeat(100_000).into_bytes(), vec![(parse, json!(null))]),
            (b"5".to_vec(), vec![(request, json!(null))]),
            (b"\"text\"".to_vec(), vec![(request, json!(null))]),
            (b"{}".to_vec(), vec![(request, json!(null))]),
            (b"[]".to_vec(), vec![(request, json!(null))]),
            (
                b"[{\"id\":1},{\"method\":\"x\"},{\"id\":\"b\"},5]".to_vec(),
                vec![(request, json!(1)), (request, json!("b"))],
            ),
            (b"{\"id\":3,\"method\":\"ping\"}".to_vec(), vec![(request, json!(3))]),
            (b"{\"jsonrpc\":\"1.0\",\"id\":3,\"method\":\"ping\"}".to_vec(), vec![(request, json!(3))]),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}".to_vec(), vec![(request, json!(null))]),
            (b"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":5}".to_vec(), vec![(request, json!(4))]),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/call\",\"params\":5}".to_vec(),
                vec![(params, json!(4))],
            ),
            (b"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/call\"}".to_vec(), vec![(params, json!(4))]),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/call\",\"params\":{\"name\":[]}}".to_vec(),
                vec![(params, json!(4))],
            ),
            (ends("\",\"jsonrpc\":\"2.0\",\"id\":9}\n"), vec![(request, json!(9))]),
            (ends("\"}}"), vec![(request, json!(null))]),
            ([b"{\"id\":11,".to_vec(), long.clone()].concat(), vec![(request, json!(11))]),
            // No answer is expected.
            (b"\r\n".to_vec(), vec![]),
            (b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":5}".to_vec(), vec![]),
            (b"{\"jsonrpc\":\"2.0\",\"id\":[],\"error\":5}".to_vec(), vec![]),
        ] {
            assert_eq!(answers(&line), expected, "{:.100}", String::from_utf8_lossy(&line));
        }
        let many = Value::Array((0..10_000).map(|id| json!({"id": id})).collect());
        assert_eq!(answers(many.to_string().as_bytes()).len(), REFUSED + 1);
    }
}
