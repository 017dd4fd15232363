//! No core dumps: what an agent said is in this process's memory, and a dump of it would lie on the disk, or go to
//! whoever collects crashes.

/// From now on nothing of this process is dumped, nor of what it starts, and no other process of the same user may look
/// into its memory. Best effort: a system that refuses has its reasons. Two system calls.
pub fn disable() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // A handler that the kernel pipes dumps to does not care for the limit.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, getrlimit};

    #[test]
    fn nothing_of_this_process_is_dumped() {
        super::disable();
        let limit = getrlimit(Resource::Core);
        assert_eq!((limit.current, limit.maximum), (Some(0), Some(0)));
        #[cfg(target_os = "linux")]
        assert_eq!(
            rustix::process::dumpable_behavior().ok(),
            Some(rustix::process::DumpableBehavior::NotDumpable)
        );
    }
}
