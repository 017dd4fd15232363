//! The viewer's files, embedded in the program. They contain nothing from the memory.

/// A file of the viewer.
pub(super) struct File {
    path: &'static str,
    pub media_type: &'static str,
    pub text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const DRAWING: &str = "image/svg+xml";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($path:literal $media_type:ident $name:literal,)+) => {
        &[$(File { path: $path, media_type: $media_type, text: include_str!(concat!("../../../viewer/", $name)) },)+]
    };
}

static FILES: &[File] = files! {
    "/" HTML "index.html",
    "/viewer.css" CSS "viewer.css",
    "/icon.svg" DRAWING "icon.svg",
    "/main.js" SCRIPT "main.js",
    "/api.js" SCRIPT "api.js",
    "/call.js" SCRIPT "call.js",
    "/charts.js" SCRIPT "charts.js",
    "/detail.js" SCRIPT "detail.js",
    "/dom.js" SCRIPT "dom.js",
    "/filters.js" SCRIPT "filters.js",
    "/list.js" SCRIPT "list.js",
    "/markdown.js" SCRIPT "markdown.js",
    "/types.js" SCRIPT "types.js",
    "/views.js" SCRIPT "views.js",
};

/// Looks up a file by its whole path. There is no folder behind it.
pub(super) fn file(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}
