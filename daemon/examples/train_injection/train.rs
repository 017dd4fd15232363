//! Trains two models: whether other sessions can help with a prompt, and whether a passage is an answer.

use recall_domain::injection::model::{ANSWER, FeatureSet, KNOWN, Model, NEED, PROMPT};
use recall_domain::injection::prompt::{self, Situation};
use recall_domain::injection::{best_injectable, candidate, judge, known, need_of, of_prompt, probabilities};
use recall_domain::linear::{Features, Linear, Weights};
use recall_domain::passage::{PassageKey, PassageMatches};

use crate::asked::{Asked, Everything, Occasion, Search};
use crate::corpus::{self, Label};
use crate::logistic::Examples;

/// How one model is trained.
struct Lesson {
    model: Model,
    /// What it learns from.
    examples: fn(&Material<'_>) -> Examples,
    /// Shrinkage with words alone. With vectors there are more features, and as few questions.
    shrinkage: f64,
    shrinkage_with_vectors: f64,
}

/// Each uses the results of those before it.
const LESSONS: [Lesson; 4] = [
    Lesson { model: PROMPT, examples: of_prompts, shrinkage: 20.0, shrinkage_with_vectors: 20.0 },
    Lesson { model: ANSWER, examples: of_answers, shrinkage: 33.0, shrinkage_with_vectors: 33.0 },
    Lesson { model: KNOWN, examples: of_known, shrinkage: 30.0, shrinkage_with_vectors: 60.0 },
    Lesson { model: NEED, examples: of_needs, shrinkage: 20.0, shrinkage_with_vectors: 20.0 },
];

/// A moment with a certain need counts more than one with a possible need or none.
const CERTAIN_NEED: f64 = 2.0;
/// The number of best passages that become examples.
const OWN: usize = 50;
const ELSEWHERE: usize = 10;
/// A question counts less than a real prompt, because somebody made it up.
const QUESTION: f64 = 0.4;
/// A passage of the right session that is not the answer itself.
const BESIDE: f64 = 0.5;
/// The passages of all wrong projects together, each as much as one of the right project.
const WRONG_PROJECTS: f64 = 1.0;

/// The training data.
struct Material<'a> {
    everything: &'a Everything,
    found: Vec<(&'a Asked, &'a PassageMatches)>,
    search: Search,
    /// How much an example of a wrong project counts.
    elsewhere: f64,
    /// The models that have been learned.
    weights: Weights,
}

impl Material<'_> {
    /// The features that this search has.
    fn of<'b>(&self, features: &'b FeatureSet) -> Option<&'b Features> {
        match self.search {
            Search::Words => Some(&features.words),
            Search::Meaning => features.meaning.as_ref(),
        }
    }
}

/// The models, without the examples of one project. Without vectors there are none of meaning.
pub(crate) fn train(everything: &Everything, without: Option<&String>) -> Weights {
    let is_taken = |one: &&Asked| without.is_none_or(|held| one.project != *held && one.place != *held);
    let asked: Vec<&Asked> = everything.asked.iter().filter(is_taken).collect();
    let places = everything.projects.iter().filter(|project| Some(*project) != without).count();
    let elsewhere = WRONG_PROJECTS / places.saturating_sub(1).max(1) as f64;
    let mut weights = Weights::none();
    for search in [Search::Words, Search::Meaning] {
        let found: Vec<_> = asked.iter().filter_map(|one| Some((*one, one.found(search)?))).collect();
        if found.is_empty() {
            continue;
        }
        let mut material = Material { everything, found, search, elsewhere, weights };
        for lesson in LESSONS {
            let (section, shrinkage) = match search {
                Search::Words => (Some(lesson.model.words), lesson.shrinkage),
                Search::Meaning => (lesson.model.meaning, lesson.shrinkage_with_vectors),
            };
            let Some(section) = section else { continue };
            let examples = (lesson.examples)(&material);
            let mut linear = examples.fit(shrinkage);
            if search == Search::Meaning && lesson.model == ANSWER {
                linear = beside(material.weights.model(ANSWER.words), linear);
            }
            let names = examples.names.into_iter().map(str::to_owned).collect();
            material.weights.models.insert(section.to_owned(), (names, linear));
        }
        weights = material.weights;
    }
    weights
}

/// The mean of the log odds of two models. The features of `more` begin with those of `words`.
///
/// Words and vectors find different answers, and a model of both that learns from a hundred questions forgets some of
/// what the words alone say. On projects that were left out, the mean puts an answer among the first four passages for
/// 46 of 119 questions; either model alone does for 39.
fn beside(words: &Linear, more: Linear) -> Linear {
    let of_words = words.weights.iter().copied().chain(std::iter::repeat(0.0));
    let weights = more.weights.iter().zip(of_words).map(|(more, words)| (more + words) / 2.0).collect();
    Linear { bias: (more.bias + words.bias) / 2.0, weights }
}

fn of_prompts(material: &Material<'_>) -> Examples {
    let mut examples = Examples::default();
    let asked = || material.found.iter().map(|(one, _)| *one);
    // The questions of the set all open a session. Real ones come anywhere, so each also stands where a real prompt stood.
    let mut later = asked().filter(|one| matches!(one.occasion, Occasion::Passing(_))).cycle();
    for one in asked() {
        let features = prompt::features(&one.situation());
        if let (Occasion::Own(_), Some(there)) = (one.occasion, later.next()) {
            let situation = Situation { prompt: &one.prompt, ..there.situation() };
            examples.add(&prompt::features(&situation), true, QUESTION);
        }
        match one.occasion {
            Occasion::Passing(Label::Silent) => examples.add(&features, false, 1.0),
            Occasion::Passing(Label::Lookup) => examples.add(&features, true, 1.0),
            Occasion::Own(_) => examples.add(&features, true, QUESTION),
            Occasion::Passing(Label::Either) | Occasion::Elsewhere(..) | Occasion::Moment(_) => {}
        }
    }
    examples
}

fn of_answers(material: &Material<'_>) -> Examples {
    let mut examples = Examples::default();
    for (one, found) in &material.found {
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
            let Some(features) = material.of(&candidate.features) else { continue };
            let (is_answer, share) = match one.occasion {
                Occasion::Own(number) => is_answer(material.everything, number, candidate.found.key),
                _ => (false, material.elsewhere),
            };
            examples.add(features, is_answer, share);
        }
    }
    examples
}

/// A question is known in the project that it is about, and in no other.
fn of_known(material: &Material<'_>) -> Examples {
    let mut examples = Examples::default();
    for (one, found) in &material.found {
        let (is_known, share) = match one.occasion {
            Occasion::Own(_) => (true, 1.0),
            Occasion::Elsewhere(..) => (false, material.elsewhere),
            Occasion::Passing(_) | Occasion::Moment(_) => continue,
        };
        let features = known::features(found, &probabilities(&judge(found, &material.weights)));
        let Some(features) = material.of(&features) else { continue };
        examples.add(features, is_known, share);
    }
    examples
}

/// There is a need if the best passage belongs to a session that contains what should be said here.
fn of_needs(material: &Material<'_>) -> Examples {
    let (everything, weights) = (material.everything, &material.weights);
    let mut examples = Examples::default();
    for (one, found) in &material.found {
        let situation = one.situation();
        if prompt::opens_with_a_question(&situation) || prompt::is_pasted(&situation) {
            continue;
        }
        let judged = judge(found, weights);
        let Some((best, _)) = best_injectable(&judged) else { continue };
        let (is_wanted, share) = match one.occasion {
            Occasion::Moment(number) => {
                let moment = &everything.moments[number];
                let Some(wanted) = moment.wants(&everything.passages[&best.key]) else { continue };
                (wanted, if moment.need > 1 { CERTAIN_NEED } else { 1.0 })
            }
            Occasion::Passing(Label::Silent) => (false, 1.0),
            Occasion::Passing(_) | Occasion::Own(_) | Occasion::Elsewhere(..) => continue,
        };
        let features = need_of(&situation, of_prompt(&situation, weights).probability, &judged);
        let Some(features) = features.as_ref().and_then(|features| material.of(features)) else { continue };
        examples.add(features, is_wanted, share);
    }
    examples
}

/// Whether a passage answers a question, and how much that example counts.
fn is_answer(everything: &Everything, number: usize, key: PassageKey) -> (bool, f64) {
    let question = &everything.questions[number];
    let passage = &everything.passages[&key];
    let is_right_session = question.relevant_sessions.contains(&passage.session);
    if question.terms.is_empty() {
        return (is_right_session, 1.0);
    }
    let is_answer = corpus::answers(&question.terms, &passage.text());
    (is_answer, if is_right_session && !is_answer { BESIDE } else { 1.0 })
}
