//! Delays before retries.

/// Returns the maximum delay after the `attempt`-th failure, in milliseconds: 1 s, 2 s, 4 s ... at most 256 s.
pub fn retry_delay_ms(attempt: u32) -> i64 {
    1000 << attempt.saturating_sub(1).min(8)
}

/// Returns a random delay between 0 and `delay_ms`, so that jobs that failed together are not retried together.
pub fn full_jitter(delay_ms: i64) -> i64 {
    let random = uuid::Uuid::new_v4().as_u128() % 1_000_001;
    let share = i128::try_from(random).unwrap_or(0);
    i64::try_from(i128::from(delay_ms) * share / 1_000_000).unwrap_or(delay_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delays_double_up_to_256_seconds() {
        let delays: Vec<i64> = [1, 2, 3, 8, 9, 10, u32::MAX].map(retry_delay_ms).to_vec();
        assert_eq!(delays, [1_000, 2_000, 4_000, 128_000, 256_000, 256_000, 256_000]);
    }

    #[test]
    fn jitter_spreads_over_the_whole_delay() {
        let delays: Vec<i64> = (0..200).map(|_| full_jitter(1_000_000)).collect();
        assert!(delays.iter().all(|delay| (0..=1_000_000).contains(delay)), "{delays:?}");
        // Two hundred fair draws stay in one half with a chance of 2 in 2^200.
        assert!(delays.iter().any(|delay| *delay < 500_000) && delays.iter().any(|delay| *delay > 500_000));
    }
}
