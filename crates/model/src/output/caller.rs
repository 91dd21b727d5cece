//! Who called sudo: what root makes for a person should belong to that person.

/// A user, and the group of their new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// The user who called sudo; none if this does not run as root, or nobody has. The variables are sudo's own: whoever can set them
/// for a root process can do anything else as well.
pub fn caller_of_sudo() -> Option<Owner> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let id = |name| std::env::var(name).ok()?.parse().ok();
    Some(Owner {
        uid: id("SUDO_UID")?,
        gid: id("SUDO_GID")?,
    })
}
