//! What is left to do or to decide: at the end of an answer, and at the end of a session.

use super::candidate::{Candidate, CandidateSource, is_dependent};
use super::compose::Composed;
use super::cue;
use super::field::Field;
use super::gather;
use super::identifier;
use super::markdown::{self, Passage, Role, Sentence};
use super::request::{self, Answered};
use super::selection::SelectedTexts;
use super::sentence::{self, shortened};
use crate::memory::material::{BatchMaterial, SourcedText};
use crate::memory::observation::ObservationType;

/// Bytes of a summary's next steps, of those that the agent has listed, and of one of them.
const NEXT: usize = 200;
const LISTED: usize = 320;
const ENTRY: usize = 170;

/// What the answer leaves open: the last of its sentences that say so, with what they are about.
pub(super) fn candidate(answer: &SourcedText) -> Option<Candidate> {
    const CHOICE: &str =
        "which approach, which do you, which option, would you prefer, welche variante, either";
    let passages = markdown::passages(&answer.text);
    let (at, passage) = passages.iter().enumerate().rev().take(4).find(|(_, passage)| {
        let heading = passage.heading.as_deref().unwrap_or_default();
        cue::leaves_open(heading) || passage.sentences.iter().any(|sentence| cue::leaves_open(&sentence.text))
    })?;
    let leaves_open =
        |index: usize| passage.sentences.get(index).is_some_and(|sentence| cue::leaves_open(&sentence.text));
    let last = (0..passage.sentences.len()).rfind(|index| leaves_open(*index)).unwrap_or(0);
    let index = (0..last).rev().take_while(|index| leaves_open(*index)).last().unwrap_or(last);
    let open = passage.sentences.get(index)?;
    // A question of choice asks about what stands before it; anything else is explained by what follows.
    let is_choice = open.text.ends_with('?') && cue::mentions(&open.text, CHOICE);
    let leans = is_dependent(&open.text);
    let start = index.saturating_sub(if is_choice { 4 } else { usize::from(leans) });
    let end = if is_choice { index } else { index + 2 };
    let mut room = 420;
    let mut told: Vec<Sentence> = Vec::new();
    for sentence in passage.sentences.get(start..).unwrap_or_default().iter().take(end + 1 - start) {
        let is_talk = told.len() > index - start && cue::read(&sentence.text).talk > 0;
        if sentence.text.len() <= room && !is_talk {
            room -= sentence.text.len();
            told.push(Sentence { role: Role::Prose, ..sentence.clone() });
        }
    }
    if told.is_empty() {
        return None;
    }
    let title = told.remove(0).text;
    let names: usize = told.iter().map(|sentence| identifier::all(&sentence.text).len()).sum::<usize>()
        + identifier::all(&title).len();
    let mut candidate = Candidate::new(
        CandidateSource::OpenEnd,
        Passage { sentences: told, ..Passage::default() },
        answer.event,
    );
    let openings = ["Open question: ", "One heads-up: ", "Heads-up: ", "Next steps: ", "Next step: "];
    let title = openings.iter().find_map(|opening| title.strip_prefix(opening)).unwrap_or(&title);
    candidate.title = Some(format!("Open: {title}"));
    candidate.kind = Some(ObservationType::Decision);
    // Later batches settle most of what is left open in the middle; the end of the answer is its firmest place.
    candidate.bonus =
        if at + 1 == passages.len() { 25 } else { 12 } + 6 * i32::try_from(names.min(4)).unwrap_or(0);
    Some(candidate)
}

/// What the end of the session leaves open.
pub(super) fn next_steps(batches: &[&BatchMaterial], observed: &[Vec<Composed>]) -> String {
    let mut told = SelectedTexts::default();
    let ended = batches.iter().rposition(|batch| {
        gather::answer(batch).is_some_and(|answer| {
            answer.text.len() > 120
                || cue::read(&answer.text).open > 0
                || !listed(&markdown::passages(&answer.text)).is_empty()
        }) || request::own_words(batch).is_some_and(|words| request::is_substantial(&words))
    });
    let Some(last) = ended else { return String::new() };
    let answer = batches.get(last).and_then(|batch| gather::answer(batch));
    let listed = answer.map(|answer| listed(&markdown::passages(&answer.text))).unwrap_or_default();
    if !listed.is_empty() {
        // The agent has said it itself, in order.
        let mut field = Field::new(LISTED);
        for step in listed {
            field.add(&shortened(&step, ENTRY));
        }
        return field.text;
    }
    let mut field = Field::new(NEXT);
    let places = [(Some(last), TextPlace::Last), (last.checked_sub(1), TextPlace::Before)];
    for (index, place) in places.into_iter().filter_map(|(index, place)| Some((index?, place))) {
        let of_batch = observed.get(index).map_or(&[][..], Vec::as_slice);
        let entries = batches.get(index).map(|batch| open_ends(batch, of_batch, place));
        for entry in entries.unwrap_or_default() {
            let entry = shortened(&entry, ENTRY);
            if field.has_room(&entry) && told.is_new(&entry) {
                field.add(&entry);
            }
        }
        if field.text.len() > NEXT / 2 {
            break;
        }
    }
    // Earlier batches' ends may have been met since; what was only to be pushed or merged mostly has.
    let earlier = observed.iter().take(last.saturating_sub(1)).rev().flatten();
    for composed in earlier.filter(|composed| composed.origin == CandidateSource::OpenEnd) {
        let entry = shortened(composed.draft.title.trim_start_matches("Open: "), ENTRY);
        let settles_itself = entry.ends_with('?')
            || cue::mentions(&entry, "push, pushed, commit, committed, merge, merged, decision");
        if !settles_itself && field.has_room(&entry) && told.is_new(&entry) {
            field.add(&entry);
        }
    }
    field.text
}

/// What an answer lists under a heading like "Next steps", or after a line like "Still to do:".
fn listed(passages: &[Passage]) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    // A line of the passage before has announced the list, and its items have passages of their own.
    let mut announced: Option<&Option<String>> = None;
    for passage in passages {
        let headings = [passage.heading.as_deref(), passage.section.as_deref()];
        let mut headings = headings.into_iter().flatten();
        let own_lead = passage.heading.as_deref().filter(|heading| !cue::names_next_steps(heading));
        let goes_on = announced.is_some_and(|section| *section == passage.section && own_lead.is_some());
        if headings.any(cue::names_next_steps) || goes_on {
            steps.extend(steps_of(passage, own_lead));
            continue;
        }
        announced = None;
        let mut under = false;
        for sentence in &passage.sentences {
            match sentence.role {
                Role::Prose => {
                    under = cue::names_next_steps(&sentence.text);
                    steps.extend(in_one_line(&sentence.text));
                }
                Role::Item if under => steps.extend(step(&sentence.text)),
                Role::Item => {}
            }
        }
        if under && passage.sentences.last().is_some_and(|last| last.role == Role::Prose) {
            announced = Some(&passage.section);
        }
    }
    steps
}

/// The steps of a line like "Next: write the docs; ship it".
fn in_one_line(text: &str) -> Vec<String> {
    let Some((heading, rest)) = text.split_once(": ") else { return Vec::new() };
    // One word is a name or an address.
    if !cue::names_next_steps(heading) || rest.split_whitespace().count() < 2 {
        return Vec::new();
    }
    rest.split("; ").filter_map(step).collect()
}

/// The items of a passage about what is next; its sentences, where it has none.
fn steps_of(passage: &Passage, lead: Option<&str>) -> Vec<String> {
    let items = passage.sentences.iter().filter(|sentence| sentence.role == Role::Item);
    let items: Vec<String> = items.filter_map(|item| step(&item.text)).collect();
    if let Some(lead) = lead {
        // An item with a lead of its own.
        let first = passage.sentences.first().map_or("", |sentence| sentence.text.as_str());
        let whole = if first.is_empty() { lead.to_owned() } else { format!("{lead}: {first}") };
        return step(&whole).into_iter().collect();
    }
    if items.is_empty() {
        return passage.sentences.iter().filter_map(|sentence| step(&sentence.text)).collect();
    }
    items
}

/// An entry of a list. `None`: it is done, nothing, talk, or left alone on purpose.
fn step(text: &str) -> Option<String> {
    const NOTHING: &str = "none, nothing, n/a, keine, nichts";
    let text = text.trim();
    let is_done = ["[x]", "[X]", "~~"].iter().any(|mark| text.starts_with(mark));
    let text = text.trim_start_matches("[ ]").trim();
    let is_talk = cue::read(text).talk > 0 && text.ends_with('?');
    let is_nothing = text.len() < 40 && cue::begins_with(&format!("{text} "), NOTHING);
    let counts =
        !is_done && !is_talk && !is_nothing && !cue::is_left_alone(text) && !cue::names_next_steps(text);
    (counts && !text.is_empty()).then(|| text.to_owned())
}

/// Where a batch stands at the session's end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextPlace {
    Last,
    /// Its questions have had an answer: the next prompt.
    Before,
}

fn is_open(sentence: &str, place: TextPlace) -> bool {
    // A heading without what stood under it says nothing.
    if cue::is_left_alone(sentence) || cue::names_next_steps(sentence.trim_end_matches(':')) {
        return false;
    }
    let cues = cue::read(sentence);
    let is_offer = cues.is_question && place == TextPlace::Last;
    cue::leaves_open(sentence) || (cues.open > 0 && (cues.talk == 0 || is_offer))
}

fn open_ends(batch: &BatchMaterial, observed: &[Composed], place: TextPlace) -> Vec<String> {
    let mut entries = Vec::new();
    for composed in observed.iter().filter(|composed| composed.origin == CandidateSource::OpenEnd) {
        entries.push(format!(
            "{} {}",
            composed.draft.title.trim_start_matches("Open: "),
            composed.draft.narrative
        ));
    }
    let later = request::own_words(batch)
        .filter(|words| cue::mentions(words, "todo, to do, later, next, follow-up, remind, später"));
    if let Some(words) = later {
        entries.push(sentence::tidy(&words));
        entries.extend(batch.previous_response.as_deref().and_then(request::closing_question));
    }
    match gather::answer(batch) {
        Some(answer) => {
            let passages = markdown::passages(&answer.text);
            let is_about_it = |passage: &&markdown::Passage| {
                let headings = [passage.heading.as_deref(), passage.section.as_deref()];
                !headings.into_iter().flatten().any(cue::is_left_alone)
            };
            let last = passages.iter().rev().take(3).rev().filter(is_about_it);
            let sentences = last.flat_map(|passage| &passage.sentences);
            entries.extend(
                sentences
                    .filter(|sentence| is_open(&sentence.text, place))
                    .map(|sentence| sentence.text.clone()),
            );
        }
        None if gather::answered(batch) == Answered::No => {
            entries.extend(
                request::own_words(batch).map(|words| format!("Unanswered: {}", sentence::tidy(&words))),
            );
        }
        None => {}
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ids::EventId;

    #[track_caller]
    fn check(answer: &str, expected: Option<&str>) {
        let said = SourcedText { event: EventId([1; 16]), text: answer.to_owned() };
        let told = candidate(&said).map(|found| {
            let rest: Vec<&str> =
                found.passage.sentences.iter().map(|sentence| sentence.text.as_str()).collect();
            format!("{} {}", found.title.unwrap_or_default(), rest.join(" ")).trim().to_owned()
        });
        assert_eq!(told.as_deref(), expected);
    }

    #[test]
    fn what_is_left_is_told_with_what_explains_it() {
        check("Fixed. Not pushed yet.", Some("Open: Not pushed yet."));
        check(
            "All done.\n\nOne heads-up: the index is rebuilt at night. Search is slow until then.",
            Some("Open: the index is rebuilt at night. Search is slow until then."),
        );
        check("Everything is in place.", None);
        check("Want me to continue?", None);
    }

    #[track_caller]
    fn steps(answer: &str, expected: &[&str]) {
        assert_eq!(listed(&markdown::passages(answer)), expected, "{answer}");
    }

    #[test]
    fn a_list_under_a_heading_of_what_is_next_is_taken_whatever_the_wording() {
        let list = "- Push the branch\n- Add a test for `total()`\n- Ask Ada about the rounding";
        let expected = ["Push the branch", "Add a test for `total()`", "Ask Ada about the rounding"];
        for heading in [
            "## Next steps\n\n",
            "## Next steps\n",
            "**Next steps:**\n",
            "**Next steps**\n\n",
            "Next steps:\n",
            "Remaining:\n\n",
            "### Remaining work\n",
            "## To do\n\n",
            "TODO:\n",
            "**Open:**\n\n",
            "Follow-ups:\n",
            "## What's left\n\n",
            "What's left to do:\n\n",
            "Still open:\n",
            "## Nächste Schritte\n",
        ] {
            steps(
                &format!("The total is rounded once now.\n\n{heading}{list}\n\nAll tests pass."),
                &expected,
            );
            steps(&format!("{heading}{}", list.replace("- ", "1. ")), &expected);
        }
    }

    #[test]
    fn long_items_with_leads_keep_them_and_what_follows_the_list_is_no_step() {
        let long =
            "because the cache of the shop holds totals of the old kind and nobody empties it ".repeat(2);
        let long = long.trim();
        let answer =
            format!("## Next steps\n\n1. **Empty the cache:** {long}.\n2. **Tell the shop:** {long}.");
        let expected = [format!("Empty the cache: {long}."), format!("Tell the shop: {long}.")];
        steps(&answer, &expected.each_ref().map(String::as_str));
        steps(&answer.replace("## Next steps", "Next steps:"), &expected.each_ref().map(String::as_str));
        steps(
            "## Next steps\n\nPush the branch, then release.\n\n## Notes\n\n- It is slow.",
            &["Push the branch, then release."],
        );
        steps("Next:\n- [x] Fix it\n- [ ] Push it\n- ~~Test it~~\n- None", &["Push it"]);
    }

    #[test]
    fn a_list_is_one_whatever_its_marks_and_its_length() {
        for mark in ["•", "–", "◦", "-", "*"] {
            let list = format!("{mark} Push the branch\n{mark} Ask Ada");
            steps(&format!("Rounded.\n\nNext steps:\n{list}"), &["Push the branch", "Ask Ada"]);
            steps(&format!("Rounded.\n\nNext steps:\n\n{list}\n"), &["Push the branch", "Ask Ada"]);
        }
        for heading in [
            "Open:\n- ",
            "Next:\n- ",
            "**Open:**\n- ",
            "## Not done\n\n- ",
            "## Next\n\n",
            "Open:\n",
            "Next: ",
        ] {
            steps(&format!("The total is rounded.\n\n{heading}Write the docs."), &["Write the docs."]);
        }
        steps("Rounded. Next steps: write the docs; ship it", &["write the docs", "ship it"]);
        steps("The server runs.\n\nOpen: http://localhost:3000", &[]);
        steps("Note: the next step is yours.", &[]);
    }

    #[test]
    fn what_was_left_alone_on_purpose_is_no_next_step() {
        steps("## Not included\n\n- A new API\n\n## Out of scope\n\n- Currencies", &[]);
        steps("Pre-existing problems that remain open:\n- `lint` fails", &[]);
        steps("Next steps:\n- Push\n- The 3 pre-existing warnings", &["Push"]);
        for sentence in [
            "The 3 remaining warnings are pre-existing.",
            "Currencies are not included and remain for later.",
            "Out of scope: the follow-up for currencies.",
            "Next steps:",
        ] {
            assert!(!is_open(sentence, TextPlace::Last), "{sentence}");
        }
        assert!(is_open("The branch is not pushed yet.", TextPlace::Last));
    }

    #[test]
    fn a_choice_is_told_with_its_options() {
        check(
            "The queue is full. Either:\n\n1. drop the oldest\n2. block the sender\n\nWhich approach would you prefer?",
            Some(
                "Open: The queue is full. Either: drop the oldest block the sender Which approach would you prefer?",
            ),
        );
    }
}
