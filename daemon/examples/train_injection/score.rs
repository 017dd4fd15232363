//! What would be injected, with the columns of the table.

use recall_domain::injection::choice::{
    ENOUGH_TOKENS, StatementChoice, Words, is_statement, most, tokens_of_each,
};
use recall_domain::injection::{FLOORS, Floors, PromptDecision, asked, decide};
use recall_domain::linear::Weights;
use recall_domain::passage::PassageMatches;
use recall_domain::tokens::Measure;

use crate::asked::{Asked, Everything, Occasion, Search, SessionPassage};
use crate::corpus::{self, Label};

/// The tokens for a prompt, and the overhead of a block and of a statement.
const BUDGET: u32 = 500;
const FRAME: u32 = 38;
const STATEMENT: u32 = 8;

/// Counts of one table row.
#[derive(Default)]
pub(crate) struct Score {
    questions: usize,
    with_terms: usize,
    answered: usize,
    spoke: usize,
    injected: usize,
    right: usize,
    tokens: Vec<u32>,
    silent_elsewhere: (usize, usize),
    silent: (usize, usize),
    lookups: (usize, usize),
}

impl Score {
    pub(crate) const HEADER: &str = "| floor | answered | spoke | right | silent elsewhere | silent in passing | lookups spoken to | tokens, median | mean |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|";

    /// Judges the questions about a project.
    pub(crate) fn add(
        &mut self,
        everything: &Everything,
        project: &str,
        (weights, search): (&Weights, Search),
        floors: Floors,
    ) {
        for one in everything.asked.iter().filter(|one| one.project == project) {
            let Some(found) = one.found(search) else { continue };
            let injected = injected_passages(everything, (one, found), weights, floors);
            let is_silent = injected.is_empty();
            match one.occasion {
                Occasion::Own(number) => self.question(everything, number, &injected),
                // As the measure through the real programs: the next project.
                Occasion::Elsewhere(_, 0) => count(&mut self.silent_elsewhere, is_silent),
                Occasion::Passing(Label::Silent) => count(&mut self.silent, is_silent),
                Occasion::Passing(Label::Lookup) => count(&mut self.lookups, !is_silent),
                Occasion::Elsewhere(..) | Occasion::Passing(Label::Either) | Occasion::Moment(_) => {}
            }
        }
    }

    fn question(&mut self, everything: &Everything, number: usize, injected: &[(&SessionPassage, String)]) {
        let question = &everything.questions[number];
        let text = injected.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n");
        self.questions += 1;
        self.with_terms += usize::from(!question.terms.is_empty());
        let is_answered = !question.terms.is_empty() && corpus::answers(&question.terms, &text);
        self.answered += usize::from(is_answered);
        if injected.is_empty() {
            return;
        }
        self.spoke += 1;
        self.injected += injected.len();
        self.right += injected
            .iter()
            .filter(|(passage, _)| question.relevant_sessions.contains(&passage.session))
            .count();
        self.tokens.push(spent(injected));
    }

    pub(crate) fn row(&self, name: &str) -> String {
        let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        let mut tokens = self.tokens.clone();
        tokens.sort_unstable();
        let median = tokens.get(tokens.len() / 2).copied().unwrap_or_default();
        let mean = tokens.iter().sum::<u32>() / u32::try_from(tokens.len()).unwrap_or(1).max(1);
        format!(
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {median} | {mean} |",
            share(self.answered, self.with_terms),
            share(self.spoke, self.questions),
            share(self.right, self.injected),
            share(self.silent_elsewhere.0, self.silent_elsewhere.1),
            share(self.silent.0, self.silent.1),
            share(self.lookups.0, self.lookups.1),
        )
    }
}

/// Counts of one row of the table of judged moments.
#[derive(Default)]
pub(crate) struct MomentScore {
    /// Moments by need: those at which anything is injected, and all.
    spoke: [(usize, usize); 3],
    right: (usize, usize),
    hit: (usize, usize),
    tokens: Vec<u32>,
}

impl MomentScore {
    pub(crate) const HEADER: &str = "| floor | spoke@0 | spoke@1 | spoke@2 | apt | right | hit | tokens, mean |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|";

    /// Judges the moments of a project.
    pub(crate) fn add(
        &mut self,
        everything: &Everything,
        project: &str,
        (weights, search): (&Weights, Search),
        floors: Floors,
    ) {
        for one in everything.asked.iter().filter(|one| one.project == project) {
            let (Occasion::Moment(number), Some(found)) = (one.occasion, one.found(search)) else { continue };
            let (moment, injected) =
                (&everything.moments[number], injected_passages(everything, (one, found), weights, floors));
            count(&mut self.spoke[usize::from(moment.need.min(2))], !injected.is_empty());
            if !injected.is_empty() {
                self.tokens.push(spent(&injected));
            }
            if moment.need == 0 || !moment.has_good() {
                continue;
            }
            let right = injected.iter().filter(|(passage, _)| moment.is_of_good_session(passage)).count();
            self.right.0 += right;
            self.right.1 += injected.len();
            count(&mut self.hit, right > 0);
        }
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        let add = |one: &mut (usize, usize), other: (usize, usize)| {
            *one = (one.0 + other.0, one.1 + other.1);
        };
        self.spoke.iter_mut().zip(other.spoke).for_each(|(one, other)| add(one, other));
        add(&mut self.right, other.right);
        add(&mut self.hit, other.hit);
        self.tokens.extend(&other.tokens);
    }

    /// The share of moments without need at which anything is injected.
    pub(crate) fn spoke_without_need(&self) -> f64 {
        self.spoke[0].0 as f64 / self.spoke[0].1.max(1) as f64
    }

    /// Moments of need at which anything is injected; certain need counts twice.
    pub(crate) fn needs_met(&self) -> usize {
        self.spoke[1].0 + 2 * self.spoke[2].0
    }

    pub(crate) fn row(&self, name: &str) -> String {
        let share = |(part, whole): (usize, usize)| 100.0 * part as f64 / whole.max(1) as f64;
        let [none, some, much] = self.spoke;
        let spoke = none.0 + some.0 + much.0;
        let mean = self.tokens.iter().sum::<u32>() / u32::try_from(self.tokens.len()).unwrap_or(1).max(1);
        format!(
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {mean} |",
            share(none),
            share(some),
            share(much),
            share((spoke - none.0, spoke)),
            share(self.right),
            share(self.hit),
        )
    }
}

/// Tokens of the injected text.
fn spent(injected: &[(&SessionPassage, String)]) -> u32 {
    FRAME + injected.iter().map(|(_, text)| Measure::of(text).spent() + STATEMENT).sum::<u32>()
}

fn count((part, whole): &mut (usize, usize), is_so: bool) {
    *part += usize::from(is_so);
    *whole += 1;
}

/// The injected passages, as the daemon would choose them.
fn injected_passages<'a>(
    everything: &'a Everything,
    (one, found): (&Asked, &PassageMatches),
    weights: &Weights,
    floors: Floors,
) -> Vec<(&'a SessionPassage, String)> {
    let PromptDecision { chosen, .. } = decide(&one.situation(), found, weights, floors);
    if chosen.is_empty() {
        return Vec::new();
    }
    // What the session has said is no news.
    let mut known: Vec<Words> = one.conversation.iter().map(|text| Words::of(text)).collect();
    known.push(Words::of(&one.prompt));
    let mut choice = StatementChoice::beside(known, most(&one.situation()));
    let mut texts = Vec::new();
    for judged in chosen {
        if choice.is_full() {
            break;
        }
        let passage = &everything.passages[&judged.key];
        let is_of_another = asked::is_of_another_number(&one.prompt, &passage.passage.whole());
        if is_of_another || !is_statement(judged.key.document.kind, &passage.passage.text) {
            continue;
        }
        let most = tokens_of_each(&one.situation());
        let Some(line) = line(passage, found, most) else { continue };
        texts.push(passage.text());
        choice.add(Words::of(&passage.text()), passage.at, (passage, line));
    }
    if asked::names_what_is_unknown(&one.prompt, texts.iter().map(String::as_str)) {
        return Vec::new();
    }
    let mut spent = FRAME;
    let mut statements = Vec::new();
    for (passage, text) in choice.into_best() {
        let cost = Measure::of(&text).spent() + STATEMENT;
        if spent >= FRAME + ENOUGH_TOKENS {
            break;
        }
        if spent + cost <= BUDGET {
            spent += cost;
            statements.push((passage, text));
        }
    }
    statements
}

/// The injected part of a passage.
fn line(passage: &SessionPassage, found: &PassageMatches, most: u32) -> Option<String> {
    let line = recall_compression::injected_line(&passage.passage, passage.kind, &found.terms, most)?;
    Some(format!("{}{}{}", line.heading, if line.heading.is_empty() { "" } else { ": " }, line.text))
}

/// Of the passages that are found for a question and hold its answer, the share of which the line still holds it.
#[derive(Default)]
pub(crate) struct LineScore {
    passages: usize,
    kept: usize,
    silent: usize,
    tokens: u32,
}

impl LineScore {
    pub(crate) const HEADER: &str = "| tokens of a line, most | passages with the answer | kept | nothing told | tokens, mean |\n|---|---:|---:|---:|---:|";

    pub(crate) fn of(everything: &Everything, most: u32) -> Self {
        let mut score = Self::default();
        for one in &everything.asked {
            let Occasion::Own(number) = one.occasion else { continue };
            let question = &everything.questions[number];
            for found in &one.found.matches {
                let passage = &everything.passages[&found.key];
                let holds = question.relevant_sessions.contains(&passage.session)
                    && !question.terms.is_empty()
                    && corpus::answers(&question.terms, &passage.text());
                if !holds || !is_statement(passage.kind, &passage.passage.text) {
                    continue;
                }
                score.passages += 1;
                match line(passage, &one.found, most) {
                    Some(line) => {
                        score.kept += usize::from(corpus::answers(&question.terms, &line));
                        score.tokens += Measure::of(&line).spent();
                    }
                    None => score.silent += 1,
                }
            }
        }
        score
    }

    pub(crate) fn row(&self, most: u32) -> String {
        let share = |part: usize| 100.0 * part as f64 / self.passages.max(1) as f64;
        let injected = u32::try_from(self.passages - self.silent).unwrap_or(1).max(1);
        format!(
            "| {most} | {} | {:.1} | {:.1} | {} |",
            self.passages,
            share(self.kept),
            share(self.silent),
            self.tokens / injected
        )
    }
}

/// Prints what is injected at this many moments of each project, drawn by a hash of their places.
pub(crate) fn show(everything: &Everything, each: usize) {
    let weights = recall_domain::injection::built_in();
    let mut samples: Vec<(String, u64, String)> = Vec::new();
    for one in &everything.asked {
        let Occasion::Moment(number) = one.occasion else { continue };
        let search = if one.found_by_meaning.is_some() { Search::Meaning } else { Search::Words };
        let Some(found) = one.found(search) else { continue };
        let injected = injected_passages(everything, (one, found), weights, FLOORS);
        if injected.is_empty() {
            continue;
        }
        let moment = &everything.moments[number];
        let mut shown = format!("== {}, need {}\n{}\n", moment.place(), moment.need, beginning(&one.prompt));
        for (source, text) in injected {
            let is_good = if moment.is_of_good_session(source) { "good" } else { "other" };
            shown.push_str(&format!("-> {is_good} {:?}: {text}\n", source.kind));
        }
        samples.push((one.project.clone(), hash(&moment.place()), shown));
    }
    samples.sort();
    let mut of_project = (String::new(), 0);
    for (project, _, shown) in samples {
        if of_project.0 != project {
            of_project = (project, 0);
        }
        of_project.1 += 1;
        if of_project.1 <= each {
            println!("{shown}");
        }
    }
}

/// The number of characters of a prompt to show.
const SHOWN: usize = 400;

fn beginning(prompt: &str) -> String {
    prompt.chars().take(SHOWN).collect()
}

/// FNV-1a: the same on every machine.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
