//! The fault kit: what the fault tests do to recall, and how they know what should have come of it.
//!
//! | part | what it does |
//! |---|---|
//! | [`script`] | what a session types and does, in order, with a mark in every event |
//! | [`handover`] | gives an event to the daemon or the spool as the shim does, or runs the shim itself |
//! | [`oracle`] | remembers what was accepted, and looks for it: lost, twice, out of order |
//! | [`process`] | a daemon that is killed, stopped and continued at will |
//! | [`clock`] | a machine whose wall clock jumps, and that is started anew |
//! | [`kills`] | many writers, and a daemon that dies again and again |
//! | [`points`] | a daemon that dies at a step of its own code |
//! | [`disk`] | a disk that is full |
//! | [`syscalls`] | a program that dies, or is refused something, at its n-th system call |
//! | [`broken_disk`] | a daemon whose disk fails |
//! | [`intruder`] | another user |
//!
//! Chance comes from seeds that the tests name, so that a run can be repeated as far as the scheduler lets it.

pub mod script;
pub mod handover;
pub mod oracle;
pub mod process;
pub mod clock;
pub mod kills;
pub mod points;
pub mod disk;
pub mod syscalls;
pub mod broken_disk;
pub mod intruder;
