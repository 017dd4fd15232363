//! Daily spending limits for models, and the arithmetic on them.

use super::ids::{JobId, ProjectRow, Timestamp};

/// Tokens and money of one or several calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub tokens_in: u64,
    pub tokens_out: u64,
    /// Millionths of a US dollar.
    pub micro_usd: u64,
}

impl Usage {
    pub fn tokens(self) -> u64 {
        self.tokens_in.saturating_add(self.tokens_out)
    }
}

/// The cost of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    Known(Usage),
    /// The call may have been answered, but nobody knows. Its whole reservation counts as spent.
    AtMost,
}

/// The uncertain part of the spending: calls booked at their maximum cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assumed {
    pub calls: i64,
    pub tokens: u64,
}

/// Hard limits per calendar day of the user. 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    pub tokens: u64,
    pub micro_usd: u64,
    pub project_tokens: u64,
    pub project_micro_usd: u64,
}

/// Millionths of a US dollar per million tokens. 0 means free or unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    pub per_mtok_in: u64,
    pub per_mtok_out: u64,
}

impl Prices {
    /// Returns the price of these tokens, rounded up.
    pub fn of(self, tokens_in: u64, tokens_out: u64) -> Usage {
        let cost = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let sum =
            (cost(tokens_in, self.per_mtok_in) + cost(tokens_out, self.per_mtok_out)).div_ceil(1_000_000);
        Usage { tokens_in, tokens_out, micro_usd: u64::try_from(sum).unwrap_or(u64::MAX) }
    }
}

/// A call about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    pub job: JobId,
    pub project: ProjectRow,
    /// `provider:model`.
    pub backend: String,
    /// The maximum cost of the call.
    pub most: Usage,
}

/// A call that was made, with its actual cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCall {
    pub reservation: ReservationId,
    pub job: JobId,
    /// `provider:model`.
    pub backend: String,
    pub started: Timestamp,
    pub ended: Timestamp,
    pub cost: Cost,
}

/// The reservation's number in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationId(pub i64);

/// The cap that a call would exceed. The text is its configuration key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverCap {
    #[error("tokens_per_day")]
    Tokens,
    #[error("usd_per_day")]
    Money,
    #[error("project_tokens_per_day")]
    ProjectTokens,
    #[error("project_usd_per_day")]
    ProjectMoney,
}

impl Caps {
    /// Checks whether a call may be made. `all` and `project` are the amounts spent or reserved today.
    ///
    /// # Errors
    /// The first cap that the call could exceed.
    pub fn allow(&self, all: Usage, project: Usage, most: Usage) -> Result<(), OverCap> {
        let fits = |cap: u64, spent: u64, more: u64| cap == 0 || spent.saturating_add(more) <= cap;
        let caps = [
            (OverCap::Tokens, fits(self.tokens, all.tokens(), most.tokens())),
            (OverCap::Money, fits(self.micro_usd, all.micro_usd, most.micro_usd)),
            (OverCap::ProjectTokens, fits(self.project_tokens, project.tokens(), most.tokens())),
            (OverCap::ProjectMoney, fits(self.project_micro_usd, project.micro_usd, most.micro_usd)),
        ];
        caps.into_iter().find(|(_, holds)| !holds).map_or(Ok(()), |(cap, _)| Err(cap))
    }
}

/// A calendar day of the user, such as `2031-05-17`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Day(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_round_up_and_do_not_overflow() {
        let prices = Prices { per_mtok_in: 1_000_000, per_mtok_out: 5_000_000 };
        assert_eq!(prices.of(1_000_000, 0).micro_usd, 1_000_000);
        assert_eq!(prices.of(1, 1).micro_usd, 6);
        assert_eq!(Prices { per_mtok_in: 1, per_mtok_out: 0 }.of(1, 0).micro_usd, 1);
        assert_eq!(prices.of(u64::MAX, u64::MAX).micro_usd, u64::MAX);
        assert_eq!(Prices::default().of(10, 20), Usage { tokens_in: 10, tokens_out: 20, micro_usd: 0 });
    }

    #[test]
    fn a_call_may_reach_a_cap_but_not_exceed_it() {
        let tokens = |tokens_in| Usage { tokens_in, ..Usage::default() };
        let caps = Caps { tokens: 100, project_tokens: 60, ..Caps::default() };
        assert_eq!(caps.allow(tokens(60), tokens(0), tokens(40)), Ok(()));
        assert_eq!(caps.allow(tokens(61), tokens(0), tokens(40)), Err(OverCap::Tokens));
        assert_eq!(caps.allow(tokens(60), tokens(30), tokens(31)), Err(OverCap::ProjectTokens));
        assert_eq!(caps.allow(tokens(0), tokens(0), tokens(u64::MAX)), Err(OverCap::Tokens));
        assert_eq!(Caps::default().allow(tokens(u64::MAX), tokens(u64::MAX), tokens(1)), Ok(()));
        let money = Caps { micro_usd: 10, project_micro_usd: 5, ..Caps::default() };
        let dollars = |micro_usd| Usage { micro_usd, ..Usage::default() };
        assert_eq!(money.allow(dollars(8), dollars(0), dollars(3)), Err(OverCap::Money));
        assert_eq!(money.allow(dollars(3), dollars(3), dollars(3)), Err(OverCap::ProjectMoney));
    }
}
