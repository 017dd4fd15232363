//! Learns whether a prompt is one that other sessions can help with, and whether a passage is an answer.

use recall_domain::injection::{
    ANSWER, ANSWER_BY_MEANING, KNOWN, KNOWN_BY_MEANING, NEED, NEED_BY_MEANING, PROMPT, best_told, candidate,
    judge, known, need_of, probabilities,
    prompt::{self, Situation},
    prompt_probability,
};
use recall_domain::linear::{Linear, Weights};
use recall_domain::passage::{PassageKey, PassageMatches};

use crate::asked::{Asked, Everything, Occasion, Search};
use crate::corpus::{self, Label};
use crate::logistic::Examples;

/// Shrinkage of each model.
const OF_PROMPT: f64 = 20.0;
const OF_ANSWER: f64 = 33.0;
const OF_KNOWN: f64 = 30.0;
/// With vectors there are more features, and as few questions.
const OF_KNOWN_BY_MEANING: f64 = 60.0;
const OF_NEED: f64 = 20.0;
/// A moment at which somebody who remembers would certainly speak counts more than one at which he might or should not.
const CERTAIN_NEED: f64 = 2.0;
/// So many of the best passages are examples.
const OWN: usize = 50;
const ELSEWHERE: usize = 10;
/// A question counts less than a real prompt, because somebody made it up.
const QUESTION: f64 = 0.4;
/// A passage of a session that answers, but not the answer itself.
const BESIDE: f64 = 0.5;
/// The passages of all wrong projects together, each as much as one of the right project.
const WRONG_PROJECTS: f64 = 1.0;

/// The models, without the examples of one project. Without vectors there are none of meaning.
pub(crate) fn train(everything: &Everything, without: Option<&String>) -> Weights {
    let is_taken = |one: &&Asked| without.is_none_or(|held| one.project != *held && one.place != *held);
    let asked: Vec<&Asked> = everything.asked.iter().filter(is_taken).collect();
    let places = everything.projects.iter().filter(|project| Some(*project) != without).count();
    let elsewhere = WRONG_PROJECTS / places.saturating_sub(1).max(1) as f64;
    let mut weights = Weights::none();
    let (names, linear) = of_prompts(&asked);
    put(&mut weights, PROMPT, names, linear);
    for (search, answer, known, need) in [
        (Search::Words, ANSWER, KNOWN, NEED),
        (Search::Meaning, ANSWER_BY_MEANING, KNOWN_BY_MEANING, NEED_BY_MEANING),
    ] {
        let found: Vec<(&Asked, &PassageMatches)> =
            asked.iter().filter_map(|one| Some((*one, one.found(search)?))).collect();
        if found.is_empty() {
            continue;
        }
        let (names, mut linear) = of_answers(everything, &found, search, elsewhere);
        if search == Search::Meaning {
            linear = beside(weights.model(ANSWER), linear);
        }
        put(&mut weights, answer, names, linear);
        // It judges what the model before has judged.
        let (names, linear) = of_known(&found, search, elsewhere, &weights);
        put(&mut weights, known, names, linear);
        let (names, linear) = of_needs(everything, &found, search, &weights);
        put(&mut weights, need, names, linear);
    }
    weights
}

fn put(weights: &mut Weights, model: &str, names: Vec<&str>, linear: Linear) {
    weights.models.insert(model.to_owned(), (names.into_iter().map(str::to_owned).collect(), linear));
}

/// The mean of the log odds of two models. The features of `more` begin with those of `words`.
///
/// Words and vectors find different answers, and a model of both that learns from a hundred questions forgets some of what
/// the words alone say. On projects that were left out, the mean puts an answer among the first four passages for 46 of
/// 119 questions; either model alone does for 39.
fn beside(words: &Linear, more: Linear) -> Linear {
    let of_words = words.weights.iter().copied().chain(std::iter::repeat(0.0));
    let weights = more.weights.iter().zip(of_words).map(|(more, words)| (more + words) / 2.0).collect();
    Linear { bias: (more.bias + words.bias) / 2.0, weights }
}

fn of_prompts(asked: &[&Asked]) -> (Vec<&'static str>, Linear) {
    let mut examples = Examples::default();
    let mut names = Vec::new();
    // The questions of the set all open a session. Real ones come anywhere, so each also stands where a real prompt stood.
    let mut later = asked.iter().filter(|one| matches!(one.occasion, Occasion::Passing(_))).cycle();
    for one in asked {
        let features = prompt::features(&one.situation());
        names = features.names();
        if let (Occasion::Own(_), Some(there)) = (one.occasion, later.next()) {
            let situation = Situation { prompt: &one.prompt, ..there.situation() };
            examples.add(prompt::features(&situation).values(), true, QUESTION);
        }
        match one.occasion {
            Occasion::Passing(Label::Silent) => examples.add(features.values(), false, 1.0),
            Occasion::Passing(Label::Lookup) => examples.add(features.values(), true, 1.0),
            Occasion::Own(_) => examples.add(features.values(), true, QUESTION),
            Occasion::Passing(Label::Either) | Occasion::Elsewhere(..) | Occasion::Moment(_) => {}
        }
    }
    (names, examples.fit(OF_PROMPT))
}

fn of_answers(
    everything: &Everything,
    found: &[(&Asked, &PassageMatches)],
    search: Search,
    elsewhere: f64,
) -> (Vec<&'static str>, Linear) {
    let mut examples = Examples::default();
    let mut names = Vec::new();
    for (one, found) in found {
        let most = match one.occasion {
            Occasion::Own(_) => OWN,
            Occasion::Elsewhere(..) => ELSEWHERE,
            Occasion::Passing(_) | Occasion::Moment(_) => continue,
        };
        // Candidates found by meaning alone have no strength, so they come last.
        let candidates = candidate::candidates(found);
        let close = candidates.iter().filter(|one| one.found.strength <= 0.0);
        let strong = candidates.iter().filter(|one| one.found.strength > 0.0).take(most);
        for candidate in strong.chain(close.take(most)) {
            let features = match search {
                Search::Words => &candidate.words,
                Search::Meaning => candidate.meaning.as_ref().unwrap_or(&candidate.words),
            };
            if search == Search::Meaning && candidate.meaning.is_none() {
                continue;
            }
            names = features.names();
            match one.occasion {
                Occasion::Own(number) => {
                    let (is_answer, share) = is_answer(everything, number, candidate.found.key);
                    examples.add(features.values(), is_answer, share);
                }
                _ => examples.add(features.values(), false, elsewhere),
            }
        }
    }
    (names, examples.fit(OF_ANSWER))
}

/// A question is known in the project that it is about, and in no other.
fn of_known(
    found: &[(&Asked, &PassageMatches)],
    search: Search,
    elsewhere: f64,
    weights: &Weights,
) -> (Vec<&'static str>, Linear) {
    let mut examples = Examples::default();
    let mut names = Vec::new();
    for (one, found) in found {
        let (is_known, share) = match one.occasion {
            Occasion::Own(_) => (true, 1.0),
            Occasion::Elsewhere(..) => (false, elsewhere),
            Occasion::Passing(_) | Occasion::Moment(_) => continue,
        };
        let features = known::features(found, &probabilities(&judge(found, weights)));
        let features = match search {
            Search::Words => Some(features.words),
            Search::Meaning => features.meaning,
        };
        let Some(features) = features else { continue };
        names = features.names();
        examples.add(features.values(), is_known, share);
    }
    let shrinkage = match search {
        Search::Words => OF_KNOWN,
        Search::Meaning => OF_KNOWN_BY_MEANING,
    };
    (names, examples.fit(shrinkage))
}

/// Somebody who remembers would speak up if the best passage is of a session that says what should be said here.
fn of_needs(
    everything: &Everything,
    found: &[(&Asked, &PassageMatches)],
    search: Search,
    weights: &Weights,
) -> (Vec<&'static str>, Linear) {
    let mut examples = Examples::default();
    let mut names = Vec::new();
    for (one, found) in found {
        let situation = one.situation();
        if prompt::opens_with_a_question(&situation) || prompt::is_pasted(&situation) {
            continue;
        }
        let judged = judge(found, weights);
        let Some((best, _)) = best_told(&judged) else { continue };
        let (is_wanted, share) = match one.occasion {
            Occasion::Moment(number) => {
                let moment = &everything.moments[number];
                let Some(wanted) = moment.wants(&everything.passages[&best.key]) else { continue };
                (wanted, if moment.need > 1 { CERTAIN_NEED } else { 1.0 })
            }
            Occasion::Passing(Label::Silent) => (false, 1.0),
            Occasion::Passing(_) | Occasion::Own(_) | Occasion::Elsewhere(..) => continue,
        };
        let features = need_of(&situation, prompt_probability(&situation, weights), &judged);
        let features = features.and_then(|features| match search {
            Search::Words => Some(features.words),
            Search::Meaning => features.meaning,
        });
        let Some(features) = features else { continue };
        names = features.names();
        examples.add(features.values(), is_wanted, share);
    }
    (names, examples.fit(OF_NEED))
}

/// Whether a passage answers a question, and how much that example counts.
fn is_answer(everything: &Everything, number: usize, key: PassageKey) -> (bool, f64) {
    let question = &everything.questions[number];
    let told = &everything.passages[&key];
    let is_right_session = question.relevant_sessions.contains(&told.session);
    if question.terms.is_empty() {
        return (is_right_session, 1.0);
    }
    let is_answer = corpus::answers(&question.terms, &told.text());
    (is_answer, if is_right_session && !is_answer { BESIDE } else { 1.0 })
}
