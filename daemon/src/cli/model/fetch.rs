//! Downloads files over HTTP. Continues where an earlier download stopped, follows redirects only to known hosts, and
//! reads no more than was announced.
//!
//! An incomplete file is kept next to its target as `NAME.part`. A complete file with wrong contents is deleted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{CONTENT_RANGE, LOCATION, RANGE, RETRY_AFTER};
use reqwest::{StatusCode, Url};
use sha2::{Digest, Sha256};

use super::progress::DownloadProgress;
use recall_embedding::{Published, PublishedFile};
use recall_providers::client;

/// The maximum number of consecutive redirects.
const MOST_REDIRECTS: usize = 5;

/// How long a download may be silent, and how often it is restarted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub connect: Duration,
    /// How long a connection may be silent.
    pub silence: Duration,
    /// The maximum number of connections for one file. A new one continues where the last one broke.
    pub connections: u32,
    /// The pause between two connections.
    pub pause: Duration,
    /// The time limit for one file.
    pub all: Duration,
}

impl Patience {
    pub(super) const OF_A_PERSON: Self = Self {
        connect: Duration::from_secs(10),
        silence: Duration::from_secs(30),
        connections: 6,
        pause: Duration::from_millis(200),
        all: Duration::from_secs(12 * 3_600),
    };
    /// For a download that accompanies another command, while the user waits for that.
    pub(super) const IN_PASSING: Self = Self {
        connect: Duration::from_secs(5),
        silence: Duration::from_secs(10),
        connections: 2,
        all: Duration::from_secs(600),
        ..Self::OF_A_PERSON
    };
}

/// Why a file could not be downloaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("{address} is not the address of a file")]
    Address { address: String },
    #[error("cannot create a connection: {0}")]
    Setup(String),
    #[error("{host} cannot be reached ({why})")]
    Unreachable { host: String, why: String },
    #[error("{host} does not have {file} (404)")]
    Absent { host: String, file: String },
    #[error("{host} refuses more requests for now (429){wait}")]
    Busy { host: String, wait: String },
    #[error("{host} answers {status} for {file}")]
    Status { host: String, file: String, status: u16 },
    #[error("{host} redirects to {to}, which is not a host of this model, so it was not followed")]
    Elsewhere { host: String, to: String },
    #[error("{host} redirects too often")]
    Circle { host: String },
    #[error("the connection to {host} broke after {got} of {size} bytes of {file} ({why})")]
    Broken { host: String, file: String, got: u64, size: String, why: String },
    #[error("{file} did not arrive within {} minutes; {got} bytes of it were received", within.as_secs() / 60)]
    TooLong { file: String, within: Duration, got: u64 },
    #[error("{file} is not the published file: {what}")]
    Wrong { file: String, what: String },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl FetchError {
    /// Whether another connection may succeed.
    fn passes(&self) -> bool {
        match self {
            Self::Broken { .. } => true,
            Self::Status { status, .. } => *status >= 500,
            _ => false,
        }
    }
}

/// The expected result of a download.
pub(super) enum Wanted<'a> {
    Published(&'a PublishedFile),
    /// An archive, of which only the files inside are known.
    Archive {
        name: &'a str,
        most: u64,
    },
}

impl Wanted<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Published(file) => &file.name,
            Self::Archive { name, .. } => name,
        }
    }

    fn size(&self) -> Option<u64> {
        match self {
            Self::Published(file) => Some(file.size),
            Self::Archive { .. } => None,
        }
    }

    fn most(&self) -> u64 {
        match self {
            Self::Published(file) => file.size,
            Self::Archive { most, .. } => *most,
        }
    }
}

/// Downloads files from one address.
pub(super) struct Fetcher<'a> {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    patience: Patience,
    /// The published model, which determines the allowed redirects.
    model: &'a Published,
}

/// The downloaded part of a file.
struct Part {
    file: File,
    path: PathBuf,
    length: u64,
}

impl<'a> Fetcher<'a> {
    /// Creates a fetcher. `address` is that of any of the files, and determines the certificates.
    pub(super) fn new(
        address: &str,
        proxy: Option<reqwest::Proxy>,
        patience: Patience,
        model: &'a Published,
    ) -> Result<Self, FetchError> {
        let setup = |error: &dyn std::fmt::Display| FetchError::Setup(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| setup(&error))?;
        let client = client(address, proxy, patience.connect).map_err(|error| setup(&error))?;
        Ok(Self { runtime, client, patience, model })
    }

    /// Downloads a file to its target, unless it exists.
    pub(super) fn file(
        &self,
        address: &str,
        wanted: &Wanted<'_>,
        place: &Path,
        progress: &mut DownloadProgress<'_>,
    ) -> Result<(), FetchError> {
        if let Wanted::Published(file) = wanted
            && is_published(place, file)
        {
            progress.has(file.size);
            return Ok(());
        }
        let wrong = || FetchError::Address { address: address.to_owned() };
        let url = Url::parse(address).ok().filter(|url| url.host_str().is_some()).ok_or_else(wrong)?;
        let mut part = Part::open(place, wanted)?;
        progress.has(part.length);
        let within = self.patience.all;
        let filled = self.runtime.block_on(async {
            tokio::time::timeout(within, self.fill(&url, wanted, &mut part, progress)).await
        });
        match filled {
            Ok(filled) => filled?,
            Err(_) => {
                return Err(FetchError::TooLong { file: wanted.name().to_owned(), within, got: part.length });
            }
        }
        if let Wanted::Published(file) = wanted
            && !is_published(&part.path, file)
        {
            let _ = fs::remove_file(&part.path);
            let what = "its SHA-256 differs".to_owned();
            return Err(FetchError::Wrong { file: file.name.clone(), what });
        }
        fs::rename(&part.path, place).map_err(|source| FetchError::Write { path: place.to_owned(), source })
    }

    /// Reads the rest of a file, over several connections if they break.
    async fn fill(
        &self,
        url: &Url,
        wanted: &Wanted<'_>,
        part: &mut Part,
        progress: &mut DownloadProgress<'_>,
    ) -> Result<(), FetchError> {
        let mut connections = 1;
        while wanted.size().is_none_or(|size| part.length < size) {
            match self.read(url, wanted, part, progress).await {
                Ok(()) => return Ok(()),
                Err(error) if error.passes() && connections < self.patience.connections => {
                    tokio::time::sleep(self.patience.pause * connections).await;
                    connections += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads over one connection.
    async fn read(
        &self,
        url: &Url,
        wanted: &Wanted<'_>,
        part: &mut Part,
        progress: &mut DownloadProgress<'_>,
    ) -> Result<(), FetchError> {
        let mut response = self.answer(url, wanted, part.length).await?;
        let begins = begins_at(&response);
        if begins != part.length {
            progress.lost(part.length);
            part.shorten(0)?;
        }
        if begins > 0 && begins != part.length {
            return Err(broken(
                response.url(),
                wanted,
                part.length,
                "it sends a different part of the file".to_owned(),
            ));
        }
        let announced = response.content_length().map(|rest| part.length.saturating_add(rest));
        if announced
            .is_some_and(|size| size > wanted.most() || wanted.size().is_some_and(|wanted| size != wanted))
        {
            return Err(wrong_size(wanted, announced.unwrap_or_default()));
        }
        loop {
            let chunk = match tokio::time::timeout(self.patience.silence, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return Err(broken(response.url(), wanted, part.length, reason(&error))),
                Err(_) => {
                    let why = format!("no data for {} s", self.patience.silence.as_secs());
                    return Err(broken(response.url(), wanted, part.length, why));
                }
            };
            if part.length + chunk.len() as u64 > wanted.most() {
                part.shorten(0)?;
                return Err(wrong_size(wanted, part.length + chunk.len() as u64));
            }
            part.add(&chunk)?;
            progress.came(chunk.len() as u64);
        }
        match wanted.size() {
            Some(size) if part.length < size => {
                Err(broken(response.url(), wanted, part.length, "it ended".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the response of the server that has the file, after redirects.
    async fn answer(
        &self,
        url: &Url,
        wanted: &Wanted<'_>,
        from: u64,
    ) -> Result<reqwest::Response, FetchError> {
        let mut url = url.clone();
        for _ in 0..=MOST_REDIRECTS {
            let mut request = self.client.get(url.clone());
            if from > 0 {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            let sent = tokio::time::timeout(self.patience.silence, request.send()).await;
            let (outcome, is_reached) = match sent {
                Ok(Ok(response)) => (Ok(response), true),
                Ok(Err(error)) => (Err(reason(&error)), !error.is_connect()),
                Err(_) => (Err("it does not respond".to_owned()), false),
            };
            let response = match outcome {
                Ok(response) => response,
                // The server responded before.
                Err(why) if from > 0 || is_reached => return Err(broken(&url, wanted, from, why)),
                Err(why) => return Err(FetchError::Unreachable { host: host(&url), why }),
            };
            let status = response.status();
            if !status.is_redirection() {
                return judged(response, wanted);
            }
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            url = self.next(&url, to.unwrap_or_default())?;
        }
        Err(FetchError::Circle { host: host(&url) })
    }

    /// Returns the target of a redirect, if it is allowed.
    fn next(&self, from: &Url, to: &str) -> Result<Url, FetchError> {
        let elsewhere = |to: &str| FetchError::Elsewhere { host: host(from), to: to.to_owned() };
        let to = from.join(to).map_err(|_| elsewhere(to))?;
        let is_as_safe = to.scheme() == from.scheme() || to.scheme() == "https";
        let name = to.host_str().unwrap_or_default();
        let is_known = to.host_str() == from.host_str() || self.model.allows(name);
        if is_as_safe && is_known && to.username().is_empty() {
            Ok(to)
        } else {
            Err(elsewhere(&format!("{}://{name}", to.scheme())))
        }
    }
}

fn judged(response: reqwest::Response, wanted: &Wanted<'_>) -> Result<reqwest::Response, FetchError> {
    let (host, file) = (host(response.url()), wanted.name().to_owned());
    match response.status() {
        status if status.is_success() => Ok(response),
        StatusCode::NOT_FOUND | StatusCode::GONE => Err(FetchError::Absent { host, file }),
        StatusCode::TOO_MANY_REQUESTS => {
            let wait =
                response.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse::<u32>().ok());
            let wait = wait.map(|seconds| format!("; it asks to wait for {seconds} s")).unwrap_or_default();
            Err(FetchError::Busy { host, wait })
        }
        status => Err(FetchError::Status { host, file, status: status.as_u16() }),
    }
}

fn broken(url: &Url, wanted: &Wanted<'_>, got: u64, why: String) -> FetchError {
    let size = wanted.size().map_or_else(|| "all".to_owned(), |size| size.to_string());
    FetchError::Broken { host: host(url), file: wanted.name().to_owned(), got, size, why }
}

/// Returns the position in the file at which a response begins.
fn begins_at(response: &reqwest::Response) -> u64 {
    if response.status() != StatusCode::PARTIAL_CONTENT {
        return 0;
    }
    let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    let begin = range.and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok());
    begin.unwrap_or(0)
}

fn wrong_size(wanted: &Wanted<'_>, size: u64) -> FetchError {
    let what = match wanted.size() {
        Some(wanted) => format!("it has {size} bytes and not {wanted}"),
        None => format!("it is larger than {} MB", wanted.most() >> 20),
    };
    FetchError::Wrong { file: wanted.name().to_owned(), what }
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

/// Returns the innermost cause, which tells a person what to do.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

impl Part {
    fn open(place: &Path, wanted: &Wanted<'_>) -> Result<Self, FetchError> {
        let mut name = place.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let path = place.with_file_name(name);
        let open = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let file = OpenOptions::new().append(true).create(true).open(&path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        };
        let (file, length) = open().map_err(|source| FetchError::Write { path: path.clone(), source })?;
        let mut part = Self { file, path, length };
        // An archive's size is not pinned, so only its beginning can be compared.
        if wanted.size().is_none_or(|size| length > size) {
            part.shorten(0)?;
        }
        Ok(part)
    }

    fn shorten(&mut self, length: u64) -> Result<(), FetchError> {
        let shortened = self.file.set_len(length).and_then(|()| self.file.seek(SeekFrom::Start(length)));
        shortened.map_err(|source| FetchError::Write { path: self.path.clone(), source })?;
        self.length = length;
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        let written = self.file.write_all(bytes);
        written.map_err(|source| FetchError::Write { path: self.path.clone(), source })?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// Whether this is the published file.
pub(super) fn is_published(path: &Path, file: &PublishedFile) -> bool {
    let digest = || -> io::Result<String> {
        let mut opened = File::open(path)?;
        if opened.metadata()?.len() != file.size {
            return Ok(String::new());
        }
        let (mut hash, mut block) = (Sha256::new(), vec![0; 1 << 16]);
        loop {
            match opened.read(&mut block)? {
                0 => break,
                length => hash.update(block.get(..length).unwrap_or_default()),
            }
        }
        Ok(hex(&hash.finalize()))
    };
    digest().is_ok_and(|digest| digest == file.sha256)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
