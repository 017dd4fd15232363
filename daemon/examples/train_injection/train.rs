//! Learns whether a prompt is one that other sessions can help with, and whether a passage is an answer.

use recall::memory::injection::{ANSWER, PROMPT, candidate, prompt};
use recall::memory::linear::{Features, Linear, Weights};
use recall::memory::passage::PassageKey;

use crate::asked::{Asked, Everything, Occasion};
use crate::corpus::{self, Label};
use crate::logistic::Examples;

/// Shrinkage of each model.
const OF_PROMPT: f64 = 20.0;
const OF_ANSWER: f64 = 33.0;
/// So many of the strongest passages are examples.
const OWN: usize = 30;
const ELSEWHERE: usize = 5;
/// A question counts less than a real prompt, because somebody made it up.
const QUESTION: f64 = 0.4;
/// A passage of a session that answers, but not the answer itself.
const BESIDE: f64 = 0.5;
/// The passages of all wrong projects together, each as much as one of the right project.
const WRONG_PROJECTS: f64 = 1.0;

/// The models, without the examples of one project.
pub(crate) fn train(everything: &Everything, without: Option<&String>) -> Weights {
    let (mut prompts, mut answers) = (Examples::default(), Examples::default());
    let (mut prompt_names, mut answer_names) = (Vec::new(), Vec::new());
    let is_taken = |one: &&Asked| without.is_none_or(|held| one.project != *held && one.place != *held);
    let places = everything.projects.len() - usize::from(without.is_some());
    let wrong_places = places.saturating_sub(1).max(1) as f64;
    for one in everything.asked.iter().filter(is_taken) {
        let features = prompt::features(&one.situation());
        prompt_names = features.names();
        match one.occasion {
            Occasion::Passing(Label::Silent) => prompts.add(features.values(), false, 1.0),
            Occasion::Passing(Label::Lookup) => prompts.add(features.values(), true, 1.0),
            Occasion::Passing(Label::Either) => {}
            Occasion::Own(_) => prompts.add(features.values(), true, QUESTION),
            Occasion::Elsewhere(..) => {}
        }
        for (key, features) in judged(one) {
            answer_names = features.names();
            match one.occasion {
                Occasion::Own(number) => {
                    let (is_answer, share) = is_answer(everything, number, key);
                    answers.add(features.values(), is_answer, share);
                }
                Occasion::Elsewhere(..) => {
                    answers.add(features.values(), false, WRONG_PROJECTS / wrong_places)
                }
                Occasion::Passing(_) => {}
            }
        }
    }
    let mut weights = Weights::none();
    let mut put = |model: &str, names: Vec<&str>, linear: Linear| {
        weights.models.insert(model.to_owned(), (names.into_iter().map(str::to_owned).collect(), linear));
    };
    put(PROMPT, prompt_names, prompts.fit(OF_PROMPT));
    put(ANSWER, answer_names, answers.fit(OF_ANSWER));
    weights
}

/// The passages of one question that are examples.
fn judged(one: &Asked) -> Vec<(PassageKey, Features)> {
    let most = if matches!(one.occasion, Occasion::Elsewhere(..)) { ELSEWHERE } else { OWN };
    let found = candidate::features(&one.found).into_iter().take(most);
    found.map(|(found, features)| (found.key, features)).collect()
}

/// Whether a passage answers a question, and how much that example counts.
fn is_answer(everything: &Everything, number: usize, key: PassageKey) -> (bool, f64) {
    let question = &everything.questions[number];
    let told = &everything.passages[&key];
    let is_right_session = question.relevant_sessions.contains(&told.session);
    if question.terms.is_empty() {
        return (is_right_session, 1.0);
    }
    let is_answer = corpus::answers(&question.terms, &told.text);
    (is_answer, if is_right_session && !is_answer { BESIDE } else { 1.0 })
}
