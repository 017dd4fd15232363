//! temporary
pub mod difference;
pub mod hook_entry;
pub mod hook_settings;
pub mod programs;
pub mod settings_file;
pub mod version;
