//! What agents say, read into the domain's words: one folder per agent.

pub mod claude_code;
