//! The built-in compressor: deterministic, without a model or a network.
