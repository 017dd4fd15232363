use crate::memory::material::Action;
pub fn action(_tool: &str, input: &str, response: Option<&str>) -> Action { Action::Other{input: input.into(), output: response.unwrap_or_default().into()} }
