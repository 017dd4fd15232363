//! Tests what every store must do. The tests use only the port: [`StoreWriter`] with operations, and [`Readers`] with
//! queries. Another store must pass them too.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use recall_domain::conventions::Conventions;
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::event::{
    Audience, Capture, HookEvent, HookEventKind, PromptText, StartContext, StartSource, ToolCall, ToolResult,
};
use recall_domain::fixes::Traces;
use recall_domain::ids::{
    AgentName, EventId, ObservationId, ProjectKey, PromptId, SessionId, SessionKey, SessionRow, Timestamp,
};
use recall_domain::material::BatchSource;
use recall_domain::observation::{Importance, ObservationDraft, ObservationType};
use recall_domain::order::Order;
use recall_domain::session::{CapturePolicy, Load, Session};
use recall_store::{
    BatchResult, Changes, Delivery, Durability, Duty, EditObservation, EditedText, EventOutcome, FinishJob,
    FinishedJob, Forget, JobKind, JobResult, LeaseJob, LeasedJob, MarkObservations, Operation, Reader,
    Readers, Selection, SessionOrigin, StoreError, StoreWriter, Transaction, UndoChange, Unreadable,
    Validity,
};
use recall_system::holding::Holding;

/// A store and one session. The domain handles the session's events and writes them to the store.
struct Story {
    folder: tempfile::TempDir,
    writer: StoreWriter,
    readers: Readers,
    key: SessionKey,
    session: Session,
    events: u8,
    changes: Changes,
}

impl Story {
    fn begin() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (writer, readers) = Self::open(&folder.path().join("recall.db"));
        let key = SessionKey { agent: AgentName::from("claude-code"), id: SessionId::from("s") };
        Self {
            folder,
            writer,
            readers,
            key,
            session: Session::default(),
            events: 0,
            changes: Changes::default(),
        }
    }

    fn open(path: &std::path::Path) -> (StoreWriter, Readers) {
        let backups = path.with_file_name("backups");
        let writer = StoreWriter::open(path, &backups, Durability::Full, &Holding::default()).unwrap();
        (writer, Readers::new(path))
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("recall.db")
    }

    /// Opens the store again, as after a restart of the daemon.
    fn reopen(mut self) -> Self {
        let path = self.database();
        self.writer.settle();
        drop((self.writer, self.readers));
        (self.writer, self.readers) = Self::open(&path);
        self
    }

    fn write<O: Operation>(&mut self, operation: O) -> O::Output {
        self.writer.begin().unwrap();
        let output = self.writer.execute(operation, &mut self.changes).unwrap();
        self.writer.commit(&self.changes).unwrap();
        output
    }

    fn read<T>(&self, question: impl FnOnce(Reader<'_>) -> Result<T, StoreError>) -> T {
        self.readers.read(question).unwrap()
    }

    /// Returns the event with everything that follows from it.
    fn event(&mut self, what: HookEventKind) -> Transaction {
        self.events += 1;
        let at = Timestamp(i64::from(self.events) * 1_000);
        let (id, boot_ns) = (EventId([self.events; 16]), u64::from(self.events));
        let prompt = Some(PromptId::from("p1"));
        let event = HookEvent { prompt, ..HookEvent::bare(self.key.id.clone(), what) };
        let order = Order { boot: [1; 16], boot_ns, wall: at };
        let policy = CapturePolicy {
            skip_tools: Vec::new(),
            plan_folders: Vec::new(),
            plan_prompts: &[],
            chunk: Load { activities: 100, bytes: 1_000_000 },
        };
        let decision = self.session.clone().on_event(&event, Capture { event: id, at, order }, &policy);
        self.session = decision.next;
        Transaction {
            session: self.key.clone(),
            conventions: Conventions::default(),
            origin: SessionOrigin {
                project: vec![ProjectKey::from("path:/shop")],
                ..SessionOrigin::default()
            },
            delivery: Delivery {
                event: id,
                key: None,
                agent: self.key.agent.clone(),
                event_name: "any".to_owned(),
                captured_at: at,
                boot_id: order.boot,
                boot_ns,
                flags: 0,
                stored_at: at,
            },
            effects: decision.effects,
            changed_files: Vec::new(),
        }
    }

    fn happens(&mut self, what: HookEventKind) -> EventOutcome {
        let transaction = self.event(what);
        self.write(transaction)
    }

    /// Plays a session of one turn.
    fn one_turn(&mut self) {
        self.happens(HookEventKind::SessionStart {
            source: StartSource::Startup,
            audience: Audience::Nobody,
        });
        self.happens(prompt("round the cart's total once"));
        self.happens(HookEventKind::Tool(ToolCall {
            name: "Bash".to_owned(),
            use_id: Some("c1".into()),
            input: "{\"command\":\"make\"}".to_owned(),
            result: ToolResult::Done("\"ok\"".to_owned()),
            duration_ms: None,
            plan: None,
            launched: None,
            rewrote: None,
        }));
        self.happens(HookEventKind::Stop { message: Some("The total is rounded once.".to_owned()) });
    }

    fn row(&self) -> SessionRow {
        self.read(|db| db.known_session(&self.key)).unwrap().row
    }

    fn lease(&mut self, worker: &str, now: i64) -> Option<LeasedJob> {
        let (now, until) = (Timestamp(now), Timestamp(now + 60_000));
        self.write(LeaseJob { worker: worker.to_owned(), duty: Duty::BuiltIn, now, until })
    }

    fn finish(&mut self, job: &LeasedJob, title: &str) {
        let drafts = vec![draft(title)];
        let made = BatchResult { drafts, settled: Vec::new(), traces: Traces::default(), source_tokens: 10 };
        let result = JobResult::Observations(made);
        let (origin, now) = ("extractive".into(), Timestamp(90_000));
        self.write(FinishJob(FinishedJob { job: job.id, result, origin, cuts: None, now }));
    }

    fn titles(&self) -> Vec<String> {
        let row = self.row();
        self.read(|db| db.observations_of_session(row)).into_iter().map(|row| row.title).collect()
    }

    /// Returns a session with an observation.
    fn with_observation(title: &str) -> (Self, ObservationId) {
        let mut story = Self::begin();
        story.one_turn();
        let job = story.lease("w1", 50_000).unwrap();
        story.finish(&job, title);
        let row = story.row();
        let id = story.read(|db| db.observations_of_session(row)).first().unwrap().id;
        (story, id)
    }
}

fn prompt(text: &str) -> HookEventKind {
    let text = PromptText::Text(text.to_owned());
    HookEventKind::Prompt { text, source: BatchSource::User, start: StartContext::Shown }
}

fn draft(title: &str) -> ObservationDraft {
    ObservationDraft {
        kind: ObservationType::Decision,
        title: title.to_owned(),
        subtitle: None,
        narrative: String::new(),
        facts: Vec::new(),
        concepts: Vec::new(),
        files_read: Vec::new(),
        files_modified: Vec::new(),
        importance: Importance::clamped(5),
        evidence: vec![EventId([2; 16])],
        subject: None,
    }
}

#[test]
fn a_stored_turn_is_read_back_unchanged_after_a_restart() {
    let mut story = Story::begin();
    story.one_turn();
    let stored = |story: &Story| {
        let row = story.row();
        (story.read(|db| db.batches(row)), story.read(|db| db.session_activities(row, None)).len())
    };
    let (batches, activities) = stored(&story);
    assert_eq!((batches.len(), activities), (1, 1));
    assert_eq!(batches.first().unwrap().response.as_deref(), Some("The total is rounded once."));
    assert_eq!(stored(&story.reopen()), (batches, activities));
}

#[test]
fn an_event_delivered_again_changes_nothing() {
    let mut story = Story::begin();
    story.one_turn();
    let again = story.event(prompt("and the tax"));
    assert!(matches!(story.write(again.clone()), EventOutcome::Stored(_)));
    let before = story.read(|db| db.highest_log_entry());
    assert_eq!(story.write(again), EventOutcome::Duplicate);
    assert_eq!(story.read(|db| db.highest_log_entry()), before);
}

#[test]
fn a_rolled_back_event_is_not_stored_and_can_be_stored_later() {
    let mut story = Story::begin();
    story.one_turn();
    let next = story.event(prompt("and the tax"));
    story.writer.begin().unwrap();
    story.writer.execute(next.clone(), &mut Changes::default()).unwrap();
    story.writer.roll_back().unwrap();
    let row = story.row();
    assert_eq!(story.read(|db| db.batches(row)).len(), 1);
    assert!(matches!(story.write(next), EventOutcome::Stored(_)), "it can be stored now");
    assert_eq!(story.read(|db| db.batches(row)).len(), 2);
}

#[test]
fn a_reader_sees_no_uncommitted_change() {
    let mut story = Story::begin();
    story.one_turn();
    let row = story.row();
    let next = story.event(prompt("and the tax"));
    story.writer.begin().unwrap();
    story.writer.execute(next, &mut story.changes).unwrap();
    assert_eq!(story.read(|db| db.batches(row)).len(), 1);
    story.writer.commit(&story.changes).unwrap();
    assert_eq!(story.read(|db| db.batches(row)).len(), 2);
}

#[test]
fn a_job_has_one_worker_at_a_time_and_its_result_is_stored_once() {
    let mut story = Story::begin();
    story.one_turn();
    let job = story.lease("w1", 50_000).unwrap();
    assert_eq!(job.kind, JobKind::Batch);
    assert!(story.lease("w2", 51_000).is_none_or(|other| other.id != job.id));
    story.finish(&job, "Totals are rounded once");
    assert_eq!(story.titles(), ["Totals are rounded once"]);
    // The worker finishes the job again, too late.
    story.finish(&job, "Totals are rounded twice");
    assert_eq!(story.titles(), ["Totals are rounded once"]);
}

#[test]
fn an_edit_and_a_mark_by_a_person_can_be_undone() {
    let (mut story, id) = Story::with_observation("Totals are rounded once");
    let text = EditedText {
        kind: ObservationType::Decision,
        title: "Totals are rounded once, half up".to_owned(),
        narrative: String::new(),
        facts: Vec::new(),
        files: Vec::new(),
    };
    story.write(EditObservation { id, text, at: Timestamp(95_000) });
    assert_eq!(story.titles(), ["Totals are rounded once, half up"]);
    story.write(UndoChange::NewestOwn);
    assert_eq!(story.titles(), ["Totals are rounded once"]);
    story.write(MarkObservations { ids: vec![id], validity: Validity::Resolved, at: Timestamp(96_000) });
    let status = story.read(|db| db.observation(id)).unwrap().status;
    story.write(UndoChange::NewestOwn);
    assert_ne!(story.read(|db| db.observation(id)).unwrap().status, status);
}

#[test]
fn a_forgotten_session_is_removed_and_its_late_events_are_dropped() {
    let (mut story, id) = Story::with_observation("Totals are rounded once");
    let at = Order { boot: [1; 16], boot_ns: 1_000, wall: Timestamp(100_000) };
    let late = story.event(prompt("captured before, delivered after"));
    let seq = story.read(|db| db.highest_log_entry());
    let what = Selection::Session(story.row());
    story.write(Forget { what, unreadable: Unreadable::Stays, at });
    assert!(story.read(|db| db.known_session(&story.key)).is_none());
    assert!(story.read(|db| db.observation(id)).is_none());
    // A reader of the log finds the deletion there.
    let key = DocumentKey { kind: DocumentKind::Observation, row: id.0 };
    assert!(story.read(|db| db.documents_after(seq, 100)).iter().any(|entry| entry.key == key));
    assert_eq!(story.write(late), EventOutcome::Dropped);
    assert!(story.reopen().read(|db| db.is_empty()));
}
