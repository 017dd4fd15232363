//! The fault kit: the faults that tests cause, and the means to find the expected result.
//!
//! | part | what it does |
//! |---|---|
//! | [`script`] | the prompts and calls of a session, in order, with a mark in every event |
//! | [`handover`] | delivers an event to the daemon or the spool like the shim, or runs the shim itself |
//! | [`oracle`] | records accepted events, and reports those that are lost, stored twice or out of order |
//! | [`process`] | a daemon that a test kills, stops and continues |
//! | [`clock`] | a machine whose wall clock jumps, and which restarts |
//! | [`kills`] | many writers, and a daemon that dies again and again |
//! | [`points`] | a daemon that dies at a step of its own code |
//! | [`disk`] | a disk that is full |
//! | [`syscalls`] | a program that is killed, or gets an error, at its n-th system call |
//! | [`broken_disk`] | a daemon whose disk fails |
//! | [`intruder`] | another user |
//!
//! Random choices come from seeds that the tests give. So a run can be repeated as far as the scheduler allows.

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
