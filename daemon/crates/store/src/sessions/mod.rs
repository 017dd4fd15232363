//! Sessions and their turns: incoming events, their order, and what the domain's effects store.

pub(crate) mod activities;
#[cfg(test)]
pub(crate) mod arrival;
pub(crate) mod compactions;
pub(crate) mod delivery;
pub(crate) mod effect_context;
pub(crate) mod effects;
pub(crate) mod enders;
pub(crate) mod handoffs;
pub(crate) mod homes;
pub(crate) mod imported;
pub(crate) mod known;
pub(crate) mod late;
pub(crate) mod lineage;
pub(crate) mod lives;
pub(crate) mod plans;
#[cfg(test)]
pub(crate) mod rehydration;
pub(crate) mod spans;
pub(crate) mod subagents;
#[cfg(test)]
pub(crate) mod three_sessions;
pub(crate) mod titles;
pub(crate) mod traces;
pub(crate) mod turns;
pub(crate) mod writes;
