//! temporary
pub mod hook_entry;
pub mod hook_settings;
