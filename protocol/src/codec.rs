//! Encodes and decodes messages. This is the only module that names the codec.
//!
//! bincode's `legacy` layout (little-endian, fixed-width integers) is frozen, and a maintained successor writes the
//! same bytes, so replacing the crate would change only this file. Two checks are essential: without the size limit, a
//! hostile length makes the process allocate until it aborts; without the check for trailing bytes, a newer value
//! decodes as an older one and loses its tail.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use bincode::error::{DecodeError as CodecDecodeError, EncodeError as CodecEncodeError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire::{Reply, Request};

/// The largest body of a frame, in bytes. Payloads are at most 4 MiB; answers to queries may be larger.
pub const MAX_BODY: usize = 16 * 1024 * 1024;

const LAYOUT: Configuration<LittleEndian, Fixint, Limit<MAX_BODY>> =
    bincode::config::legacy().with_limit::<MAX_BODY>();

/// A value that can be the body of a frame. Sealed: only [`Request`] and [`Reply`].
pub trait Message: Serialize + DeserializeOwned + sealed::Sealed {
    /// The approximate encoded size in bytes. Used to allocate once, so that large payloads are copied only once.
    fn size_hint(&self) -> usize;
}

impl Message for Request {
    fn size_hint(&self) -> usize {
        match self {
            Self::Deliver(deliver) => deliver.payload.len().saturating_add(1024),
            Self::Query(_) => 256,
        }
    }
}

impl Message for Reply {
    fn size_hint(&self) -> usize {
        match self {
            Self::Ack { stdout } | Self::Duplicate { stdout } | Self::Unsaved { stdout } => {
                stdout.len().saturating_add(64)
            }
            Self::Json(json) => json.len().saturating_add(64),
            Self::Invalid(_) | Self::Failed { .. } => 256,
            Self::Busy | Self::TooBig | Self::Version { .. } | Self::ShuttingDown => 16,
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Request {}
    impl Sealed for super::Reply {}
}

/// Why a value could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    #[error("message of {len} bytes is larger than {MAX_BODY}")]
    TooBig { len: usize },
    #[error("message cannot be encoded")]
    Codec(#[source] CodecEncodeError),
}

/// Why bytes could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("message of {len} bytes is larger than {MAX_BODY}")]
    TooBig { len: usize },
    #[error("message cannot be decoded")]
    Codec(#[source] CodecDecodeError),
    #[error("message ends after {read} of {len} bytes")]
    TrailingBytes { read: usize, len: usize },
}

/// Appends the encoded value to `out`. On an error `out` is unchanged.
pub fn encode_into<M: Message>(message: &M, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let before = out.len();
    out.reserve_exact(message.size_hint().min(MAX_BODY));
    let result = match bincode::serde::encode_into_std_write(message, out, LAYOUT) {
        Ok(len) if len > MAX_BODY => Err(EncodeError::TooBig { len }),
        Ok(_) => Ok(()),
        Err(error) => Err(EncodeError::Codec(error)),
    };
    if result.is_err() {
        out.truncate(before);
    }
    result
}

/// Encodes a value into a new buffer.
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    encode_into(message, &mut out)?;
    Ok(out)
}

/// Decodes exactly one value. Trailing bytes are an error.
pub fn decode<M: Message>(bytes: &[u8]) -> Result<M, DecodeError> {
    if bytes.len() > MAX_BODY {
        return Err(DecodeError::TooBig { len: bytes.len() });
    }
    let (message, read) = bincode::serde::decode_from_slice(bytes, LAYOUT).map_err(DecodeError::Codec)?;
    if read != bytes.len() {
        return Err(DecodeError::TrailingBytes { read, len: bytes.len() });
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::query::{
        Context, Explain, Filter, Flush, Follow, Forget, ForgetStep, Forgettable, Ping, Query, Remember,
        Search, Unreadable, Why,
    };
    use crate::wire::{Deliver, ErrorKind, EventId, Flags, ShimContext};

    fn any_deliver() -> impl Strategy<Value = Deliver> {
        (
            (any::<[u8; 16]>(), ".{0,20}", ".{0,20}", any::<i64>(), any::<[u8; 16]>(), any::<u64>()),
            (any::<u32>(), ".{0,40}", proptest::option::of(".{0,40}"), proptest::option::of(".{0,40}")),
            (proptest::collection::vec(any::<u8>(), 0..2000), any::<u32>()),
        )
            .prop_map(|(head, context, tail)| Deliver {
                event_id: EventId(head.0),
                agent: head.1,
                event_name: head.2,
                captured_at_ms: head.3,
                boot_id: head.4,
                boot_ns: head.5,
                context: ShimContext {
                    pid: context.0,
                    cwd: context.1,
                    project_dir: context.2,
                    config_dir: context.3,
                },
                payload: tail.0,
                flags: Flags(tail.1),
            })
    }

    fn any_query() -> impl Strategy<Value = Query> {
        let filter =
            (proptest::option::of(".{0,20}"), proptest::option::of(any::<i64>()), any::<Option<u32>>())
                .prop_map(|(project, since_ms, limit)| Filter { project, since_ms, limit });
        prop_oneof![
            Just(Query::from(Ping)),
            Just(Query::from(Flush)),
            ".{0,20}".prop_map(|id| Why { id }.into()),
            (proptest::option::of(".{0,20}"), proptest::collection::vec(".{0,20}", 0..3))
                .prop_map(|(session, kinds)| Follow { session, kinds }.into()),
            (".{0,50}", filter, proptest::option::of(".{0,20}")).prop_map(|(text, filter, folder)| {
                Search { text, filter, explain: Explain::Yes, folder }.into()
            }),
            (".{0,50}", proptest::option::of(".{0,50}"))
                .prop_map(|(cwd, prompt)| Context { cwd, prompt }.into()),
            (proptest::collection::vec(".{0,9}", 0..4), any::<Option<i64>>()).prop_map(|(ids, since_ms)| {
                let what = Forgettable { ids, since_ms, ..Forgettable::default() };
                Forget { what, unreadable: Unreadable::Goes, step: ForgetStep::Forget }.into()
            }),
            (".{0,50}", any::<Option<u8>>()).prop_map(|(text, importance)| {
                Remember { text, importance, ..Remember::default() }.into()
            }),
        ]
    }

    fn any_request() -> impl Strategy<Value = Request> {
        prop_oneof![any_deliver().prop_map(Request::Deliver), any_query().prop_map(Request::Query)]
    }

    fn any_reply() -> impl Strategy<Value = Reply> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..500);
        prop_oneof![
            bytes().prop_map(|stdout| Reply::Ack { stdout }),
            bytes().prop_map(|stdout| Reply::Duplicate { stdout }),
            Just(Reply::Busy),
            Just(Reply::TooBig),
            any::<(u8, u8)>().prop_map(|(min, max)| Reply::Version { min, max }),
            Just(Reply::ShuttingDown),
            ".{0,50}".prop_map(Reply::Invalid),
            bytes().prop_map(Reply::Json),
            (".{0,50}", ".{0,50}").prop_map(|(what, hint)| Reply::Failed {
                kind: ErrorKind::Conflict,
                what,
                hint
            }),
            bytes().prop_map(|stdout| Reply::Unsaved { stdout }),
        ]
    }

    proptest! {
        #[test]
        fn requests_survive_encoding_and_decoding(request in any_request()) {
            let bytes = encode(&request).expect("fits");
            prop_assert_eq!(decode::<Request>(&bytes).expect("decodes"), request);
        }

        #[test]
        fn replies_survive_encoding_and_decoding(reply in any_reply()) {
            let bytes = encode(&reply).expect("fits");
            prop_assert_eq!(decode::<Reply>(&bytes).expect("decodes"), reply);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            // Decoded bytes must encode to the same bytes: the layout is canonical.
            if let Ok(request) = decode::<Request>(&bytes) {
                prop_assert_eq!(encode(&request).expect("fits"), bytes.clone());
            }
            if let Ok(reply) = decode::<Reply>(&bytes) {
                prop_assert_eq!(encode(&reply).expect("fits"), bytes);
            }
        }

        #[test]
        fn a_truncated_message_is_an_error(request in any_request(), cut in any::<prop::sample::Index>()) {
            let bytes = encode(&request).expect("fits");
            let cut = cut.index(bytes.len());
            prop_assert!(decode::<Request>(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn trailing_bytes_are_an_error() {
        let mut bytes = encode(&Request::Query(Query::Ping(Ping))).expect("fits");
        bytes.push(0);
        assert!(matches!(decode::<Request>(&bytes), Err(DecodeError::TrailingBytes { read: 8, len: 9 })));
    }

    #[test]
    fn a_hostile_length_is_rejected() {
        let mut bytes = encode(&Reply::Json(vec![1, 2, 3])).expect("fits");
        bytes[4..12].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        assert!(matches!(decode::<Reply>(&bytes), Err(DecodeError::Codec(_))));
    }

    #[test]
    fn a_message_over_the_size_limit_is_not_encoded() {
        let mut out = vec![7];
        let reply = Reply::Json(vec![0; MAX_BODY]);
        assert!(matches!(encode_into(&reply, &mut out), Err(EncodeError::TooBig { .. })));
        assert_eq!(out, [7]);
    }

    #[test]
    fn an_unknown_variant_is_an_error() {
        assert!(matches!(decode::<Reply>(&99_u32.to_le_bytes()), Err(DecodeError::Codec(_))));
    }
}
