//! Disables core dumps. This process holds agents' messages in memory, and a dump would write them to disk or send
//! them to a crash collector.

/// Disables core dumps of this process and its children, and prevents other processes of the same user from reading
/// its memory. Best effort; costs two system calls.
pub fn disable() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // Needed because the kernel ignores the limit when it pipes dumps to a handler.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, getrlimit};

    #[test]
    fn core_dumps_of_this_process_are_disabled() {
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
