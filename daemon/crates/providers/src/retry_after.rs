//! Parses the usual forms of `Retry-After`: seconds, fractions of seconds, the three date formats of HTTP,
//! milliseconds.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::breaker::LONGEST_PAUSE_MS;
use recall_domain::ids::Timestamp;

/// The time to wait in milliseconds, at most an hour. `None` if the header is invalid.
pub(super) fn wait_ms(value: &str, now: Timestamp) -> Option<u64> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        // NaN and negative numbers mean no pause.
        let milliseconds = (seconds * 1000.0).clamp(0.0, LONGEST_PAUSE_MS as f64);
        return seconds.is_finite().then_some(milliseconds as u64);
    }
    let then = date_ms(value)?;
    let wait = u64::try_from(then.saturating_sub(now.0)).unwrap_or(0);
    Some(wait.min(LONGEST_PAUSE_MS))
}

/// Returns the wait that a header gives in milliseconds.
pub(super) fn wait_of_ms(value: &str) -> Option<u64> {
    let milliseconds = value.trim().parse::<f64>().ok().filter(|value| value.is_finite())?;
    Some(milliseconds.clamp(0.0, LONGEST_PAUSE_MS as f64) as u64)
}

/// Parses the three date formats: the standard one, the older one with the full weekday, and that of C.
fn date_ms(value: &str) -> Option<i64> {
    const FORMS: [&str; 3] =
        ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    FORMS.iter().find_map(|form| {
        let civil = DateTime::strptime(form, value).ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1994-11-06 08:49:37 UTC, the date of the standard's examples.
    const NOW: Timestamp = Timestamp(784_111_777_000);

    #[track_caller]
    fn check(value: &str, expected: Option<u64>) {
        assert_eq!(wait_ms(value, NOW), expected, "{value:?}");
    }

    #[test]
    fn seconds_are_parsed_in_every_spelling() {
        check("120", Some(120_000));
        check(" 7 ", Some(7_000));
        check("1.5", Some(1_500));
        check("0", Some(0));
        check("-3", Some(0));
        check("999999999999999999999", Some(LONGEST_PAUSE_MS));
        check("inf", None);
        check("NaN", None);
    }

    #[test]
    fn all_http_date_formats_are_parsed() {
        check("Sun, 06 Nov 1994 08:50:07 GMT", Some(30_000));
        check("Sunday, 06-Nov-94 08:50:07 GMT", Some(30_000));
        check("Sun Nov  6 08:50:07 1994", Some(30_000));
        check("Sun, 06 Nov 1994 08:49:00 GMT", Some(0));
        check("Sun, 06 Nov 2094 08:49:00 GMT", None);
        check("Sat, 06 Nov 2094 08:49:00 GMT", Some(LONGEST_PAUSE_MS));
    }

    #[test]
    fn invalid_retry_after_values_are_ignored() {
        for value in ["", "soon", "12 minutes", "1e", "Sun, 06 Nov 1994", "\u{0}"] {
            check(value, None);
        }
        assert_eq!(wait_of_ms("250"), Some(250));
        assert_eq!(wait_of_ms("1e99"), Some(LONGEST_PAUSE_MS));
        assert_eq!(wait_of_ms("later"), None);
    }
}
