//! Takes an event while another is being taken. Only a function outside of [`Ingest`]'s own file can name this future.

use std::pin::Pin;

use recall_protocol::wire::{Deliver, Reply};

use super::Ingest;
use crate::injection_receipt::Recipient;
use crate::ports::Ports;

/// Takes a prompt that no hook reported. The future is boxed, because taking an event can lead here again.
pub(super) fn take<P: Ports>(
    ingest: &Ingest<P>,
    prompt: Deliver,
) -> Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
    Box::pin(ingest.take(prompt, Recipient::Nobody))
}
