//! Tests with real sockets. Where time matters, the clock is paused, so a minute of waiting passes at once. The clock
//! is paused only when nothing more has to arrive through a socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::*;

/// The result of a call, and its duration by the paused clock.
struct Called {
    result: Result<Value, ProviderError>,
    took: Duration,
}

impl Called {
    #[track_caller]
    fn trouble(self) -> (String, Option<u64>, Paid) {
        match self.result {
            Err(ProviderError::Trouble { why, wait_ms, paid }) => (why, wait_ms, paid),
            other => panic!("{other:?}"),
        }
    }
}

async fn call(address: std::net::SocketAddr) -> Called {
    let http = Http::new(Limits::MOST, None, Handle::current()).unwrap();
    let begun = Instant::now();
    let called = http.call(&format!("http://{address}/"), &[], &json!({}), Timestamp(0)).await;
    Called { result: called.map_err(|error| error.error), took: begun.elapsed() }
}

/// Starts a server that reads a request and then runs `answer` with the connection. Returns its address and the
/// number of bytes that it sent.
async fn server<F>(
    answer: impl Fn(TcpStream, Arc<AtomicU64>) -> F + Send + 'static,
) -> (std::net::SocketAddr, Arc<AtomicU64>)
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, sent) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&sent);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            tokio::spawn(answer(stream, Arc::clone(&counted)));
        }
    });
    (address, sent)
}

fn head(status: u16, length: u64, headers: &str) -> String {
    format!("HTTP/1.1 {status} Test\r\n{headers}content-length: {length}\r\n\r\n")
}

/// Calls a server that sends a complete answer.
async fn answered(status: u16, headers: &str, body: String) -> Called {
    let answer = head(status, body.len() as u64, headers) + &body;
    let (address, _) = server(move |mut stream, _| {
        let answer = answer.clone();
        async move {
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await
        }
    })
    .await;
    call(address).await
}

/// Checks the duration of a call. It may be slightly longer, because the clock runs until it is paused.
#[track_caller]
fn took(called: &Called, seconds: u64) {
    let expected = Duration::from_secs(seconds);
    assert!(called.took >= expected && called.took < expected + Duration::from_secs(30), "{:?}", called.took);
}

#[cfg(target_os = "linux")] // Elsewhere a backlog is longer than it says.
#[tokio::test]
async fn an_unaccepted_connection_is_given_up_after_five_seconds() {
    // Nobody accepts connections. Both places of the backlog are taken, so the system stops answering.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let _crowd = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
    tokio::time::pause();
    let called = call(address).await;
    took(&called, 5);
    assert_eq!(called.trouble(), ("the provider cannot be reached in time".to_owned(), None, Paid::No));
}

#[tokio::test]
async fn a_call_to_a_silent_server_ends_after_a_minute() {
    let (address, _) = server(|stream, _| async move {
        tokio::time::pause();
        std::future::pending::<()>().await;
        drop(stream);
        Ok(())
    })
    .await;
    let called = call(address).await;
    took(&called, 60);
    assert_eq!(called.trouble(), ("the provider has not answered in 60 s".to_owned(), None, Paid::Perhaps));
}

#[tokio::test]
async fn an_answer_of_a_byte_per_second_is_aborted_after_a_minute() {
    let (address, sent) = server(|mut stream, sent| async move {
        stream.write_all(head(200, 1 << 30, "").as_bytes()).await?;
        tokio::time::pause();
        loop {
            stream.write_all(b" ").await?;
            sent.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    let called = call(address).await;
    took(&called, 60);
    assert_eq!(called.trouble().0, "the provider has not answered in 60 s");
    assert!((55..=61).contains(&sent.load(Ordering::SeqCst)), "{sent:?} bytes have dripped");
}

#[tokio::test]
async fn an_answer_of_ten_gigabytes_is_not_read_to_its_end() {
    /// The number of bytes that the system buffers for a reader that does not read.
    const IN_FLIGHT: u64 = 32 << 20;
    let (address, sent) = server(|mut stream, sent| async move {
        stream.write_all(head(200, 10 << 30, "").as_bytes()).await?;
        let block = vec![b' '; 64 * 1024];
        loop {
            stream.write_all(&block).await?;
            sent.fetch_add(block.len() as u64, Ordering::SeqCst);
        }
    })
    .await;
    let called = call(address).await;
    assert_eq!(called.trouble().0, "the provider's answer is larger than 1048576 bytes");
    assert!(sent.load(Ordering::SeqCst) < IN_FLIGHT, "{sent:?} bytes were taken");
}

#[tokio::test]
async fn an_answer_of_one_mebibyte_is_accepted_and_a_larger_one_rejected() {
    let padded = |length: usize| "{\"a\": 1}".to_owned() + &" ".repeat(length - 8);
    assert_eq!(answered(200, "", padded(1 << 20)).await.result, Ok(json!({"a": 1})));
    let more = answered(200, "", padded((1 << 20) + 1)).await;
    assert_eq!(more.trouble().0, "the provider's answer is larger than 1048576 bytes");
}

#[tokio::test]
async fn a_reset_connection_is_an_error_that_may_have_cost_something() {
    let (address, _) = server(|mut stream, _| async move {
        stream.write_all(head(200, 100, "").as_bytes()).await?;
        stream.set_zero_linger()
    })
    .await;
    assert_eq!(call(address).await.trouble(), ("the connection broke".to_owned(), None, Paid::Perhaps));
}

#[tokio::test]
async fn a_success_status_without_a_valid_answer_is_unreadable() {
    let unreadable_because = |why: &str| Err(ProviderError::Unreadable { why: why.to_owned() });
    for body in ["<html>Sign in</html>", "", r#"{"choices": [{"mess"#] {
        assert_eq!(
            answered(200, "", body.to_owned()).await.result,
            unreadable_because("the provider's answer is not JSON")
        );
    }
    for (body, why) in [
        (r#"{"error":{"message":"no\npe"}}"#, "no pe"),
        (r#"{"error":"nope"}"#, "nope"),
        (r#"{"error":{"code":7}}"#, "no message"),
    ] {
        let expected = format!("the provider responded with an error: {why}");
        assert_eq!(answered(200, "", body.to_owned()).await.result, unreadable_because(&expected));
    }
    for body in [r#"{"choices":[],"error":"x"}"#, r#"{"error":null}"#] {
        assert!(answered(200, "", body.to_owned()).await.result.is_ok(), "{body}");
    }
}

/// Checks how long the headers ask to wait. Each of `headers` ends with `;`.
#[track_caller]
fn waits(status: u16, headers: &str, called: Called, expected: Option<u64>) {
    let (_, wait_ms, paid) = called.trouble();
    assert_eq!((wait_ms, paid), (expected, Paid::No), "{status} {headers:?}");
}

#[tokio::test]
async fn retry_after_headers_are_parsed_in_every_form() {
    const HOUR: u64 = 3_600_000;
    for (status, headers, expected) in [
        (429, "retry-after: 7;", Some(7_000)),
        (429, "Retry-After:   7  ;", Some(7_000)),
        (429, "retry-after: 0.25;", Some(250)),
        (429, "retry-after: 86400;", Some(HOUR)),
        (429, "retry-after: -5;", Some(0)),
        (429, "retry-after: soon;", None),
        (429, "retry-after: ;", None),
        (429, "retry-after: NaN;", None),
        (429, "retry-after: \u{fc}ber;", None),
        (429, "", None),
        (429, "retry-after: Thu, 01 Jan 1970 00:00:30 GMT;", Some(30_000)),
        (429, "retry-after: Thursday, 01-Jan-70 00:00:30 GMT;", Some(30_000)),
        (429, "retry-after: Thu Jan  1 00:00:30 1970;", Some(30_000)),
        (429, "retry-after: Fri, 02 Jan 1970 00:00:00 GMT;", Some(HOUR)),
        // A valid header in milliseconds takes precedence, because it is more exact.
        (429, "retry-after: 7;retry-after-ms: 1500;", Some(1_500)),
        (429, "retry-after: 7;retry-after-ms: later;", Some(7_000)),
        (429, "retry-after-ms: 1e99;", Some(HOUR)),
        (503, "retry-after: 7;", Some(7_000)),
        (529, "retry-after: 7;", Some(7_000)),
        (500, "", None),
    ] {
        let called = answered(status, &headers.replace(';', "\r\n"), "{}".to_owned()).await;
        waits(status, headers, called, expected);
    }
}

#[tokio::test]
async fn a_refusal_is_recognised_despite_a_retry_after_header() {
    for status in [401, 402, 403] {
        let called = answered(status, "retry-after: 1\r\n", "{}".to_owned()).await;
        assert!(matches!(called.result, Err(ProviderError::Barred { .. })), "{status}");
    }
    let empty =
        r#"{"error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}}"#;
    for status in [400, 429, 500] {
        let called = answered(status, "retry-after: 1\r\n", empty.to_owned()).await;
        assert!(matches!(called.result, Err(ProviderError::Barred { .. })), "{status}");
    }
}
