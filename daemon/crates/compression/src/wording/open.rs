//! Recognizes open work by the form of a text: a heading, the line that introduces a list, an unticked box, or a
//! sentence's own words.
//!
//! The lists contain the usual wordings of English, German, French, Spanish, Japanese, Chinese and Korean. A
//! statement about how a thing behaves (`the socket is not open yet when …`) is a finding, not open work.

use std::sync::LazyLock;

use super::word::{phrases, spaced};
use crate::phrases::Phrases;

/// The state of work according to a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Nothing.
    #[default]
    Unstated,
    /// It is open.
    Left,
    /// It is ticked off, or below a heading such as `Done`.
    Done,
}

/// The length from which a line is a sentence and introduces no list.
const LONGEST_NAME: usize = 64;
const LONGEST_NAME_OF_SIGNS: usize = 20;

/// Words that may precede or follow a name of open work.
const BEFORE: &str = "the, my, our, your, some, suggested, recommended, possible, proposed, optional, immediate, things, \
    items, tasks, points, noch, die, meine, les, mes, las, los, mis, quelques, algunas";
const BEHIND: &str = "steps, step, work, items, item, tasks, task, points, point, questions, question, issues, things, bits, \
    todos, up, for, you, me, us, later, now, afterwards, after, this, that, the, merge, merging, release, session, pr, if, \
    wanted, needed, optional, and, list, improvements, ideas, suggestions, from, here, my, side, today, plan, schritte, \
    punkte, fragen, aufgaben, étapes, tâches, pasos, tareas";

/// Headings of lists of unfinished work, after the words above are removed.
const NAMES: &str = "next, what's next, what is next, what comes next, next steps, still to do, still to be done, to do, todo, \
    todos, still open, open, open ends, open todos, loose ends, remaining, what remains, what's remaining, what is \
    remaining, what's left, what is left, what's still left, what is still left, left to do, left for, left over, leftovers, later, follow up, follow ups, followup, followups, outstanding, pending, not done, not done \
    yet, not yet done, not yet, not included, not implemented, not implemented yet, not yet implemented, not finished, not \
    covered, not covered yet, unfinished, incomplete, deferred, postponed, backlog, future, action items, still missing, what's missing, what is missing, still needed, still needs doing, needs doing, yet to do, yet to \
    come, unresolved, before merging, before you merge, before we merge, before release, before the release, what i did \
    not do, what i didn't do, what i have not done, what i haven't done, what is not done, what's not done, what is not \
    done yet, what's not done yet, your turn, needs your attention, not verified, not verified yet, not tested, not tested \
    yet, nächste, nächster schritt, als nächstes, wie es weitergeht, weiteres vorgehen, offen, noch offen, offene, offene \
    punkte, noch zu tun, zu tun, was noch zu tun ist, was zu tun bleibt, ausstehend, was noch fehlt, was fehlt noch, fehlt \
    noch, was bleibt, was noch bleibt, verbleibend, verbleibende, verbleibende arbeiten, restarbeiten, später, für später, \
    noch nicht erledigt, nicht erledigt, unerledigt, prochaines, prochaine étape, étapes suivantes, étape suivante, à \
    faire, reste à faire, il reste à faire, ce qui reste, ce qui reste à faire, ce qu'il reste à faire, restant, en \
    suspens, points en suspens, points ouverts, questions ouvertes, tâches restantes, plus tard, pour plus tard, pas encore \
    fait, próximos, próximo paso, siguientes, siguiente paso, pendiente, pendientes, por hacer, lo que falta, qué falta, \
    falta, falta por hacer, queda por hacer, lo que queda, lo que queda por hacer, queda pendiente, tareas pendientes, \
    puntos pendientes, puntos abiertos, preguntas abiertas, para más adelante, más adelante, para después, sin terminar";

/// Words that may follow such a heading: `Next steps for the exporter`.
const SURE: &str = "next steps, still to do, remaining work, remaining tasks, remaining steps, left to do, what's left, what is \
    left, what remains, open questions, open items, open points, follow ups for, left for later, not yet implemented, not \
    done yet, nächste schritte, noch zu tun, offene punkte, prochaines étapes, reste à faire, próximos pasos, queda por \
    hacer";

const NAMES_OF_SIGNS: [&str; 31] = [
    "次のステップ",
    "今後",
    "残作業",
    "残タスク",
    "残り",
    "未完了",
    "未対応",
    "未実装",
    "やること",
    "これから",
    "下一步",
    "后续",
    "後續",
    "待办",
    "待辦",
    "待完成",
    "剩余工作",
    "剩餘工作",
    "剩下",
    "尚未",
    "未完成",
    "遗留",
    "接下来",
    "다음 단계",
    "다음에 할",
    "남은",
    "할 일",
    "향후",
    "미완료",
    "미해결",
    "후속",
];

/// Headings of lists of finished work.
const DONE: &str = "done, completed, finished, already done, erledigt, fertig, abgeschlossen, terminé, fait, hecho, completado, \
    terminado, 完了, 已完成, 완료";

/// Table cells that give the state of their row.
const CELLS: &str = "open, still open, todo, to do, pending, not started, not done, remaining, later, deferred, missing, not \
    yet, offen, ausstehend, à faire, en attente, pendiente, por hacer, 未完了, 未着手, 未完成, 待办, 미완료, 예정";

/// Phrases that alone say that something is left.
const LEFT: &str = "still needs, still need, still has to, still have to, still to be, still to do, still missing, \
    still open, still pending, still outstanding, still unfinished, still unanswered, still uncommitted, still \
    unresolved, still unmerged, still lacks, remains to be, remain to be, question remains open, questions remain \
    open, yet to be, have yet to, has yet to, left to do, left for later, left for a, left for another, left for the \
    next, left that for, left this for, leave that for, leave this for, leaving that for, leaving this for, left out \
    for now, for a later, for another day, in a later pr, in a later change, in a later release, in a follow up, for \
    a follow up, in a future pr, in a future change, in a future release, for the future, in a separate pr, left as \
    is, left unfixed, as a follow up, deferred to, postponed to, postponed until, put off, to be done, can be done \
    later, you will need to, you'll need to, don't forget to, not implemented, not pushed, not committed, unpushed, \
    is outstanding, are outstanding, is pending, are pending, next i would, next i'd, next we, next step is, next \
    steps are, what's left is, what is left is, what remains is, all that's left, all that is left, all that remains, \
    would be the next, tbd, not done, not finished, muss noch, müssen noch, musst noch, fehlt noch, fehlen noch, \
    fehlt nur noch, steht noch aus, stehen noch aus, noch offen, noch zu, bleibt offen, bleibt noch, bleiben noch, \
    als nächstes, noch nicht, kommt später, machen wir später, mache ich später, für später, pas encore, reste à, \
    restent à, il reste, il faut encore, doit encore, doivent encore, pour plus tard, sera fait plus tard, prochaine \
    étape, en suspens, todavía no, aún no, queda por, quedan por, queda pendiente, quedan pendientes, falta por, \
    faltan por, todavía falta, aún falta, aún hay que, todavía hay que, pendiente de, para más adelante, se hará más \
    adelante, próximo paso";

/// Phrases that say so at the end of a sentence: `Two screens are left`.
const LEFT_AT_THE_END: &str =
    "is left, are left, is next, comes next, are next, come next, comes later, come later";

const LEFT_OF_SIGNS: [&str; 44] = [
    "未実装です",
    "未対応です",
    "未完了です",
    "未着手",
    "が未実装",
    "は未実装",
    "が未対応",
    "は未対応",
    "は未確認",
    "残っています",
    "残っている",
    "残作業",
    "残タスク",
    "後回し",
    "あとで対応",
    "後で対応",
    "今後対応",
    "次のステップ",
    "还没",
    "還沒",
    "还未",
    "尚未",
    "仍未",
    "仍需",
    "还需",
    "還需",
    "还要",
    "待办",
    "待完成",
    "待处理",
    "未完成",
    "留待",
    "留到",
    "以后再",
    "以後再",
    "之后再",
    "下一步",
    "아직",
    "남아 있",
    "남았",
    "나중에",
    "추후",
    "다음 단계",
    "미구현",
];

/// Phrases that say that nothing is left.
const SETTLED: &str = "nothing left, nothing is left, nothing else, no open, none left, all done, no follow up, no follow ups, \
    nothing to do, nothing remains, no remaining, nothing remaining, no next steps, nothing open, nothing is open, nothing \
    more to do, nichts mehr, nichts offen, nichts zu tun, keine offenen, ist nichts, rien à faire, plus rien, rien d'autre, \
    nada pendiente, no queda nada, nada más";

const SETTLED_OF_SIGNS: [&str; 9] = [
    "残っていません",
    "残作業はありません",
    "残りはありません",
    "没有剩",
    "没有待办",
    "没有未完成",
    "全部完成",
    "남은 작업은 없",
    "남은 작업이 없",
];

/// Whether a heading, a label, or the line before a list introduces open work.
pub(crate) fn names_what_is_left(line: &str) -> bool {
    let text = spaced(line);
    let length = line.trim().chars().count();
    if is_of_signs(line) {
        return length <= LONGEST_NAME_OF_SIGNS && NAMES_OF_SIGNS.iter().any(|name| line.contains(name));
    }
    if length > LONGEST_NAME {
        return false;
    }
    let is_name = |words: &[&str]| {
        let name = words.join(" ");
        !name.is_empty() && phrases(NAMES).any(|known| known == name)
    };
    let words: Vec<&str> = text.split_whitespace().skip_while(|word| is_number(word)).collect();
    let starts = words.iter().take_while(|word| phrases(BEFORE).any(|known| known == **word)).count();
    let ends = words.iter().rev().take_while(|word| phrases(BEHIND).any(|known| known == **word)).count();
    let is_named = (0..=starts).any(|start| {
        (0..=ends).any(|end| words.get(start..words.len().saturating_sub(end)).is_some_and(is_name))
    });
    let rest = words.get(starts..).unwrap_or_default().join(" ");
    is_named || phrases(SURE).any(|sure| rest.strip_prefix(sure).is_some_and(|rest| rest.starts_with(' ')))
}

/// Whether a heading introduces finished work.
pub(crate) fn names_what_is_done(heading: &str) -> bool {
    let text = spaced(heading);
    phrases(DONE).any(|done| done == text.trim())
}

/// Whether one of a row's cells says that it is open.
pub(crate) fn is_open_row(row: &str) -> bool {
    row.split(" | ").any(|cell| {
        let cell = spaced(cell);
        phrases(CELLS).any(|open| open == cell.trim())
    })
}

/// The text of a list entry without its box, and the state that the box shows.
pub(crate) fn ticked(entry: &str) -> (Progress, &str) {
    for (mark, progress) in
        [("[ ] ", Progress::Left), ("[x] ", Progress::Done), ("[X] ", Progress::Done), ("☐ ", Progress::Left)]
    {
        if let Some(rest) = entry.strip_prefix(mark) {
            return (progress, rest.trim_start());
        }
    }
    (Progress::Unstated, entry)
}

/// The phrases of the lists that are searched for in each sentence, as whole words.
static ANY_SETTLED: LazyLock<Phrases> = LazyLock::new(|| whole_words(SETTLED));
static ANY_LEFT: LazyLock<Phrases> = LazyLock::new(|| whole_words(LEFT));

fn whole_words(list: &str) -> Phrases {
    Phrases::new(phrases(list).map(|phrase| format!(" {phrase} ")))
}

/// Whether a sentence says that nothing is left to do.
pub(crate) fn is_settled(text: &str) -> bool {
    let spaced_text = spaced(text);
    ANY_SETTLED.are_in(&spaced_text) || SETTLED_OF_SIGNS.iter().any(|nothing| text.contains(nothing))
}

/// Whether a sentence says plainly that something is left to do. Then it is not finished work.
pub(crate) fn is_left(text: &str) -> bool {
    if is_settled(text) || text.trim_end().ends_with('?') {
        return false;
    }
    if is_of_signs(text) {
        let is_condition = ["场合", "時は", "とき", "如果", "时，"].iter().any(|when| text.contains(when));
        let not_yet = text.contains("まだ") && ["ない", "ません"].iter().any(|not| text.contains(not));
        return !is_condition && (not_yet || LEFT_OF_SIGNS.iter().any(|left| text.contains(left)));
    }
    // `Invoices are rounded once; that is not so for exports yet.`
    if let Some((clause, rest)) = text.split_once("; ") {
        return is_left(clause) || is_left(rest);
    }
    let spaced_text = spaced(text);
    let words: Vec<&str> = spaced_text.split_whitespace().collect();
    is_labelled(text)
        || is_not_yet(&words)
        || is_undone(&words)
        || (ANY_LEFT.are_in(&spaced_text) && phrases(LEFT).any(|left| contains_open_work(&spaced_text, left)))
        || phrases(LEFT_AT_THE_END).any(|left| {
            let before = spaced_text.trim_end().strip_suffix(left).filter(|before| before.ends_with(' '));
            before.is_some_and(|before| {
                let before: Vec<&str> = before.split_whitespace().collect();
                before.len() > 1 && !is_condition(&before)
            })
        })
}

/// Whether a sentence contains a phrase of open work that is neither in a condition nor attached to a noun.
fn contains_open_work(text: &str, left: &str) -> bool {
    text.match_indices(&format!(" {left} ")).any(|(at, _)| {
        let before: Vec<&str> = text.get(..at).unwrap_or_default().split_whitespace().collect();
        let is_tied = before.len() > 1 && before.last().is_some_and(|last| is_relative(last));
        !is_condition(&before) && !is_tied
    })
}

/// Whether a word attaches the following text to a noun: `rows that …`.
fn is_relative(word: &str) -> bool {
    phrases("that, which, who, whose, die, der, das, welche, qui, que").any(|relative| relative == word)
}

/// `Next steps: migrate the old rows`, `TODO: …`, `Remaining — …`.
fn is_labelled(text: &str) -> bool {
    let text = text.trim_start_matches(|edge: char| !edge.is_alphanumeric());
    [": ", " — ", " – ", " - "].iter().any(|mark| {
        text.split_once(mark).is_some_and(|(label, rest)| {
            !rest.trim().is_empty() && label.split_whitespace().count() <= 6 && names_what_is_left(label)
        })
    })
}

const NOT: &str =
    "not, isn't, aren't, hasn't, haven't, don't, doesn't, can't, cannot, didn't, nothing, nobody, no, none";

/// `The docs are not updated yet`, but not `a socket that is not open yet`, nor a statement about some earlier time.
fn is_not_yet(words: &[&str]) -> bool {
    /// The maximum number of words between `not` and `yet`.
    const FAR: usize = 10;
    words.iter().enumerate().filter(|(_, word)| **word == "yet").any(|(at, _)| {
        let before = words.get(..at).unwrap_or_default();
        let not = before.iter().rposition(|word| phrases(NOT).any(|not| not == *word));
        let Some(not) = not.filter(|not| at - not <= FAR) else { return false };
        let ahead = before.get(..not).unwrap_or_default();
        let last = |back: usize| ahead.len().checked_sub(back).and_then(|at| ahead.get(at)).copied();
        let is_past = matches!(last(1), Some("was" | "were" | "had"));
        let is_but = matches!(before.last(), Some(&("and" | "but")));
        // A clause that begins with `that` is about the one before.
        let behind_the_first = ahead.get(1..).unwrap_or_default();
        let is_tied = behind_the_first.iter().rev().take(2).any(|word| is_relative(word)) && !is_noted(ahead);
        let goes_on = words.get(at + 1).copied();
        let is_at_a_time =
            matches!(goes_on, Some("when" | "while" | "if" | "until" | "before" | "at" | "by" | "and"));
        !is_past && !is_but && !is_tied && !is_at_a_time && !is_condition(ahead)
    })
}

/// `Note that the docs are …`.
fn is_noted(words: &[&str]) -> bool {
    words.iter().take(3).any(|word| matches!(*word, "note" | "notice" | "mind" | "remember"))
}

/// `I have not migrated the old rows`: something that the agent says it has not done. Something that it has not found
/// is a finding.
fn is_undone(words: &[&str]) -> bool {
    const HAS_NOT: &str = "i have not, i haven't, i've not, we have not, we haven't, i did not get to, i didn't get to, ich habe \
        noch, je n'ai pas, no he, haven't touched, have not touched";
    const FINDS: &str = "found, find, seen, noticed, encountered, observed, been, had, hit, able, vu, trouvé, visto, encontrado";
    let spaced_text = format!(" {} ", words.join(" "));
    phrases(HAS_NOT).any(|has_not| {
        spaced_text.find(&format!(" {has_not} ")).is_some_and(|at| {
            let ahead: Vec<&str> = spaced_text.get(..at).unwrap_or_default().split_whitespace().collect();
            let behind = spaced_text.get(at + has_not.len() + 1..).unwrap_or_default();
            let next = behind.split_whitespace().find(|word| !matches!(*word, "yet" | "even" | "encore"));
            ahead.len() <= 4
                && !is_condition(&ahead)
                && next.is_some_and(|next| !phrases(FINDS).any(|finds| finds == next))
        })
    })
}

/// Whether words introduce a condition. Then the sentence describes how something behaves.
fn is_condition(words: &[&str]) -> bool {
    const FAR: usize = 8;
    words.iter().rev().take(FAR).any(|word| {
        matches!(
            *word,
            "if" | "when"
                | "whenever"
                | "while"
                | "unless"
                | "until"
                | "whether"
                | "where"
                | "since"
                | "wenn"
                | "falls"
                | "solange"
                | "bis"
                | "si"
                | "lorsque"
                | "quand"
                | "cuando"
                | "mientras"
        )
    })
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text is in a script whose words are not separated, or in Korean.
fn is_of_signs(text: &str) -> bool {
    text.chars().any(|letter| {
        matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
    })
}

#[cfg(test)]
mod tests;
