//! Finds a user's lasting statements in short prompts: preferences, reminders, corrections, decisions, people.

use super::incidents;
use crate::salience::sentences::sentences;
use crate::wording;
use recall_domain::material::{Action, BatchMaterial, BatchSource};
use recall_domain::observation::{ObservationDraft, ObservationType};
use recall_domain::subject;

/// Longer prompts are judged by the weights alone, because most of their text is a task.
const LONGEST_PROMPT: usize = 500;
const LONGEST_SENTENCE: usize = 200;
const FEWEST_WORDS: usize = 4;
/// `Anna owns billing`.
const FEWEST_OF_CONTACT: usize = 3;
const FEWEST_OF_TITLE: usize = 3;
const MOST: usize = 2;
const IMPORTANCE: i64 = 8;

/// The sentences of a prompt that remain valid after it.
pub(super) fn of_batch(batch: &BatchMaterial) -> Vec<ObservationDraft> {
    if !matches!(batch.source, BatchSource::User | BatchSource::Queued) {
        return Vec::new();
    }
    let Some(prompt) = &batch.prompt else { return Vec::new() };
    let own = wording::typed_words(&prompt.text);
    if own.len() > LONGEST_PROMPT {
        return Vec::new();
    }
    let candidates = own.lines().flat_map(sentences).filter(|sentence| {
        sentence.len() <= LONGEST_SENTENCE
            && !sentence.ends_with('?')
            && sentence.split_whitespace().count() >= FEWEST_OF_CONTACT
    });
    let draft = |sentence: &str| {
        let kind = wording::holds_beyond(sentence)?;
        let is_long = sentence.split_whitespace().count() >= FEWEST_WORDS;
        let holds = match kind {
            ObservationType::Contact => true,
            _ if !is_long => false,
            ObservationType::Preference => true,
            // Work that was deferred and then done in the same turn is not open.
            ObservationType::NextStep => !batch
                .steps
                .iter()
                .any(|step| matches!(step.action, Action::Edit { .. } | Action::Write { .. })),
            ObservationType::Correction => batch.previous_response.is_some(),
            ObservationType::Decision => sentence.to_lowercase().contains("decided "),
            _ => false,
        };
        if !holds || is_reference(sentence) || kind.is_standing() && wording::is_report(sentence) {
            return None;
        }
        let title = wording::clean_title(&wording::statement(sentence))?;
        let is_of_moment = matches!(kind, ObservationType::Preference | ObservationType::Correction)
            && is_of_moment(&title.text);
        if title.text.split_whitespace().count() < FEWEST_OF_TITLE || is_of_moment {
            return None;
        }
        let draft = incidents::draft(kind, title.text, IMPORTANCE, prompt.event);
        Some(ObservationDraft {
            narrative: title.rest,
            subject: subject::of_title(kind, &draft.title),
            ..draft
        })
    };
    candidates.filter_map(draft).take(MOST).collect()
}

/// Whether a statement refers to this conversation, such as `I meant the tray`, `This is wrong: the tray`, or `Tell
/// me your plan`. It would make no sense in another one.
fn is_of_moment(title: &str) -> bool {
    // `That's wrong, the oven reports Fahrenheit`: the second part counts.
    let statement = match title.split_once(", ") {
        Some((no, right)) if no.split_whitespace().count() < FEWEST_OF_TITLE => right,
        _ => title,
    };
    let words: Vec<String> = statement.split_whitespace().map(str::to_lowercase).collect();
    let stands_in = |word: &String| {
        let subject = word.split(['\'', '\u{2019}', ',', ':']).next().unwrap_or_default();
        matches!(subject, "i" | "it" | "this" | "that" | "these" | "those" | "they")
    };
    let asks =
        matches!(words.first().map(String::as_str), Some("tell" | "show" | "give" | "explain" | "help"))
            && words.get(1).is_some_and(|word| word == "me");
    asks || words.iter().take(2).any(stands_in)
}

/// Whether a statement refers to something elsewhere, such as `B) as you said`, `use option A`, or `for 2. do more`.
fn is_reference(sentence: &str) -> bool {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let is_entry = |word: &str| {
        let inner = word.trim_start_matches('(').trim_end_matches([')', '.', ':']);
        inner.len() < word.len()
            && inner.len() == 1
            && inner.chars().all(|c| c.is_ascii_alphanumeric() && c != 'I')
    };
    let named = |word: &str| {
        matches!(word.to_lowercase().as_str(), "option" | "options" | "variant" | "point" | "approach")
    };
    let is_number = |word: &&str| word.chars().all(|c| c.is_ascii_digit());
    words.first().is_some_and(is_number)
        || words.iter().take(3).any(|word| is_entry(word))
        || words.windows(2).any(|pair| match pair {
            [one, next] => named(one) && next.trim_matches(|c: char| !c.is_alphanumeric()).len() == 1,
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_domain::ids::EventId;
    use recall_domain::material::SourcedText;

    fn asked(prompt: &str) -> BatchMaterial {
        let prompt = Some(SourcedText { event: EventId([1; 16]), text: prompt.to_owned() });
        BatchMaterial { prompt, ..BatchMaterial::default() }
    }

    /// The types and titles found in a prompt that follows an answer.
    fn statements(prompt: &str) -> Vec<(ObservationType, String)> {
        let batch = BatchMaterial { previous_response: Some("Done.".to_owned()), ..asked(prompt) };
        of_batch(&batch).into_iter().map(|draft| (draft.kind, draft.title)).collect()
    }

    #[test]
    fn lasting_statements_in_prompts_are_kept_with_their_type() {
        use ObservationType as T;
        for (prompt, kind, title) in [
            ("We decided to drop Windows", T::Decision, "Decided to drop Windows"),
            ("Remind me to rotate the key", T::NextStep, "Rotate the key"),
            ("remind me to rotate the key tomorrow.", T::NextStep, "Rotate the key tomorrow"),
            ("Anna owns billing", T::Contact, "Anna owns billing"),
            ("Anna owns billing.", T::Contact, "Anna owns billing"),
            ("Please never push to main", T::Preference, "Never push to main"),
            ("I prefer tabs over spaces", T::Preference, "The user prefers tabs over spaces"),
            ("No, the total is rounded before the tax", T::Correction, "The total is rounded before the tax"),
        ] {
            assert_eq!(statements(prompt), [(kind, title.to_owned())], "{prompt}");
        }
    }

    #[test]
    fn only_lasting_statements_are_kept_and_their_title_has_the_reason() {
        use ObservationType as T;
        for (prompt, kind) in [
            ("Return an error, don't panic: a crash stops the oven", Some(T::Preference)),
            ("Don't sort in the view, because the table pages on its own", Some(T::Preference)),
            ("Never round before the tax: the office counts cents", Some(T::Preference)),
            ("Avoid global state since the workers share one process", Some(T::Preference)),
            ("Always write amounts in cents", Some(T::Preference)),
            ("From now on every migration has a way back", Some(T::Preference)),
            ("I prefer small commits with a reason in each", Some(T::Preference)),
            ("Please always ask before you delete a branch", Some(T::Preference)),
            ("We should never log a customer's address", Some(T::Preference)),
            ("Whenever a price changes, bump the catalogue version", Some(T::Preference)),
            ("Stick to the names of the ledger in the interface", Some(T::Preference)),
            ("Actually, use spaces in these files", Some(T::Correction)),
            ("Actually always keep the old receipt", Some(T::Correction)),
            ("Stop stubbing the clock in unit tests", Some(T::Correction)),
            ("Stop wrapping every error twice", Some(T::Correction)),
            ("No, the discount is taken after the tax", Some(T::Correction)),
            ("That's wrong, the oven reports Fahrenheit", Some(T::Correction)),
            ("That's not what the baker means by a batch", None),
            ("I meant the label of the second tray", None),
            ("I told you that I always close the oven myself", None),
            ("This is wrong: the label of the second tray", None),
            ("2 looks decent, though from now on I prefer larger trays", None),
            ("Tell me your plan for avoiding this from now on", None),
            ("We decided to keep the old importer for a year", Some(T::Decision)),
            ("Remind me to renew the certificate", Some(T::NextStep)),
            ("Clara owns the invoices", Some(T::Contact)),
            ("Ask Jonas about the oven's protocol", Some(T::Contact)),
            ("Which flour do we use", None),
            ("What lacquer do we use for oak", None),
            ("How do we always end up here", None),
            ("That's not a problem at all", None),
            ("That's not an issue for the bakery", None),
            ("That is not needed for the release", None),
            ("Don't push yet, because the pipeline is red", None),
            ("Don't touch the importer now: it is being migrated", None),
            ("Stop the server and start it again", None),
            ("Stop running the build now", None),
            ("Actually I am not sure about the tray", None),
            ("Do we never round before the tax", None),
            ("Add a column for the tray and show it in the list", None),
            ("Make the button wider than the label", None),
            ("Yes, go on with the second one", None),
            ("The oven is never warm when I come in", None),
            ("It looks good to me, please continue", None),
            ("Should we always ask before deleting", None),
            ("Where do we use the old importer", None),
        ] {
            let statements = statements(prompt);
            assert_eq!(statements.first().map(|(kind, _)| *kind), kind, "{prompt}: {statements:?}");
            assert!(statements.len() < 2, "{prompt}: {statements:?}");
            // The title contains the reason.
            let why = prompt.rsplit(' ').next().unwrap_or_default();
            assert!(statements.iter().all(|(_, title)| title.ends_with(why)), "{statements:?}");
        }
    }

    #[test]
    fn a_preference_is_found_beside_a_task() {
        let statements =
            statements("Add a cache to the rates. From now on always run the linter before a commit!");
        assert_eq!(statements.len(), 1, "{statements:?}");
        assert_eq!(statements[0].0, ObservationType::Preference);
    }

    #[test]
    fn tasks_questions_and_assent_are_not_kept() {
        for prompt in [
            "yes",
            "I like it",
            "Round the totals of the cart once",
            "Should we never push to main?",
            "Why is Anna in the list of owners?",
            "```\nnever push to main\n```",
            "> we decided to drop Windows",
            "B) I want this as a separate feature",
            "For 2. always keep the cart",
            "Always use option B",
            "We don't need to commit this yet",
            "I want to know if the comment is right",
            "Reduce the code, this is to be done in one place",
            "The README says to always use tabs",
            "What does this mail mean?\n\nFrom now on always deploy on Fridays.",
            "Can we do that?\n\nHi team,\nfrom now on we always deploy on Fridays.\n\nBest,\nBob",
            "<file path=\"README.md\">\nAlways use tabs in all files.\n</file>\nWhat is it about?",
        ] {
            assert_eq!(statements(prompt), [], "{prompt}");
        }
    }

    #[test]
    fn a_prompt_without_an_earlier_answer_is_no_correction() {
        assert_eq!(of_batch(&asked("No, the total is rounded before the tax")), []);
    }

    #[test]
    fn private_and_long_prompts_are_not_searched_for_statements() {
        let by_machine =
            BatchMaterial { source: BatchSource::Private, ..asked("We decided to drop Windows") };
        assert_eq!(of_batch(&by_machine), []);
        assert_eq!(statements(&format!("We decided to drop Windows. {}", "It goes on. ".repeat(60))), []);
    }
}
