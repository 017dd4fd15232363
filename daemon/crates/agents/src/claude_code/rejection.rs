//! Detects from a failed call's error text that the user rejected the call.

use crate::Rejected;

/// Claude Code's text for the model. The rest depends on whether the user gave a reason.
const REJECTED: &str = "The user doesn't want to proceed with this tool use.";

/// The texts before the user's own words.
const REASON_MARKS: [&str; 2] = ["the user said:", "reason for the rejection:"];

/// `None` if the call failed for another reason. A refusal by a rule or a classifier does not count.
pub(super) fn rejected(error: &str) -> Option<Rejected> {
    let text = serde_json::from_str::<String>(error).unwrap_or_else(|_| error.to_owned());
    let text = text.trim_start_matches("Error:").trim_start();
    let rest = text.strip_prefix(REJECTED)?;
    let reason = REASON_MARKS
        .iter()
        .find_map(|mark| rest.split_once(mark))
        .map(|(_, reason)| reason.trim().to_owned());
    Some(Rejected { reason: reason.filter(|reason| !reason.is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: &str, expected: Option<Option<&str>>) {
        let found = rejected(error).map(|rejected| rejected.reason);
        assert_eq!(found.as_ref().map(|reason| reason.as_deref()), expected, "{error:?}");
    }

    #[test]
    fn only_a_users_rejection_is_detected_and_its_reason_is_read() {
        let bare = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a \
            file edit, the new_string was NOT written to the file).";
        check(&format!("{bare} STOP what you are doing and wait."), Some(None));
        let error = format!("{bare} To tell you how to proceed, the user said:\nuse the helper in money.rs");
        check(&error, Some(Some("use the helper in money.rs")));
        check(&serde_json::to_string(&error).unwrap(), Some(Some("use the helper in money.rs")));
        check("rm in '/home/dev/shop/dist' needs approval.", None);
        check("Exit code 1", None);
        check("The page says: The user doesn't want to proceed with this tool use.", None);
        check("", None);
    }
}
