//! `recall mcp`: lets an agent's model query the memory, over the Model Context Protocol on stdin and stdout.
//!
//! An adapter over the same typed requests as the other commands. Each call uses its own connection, so a restarted
//! daemon does not matter. Only the protocol is written to stdout.

mod notes;
mod lines;
mod calls;
mod tools;

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use recall_protocol::paths::Paths;
use recall_protocol::query::{Filter, Sessions, Show};
use recall_protocol::wire::ErrorKind;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, Prompt, PromptArgument, PromptMessage,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, Role,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use tokio::sync::OnceCell;

use lines::Lines;

use super::client::{Client, Start, this_folder};
use super::failure::{ExitKind, Failure};
use recall_app::requests::Request;
use recall_config::Config;
use recall_domain::plain::plain;
use tools::Offer;

/// How long a client may take to name its roots. After that, the process's folder is used.
const ROOTS_WITHIN: Duration = Duration::from_secs(1);
/// The maximum number of summaries in the list of resources.
const SUMMARIES: u32 = 20;

#[derive(Debug, Args)]
pub struct McpArgs {}

/// # Errors
/// Fails when the client's first message does not follow the protocol, or stdin or stdout fail.
pub fn run() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (input, output) = rmcp::transport::stdio();
        let service = Server::default().serve(Lines::new(input, output)).await;
        let service = service.context("Cannot start the MCP session")?;
        service.waiting().await.context("Cannot serve the client")?;
        Ok(())
    })
}

/// One client's server.
#[derive(Default)]
struct Server {
    /// The folder whose project is used, once known.
    folder: OnceCell<String>,
}

/// Sends a request to the daemon.
fn ask<R: Request>(request: R) -> anyhow::Result<R::Response> {
    Client::connect(Start::IfNeeded)?.ask(request)?.read()
}

impl Server {
    /// Returns the first root of the client, or else the folder of this process.
    async fn folder(&self, context: &RequestContext<RoleServer>) -> String {
        let folder = self.folder.get_or_init(|| async {
            let has_roots =
                context.client_capabilities().is_some_and(|capabilities| capabilities.roots.is_some());
            if !has_roots {
                return this_folder();
            }
            first_root(context).await.unwrap_or_else(this_folder)
        });
        folder.await.clone()
    }
}

/// Returns the client's first root. Newer versions of the protocol have no roots, but clients of older ones still name
/// them.
#[allow(deprecated)]
async fn first_root(context: &RequestContext<RoleServer>) -> Option<String> {
    let roots = tokio::time::timeout(ROOTS_WITHIN, context.peer.list_roots()).await.ok()?.ok()?;
    roots.roots.first().and_then(|root| path_of(&root.uri))
}

/// The path of a `file:` address.
fn path_of(uri: &str) -> Option<String> {
    let path = uri.strip_prefix("file://")?;
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok().filter(|path| path.starts_with('/'))
}

/// Whether the user's configuration allows tools that write.
fn offer() -> Offer {
    Paths::from_env().map_or_else(
        |_| Offer::default(),
        |paths| {
            let config = Config::load(paths.config_file()).config;
            Offer { writing: config.mcp_writing, code: config.code }
        },
    )
}

/// Converts one of our errors. A wrong argument is the caller's error; all others are internal.
fn protocol_error(error: &anyhow::Error) -> ErrorData {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    let hint = failure.and_then(|failure| failure.hint.as_deref()).unwrap_or_default();
    let text = format!("{error}. {hint}").trim().to_owned();
    match failure.map(|failure| (failure.kind, failure.refusal)) {
        Some((ExitKind::Usage, _) | (_, Some(ErrorKind::NotFound | ErrorKind::Invalid))) => {
            ErrorData::invalid_params(text, None)
        }
        _ => ErrorData::internal_error(text, None),
    }
}

/// Whether the daemon does not have the named item.
fn is_not_found(error: &anyhow::Error) -> bool {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    failure.is_some_and(|failure| failure.refusal == Some(ErrorKind::NotFound))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("Cannot ask the daemon")?
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("recall", env!("CARGO_PKG_VERSION")))
            .with_instructions(tools::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult { tools: tools::list(offer()), ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let folder = self.folder(&context).await;
        let arguments = serde_json::Value::Object(request.arguments.unwrap_or_default());
        let Some(call) = calls::Call::parse(&request.name, arguments, offer()) else {
            return Err(ErrorData::invalid_params(format!("There is no tool {:?}.", request.name), None));
        };
        let call = call.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        match blocking(move || call.run(&folder)).await {
            Ok(text) => Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into()),
            // Errors that the model can correct go to the model; the protocol's errors go to the client.
            Err(error) => {
                let message = plain(&protocol_error(&error).message);
                Ok(CallToolResult::error(vec![ContentBlock::text(message)]).into())
            }
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let project = Some(self.folder(&context).await);
        let filter = Filter { project, since_ms: None, limit: Some(SUMMARIES) };
        // An unknown project has no sessions.
        let sessions = blocking(move || Ok(ask(Sessions { filter })?.sessions)).await.unwrap_or_default();
        let named = sessions.into_iter().filter_map(|session| Some((session.title?, session.session_id)));
        let resources = named
            .filter(|(title, _)| !title.is_empty())
            .map(|(title, id)| {
                Resource::new(format!("recall://session/{id}"), plain(&title)).with_mime_type("text/plain")
            })
            .collect();
        Ok(ListResourcesResult { resources, ..ListResourcesResult::default() })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let Some(id) = uri.strip_prefix("recall://session/").map(str::to_owned) else {
            return Err(ErrorData::resource_not_found(format!("There is no resource {uri:?}."), None));
        };
        let text =
            blocking(move || calls::session(&id)).await.map_err(|error| match is_not_found(&error) {
                true => ErrorData::resource_not_found(error.to_string(), None),
                false => protocol_error(&error),
            })?;
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri)]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let about = PromptArgument::new("subject").with_description("The subject").with_required(true);
        let prompt = Prompt::new(
            "what-do-you-know",
            Some("What the memory contains about a subject"),
            Some(vec![about]),
        );
        Ok(ListPromptsResult { prompts: vec![prompt], ..ListPromptsResult::default() })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let subject = request
            .arguments
            .as_ref()
            .and_then(|arguments| arguments.get("subject")?.as_str().map(str::to_owned));
        let Some(subject) = subject.filter(|_| request.name == "what-do-you-know") else {
            return Err(ErrorData::invalid_params("The prompt what-do-you-know needs a subject.", None));
        };
        let folder = self.folder(&context).await;
        let asked = subject.clone();
        let found = blocking(move || calls::Call::search(asked).run(&folder)).await;
        let found = found.map_err(|error| protocol_error(&error))?;
        let text = format!("What do you know about {subject}?\n\n{found}");
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into())
    }
}

/// Returns the text of one item, as `recall show` prints it.
fn shown(id: &str, folder: &str) -> anyhow::Result<Vec<recall_app::answers::found::ShownItem>> {
    Ok(ask(Show { id: id.to_owned(), folder: Some(folder.to_owned()) })?.items)
}

#[cfg(test)]
mod tests {
    use super::path_of;

    #[test]
    fn a_root_uri_is_converted_to_a_path() {
        assert_eq!(path_of("file:///home/me/my%20shop").as_deref(), Some("/home/me/my shop"));
        for wrong in ["https://x/y", "file://relative", "file:///a%2", "file:///a%zz"] {
            assert_eq!(path_of(wrong), None, "{wrong}");
        }
    }
}
