//! The system calls no safe wrapper of ours offers. Everything `unsafe` of confinement is here.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// Which of two processes this is after [`fork`].
pub(crate) enum Forked {
    /// The one that called, with the other's number.
    Parent(Pid),
    /// The other one.
    Child,
}

/// Makes a copy of this process. Only for the launcher, which has one thread: a second thread could
/// hold a lock that the copy would then wait for. A second start of the whole program instead would
/// cost every command some milliseconds.
#[expect(
    unsafe_code,
    reason = "no safe wrapper can know that there is one thread"
)]
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: the launcher never starts a thread, so the copy has everything its one thread needs,
    // and no lock is held by a thread that is not there.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Pid::from_raw(pid)
            .map(Forked::Parent)
            .ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}

/// Leaves the namespaces shared with Fermix.
#[expect(
    unsafe_code,
    reason = "the wrapper is marked for a flag that is not used here"
)]
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    debug_assert!(!flags.contains(UnshareFlags::FILES));
    // SAFETY: the call is dangerous only with the flag that takes the descriptors of other threads
    // apart, and it is not given.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Into::into)
}

/// What a mount and all mounts below it get.
#[derive(Clone, Copy)]
pub(crate) struct MountFlags {
    pub(crate) read_only: bool,
    pub(crate) no_devices: bool,
    pub(crate) recursive: bool,
}

/// Narrows the mount whose root `mount` is.
#[expect(unsafe_code, reason = "the call has no safe wrapper yet")]
pub(crate) fn narrow_mount(mount: impl AsFd, flags: MountFlags) -> io::Result<()> {
    let mut set = libc::MOUNT_ATTR_NOSUID;
    if flags.read_only {
        set |= libc::MOUNT_ATTR_RDONLY;
    }
    if flags.no_devices {
        set |= libc::MOUNT_ATTR_NODEV;
    }
    let attributes = libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let mut how = libc::AT_EMPTY_PATH;
    if flags.recursive {
        how |= libc::AT_RECURSIVE;
    }
    // SAFETY: the descriptor is borrowed for the call, the path is a literal that ends with a null
    // byte, and the structure is passed with its own size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            how,
            std::ptr::from_ref(&attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The version of Landlock this kernel has.
#[expect(
    unsafe_code,
    reason = "the crate for Landlock keeps this question to itself"
)]
pub(crate) fn landlock_version() -> io::Result<u32> {
    /// Asks for the version instead of making a ruleset.
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel reads no memory: the pointer is null and the size zero.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            VERSION,
        )
    };
    u32::try_from(version).map_err(|_| io::Error::last_os_error())
}
