//! The names under which this machine shares.

use recall_config::sharing::Sharing;

/// The author's name and the name of this machine.
pub fn names(sharing: &Sharing) -> (String, String) {
    let user = || std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok();
    let host = || {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
    };
    let author = sharing.author.clone().or_else(user).unwrap_or_else(|| "somebody".to_owned());
    let device = sharing.device.clone().or_else(host).unwrap_or_else(|| "a machine".to_owned());
    (author, device)
}
