//! Why a machine cannot read or write for a team.

use super::super::key::NoRandomness;

/// Why a machine cannot read or write for the team.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TeamError {
    #[error(
        "the remote is encrypted, and this machine has no key: create a team with `recall team init REMOTE`, or enter one with `recall team join REMOTE`"
    )]
    NoKey,
    #[error("this machine's key is not the key of this team; nothing was written")]
    OtherKey,
    #[error("this machine was removed from the team")]
    Removed,
    #[error(
        "the team has a newer key, which this machine has not received yet: wait for a round of an owner's machine, or join \
         again with `recall team leave REMOTE` and `recall team join REMOTE`"
    )]
    NotGiven,
    #[error("two members have removed each other: create a new team with `recall team init REMOTE`")]
    RemovedEachOther,
    #[error("the team already exists: join it with `recall team join REMOTE`")]
    Exists,
    #[error("there is no team yet: create one with `recall team init REMOTE`")]
    NoTeam,
    #[error("these are not the words of a team or of an invitation: a word is wrong, or one is missing")]
    Words,
    #[error("these words belong to another team, or the team now has a newer key")]
    OtherWords,
    #[error(
        "only an owner of the team may do this: the machine that created it, or one that an owner has named"
    )]
    NotOwner,
    #[error(
        "the members do not agree on who owns the team: join with an invitation from somebody whom you know"
    )]
    OwnersDiffer,
    #[error(
        "only some machines may read this project, and this one is not among them: an owner among them can name it"
    )]
    NotReader,
    #[error("two owners have removed each other from this project: share it through another remote")]
    TookOutEachOther,
    #[error("an owner whom this machine does not know has restricted this project")]
    RestrictedAlready,
    #[error(
        "two owners have restricted this project in different ways: agree who may read it, and share it through another remote"
    )]
    RestrictedTwice,
    #[error("the machine {0} was removed from this project, and can join again only as a new machine")]
    TakenOut(String),
    #[error("no other member matches {0:?}")]
    NoSuchMember(String),
    #[error("several members match {0:?}")]
    SeveralMembers(String),
    #[error("the remote's name is not valid")]
    Remote,
    #[error("the team's file cannot be used: {0}")]
    File(String),
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}
