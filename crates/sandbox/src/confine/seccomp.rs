//! The system calls a command does not get.
//!
//! Everything is allowed but what leads out of the view, into other processes, or into parts of the
//! kernel that ordinary programs have no use for. A filter sees numbers, not paths: those are the
//! other layers' business.

use std::collections::BTreeMap;
use std::io;

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use crate::jail::Network;

/// Refused whatever their arguments.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_vhangup,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Refused unless namespaces may be nested.
/// `open_tree_attr` of Linux 6.15, which the C library's table lacks.
const OPEN_TREE_ATTR: libc::c_long = 467;

const REFUSED_UNLESS_NESTED: &[libc::c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
];

/// The flags of `clone` and `unshare` that make a namespace.
const NEW_NAMESPACE: &[libc::c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// The same for time, which `clone` reads as a part of a signal's number.
const NEW_TIME: u64 = 0x80;

/// Gives input to a terminal as if it had been typed there.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541C];
/// Asks which personality there is, and changes none.
const PERSONALITY_QUERY: u64 = 0xFFFF_FFFF;

/// Installs the filters on this thread for good. Needs no-new-privileges, which comes first.
pub(super) fn restrict(network: Network, allow_nested: bool) -> io::Result<()> {
    let architecture = std::env::consts::ARCH
        .try_into()
        .map_err(|_| io::Error::from(Errno::OPNOTSUPP))?;
    for filter in filters(network, allow_nested, architecture).map_err(io::Error::other)? {
        seccompiler::apply_filter(&filter).map_err(|error| match error {
            seccompiler::Error::Seccomp(error) | seccompiler::Error::Prctl(error) => error,
            other => io::Error::other(other),
        })?;
    }
    Ok(())
}

fn filters(
    network: Network,
    allow_nested: bool,
    architecture: TargetArch,
) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|number| (*number, Vec::new())).collect();
    rules.insert(
        libc::SYS_personality,
        vec![rule(&[(0, SeccompCmpOp::Ne, PERSONALITY_QUERY)])?],
    );
    rules.insert(
        libc::SYS_ioctl,
        TERMINAL_INPUT
            .iter()
            .map(|request| rule(&[(1, SeccompCmpOp::Eq, *request)]))
            .collect::<Result<_, _>>()?,
    );
    rules.insert(libc::SYS_socket, sockets(network)?);
    if !allow_nested {
        rules.extend(
            REFUSED_UNLESS_NESTED
                .iter()
                .map(|number| (*number, Vec::new())),
        );
        let flagged = |flag: u64| rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)]);
        let flags = NEW_NAMESPACE
            .iter()
            .map(|flag| u64::from(flag.cast_unsigned()));
        let clone: Vec<SeccompRule> = flags.map(flagged).collect::<Result<_, _>>()?;
        let mut unshare = clone.clone();
        unshare.push(flagged(NEW_TIME)?);
        rules.insert(libc::SYS_clone, clone);
        rules.insert(libc::SYS_unshare, unshare);
    }
    let refusing = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.cast_unsigned()),
        architecture,
    )?;
    let mut programs = vec![native_calls_only(refusing.try_into()?)];
    if !allow_nested {
        // Its flags lie in memory, where a filter cannot look. Without it the C library falls back
        // to the call whose flags are an argument.
        let hiding = SeccompFilter::new(
            [(libc::SYS_clone3, Vec::new())].into(),
            SeccompAction::Allow,
            SeccompAction::Errno(libc::ENOSYS.cast_unsigned()),
            architecture,
        )?;
        programs.push(hiding.try_into()?);
    }
    Ok(programs)
}

/// Refuses every family but Unix, Internet and the route protocol of netlink; without a network also
/// the Internet.
fn sockets(network: Network) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let mut families = vec![libc::AF_UNIX, libc::AF_NETLINK];
    if network == Network::Allowed {
        families.extend([libc::AF_INET, libc::AF_INET6]);
    }
    let other: Vec<_> = families
        .iter()
        .map(|family| (0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned())))
        .collect();
    let netlink = u64::from(libc::AF_NETLINK.cast_unsigned());
    let route = u64::from(libc::NETLINK_ROUTE.cast_unsigned());
    Ok(vec![
        rule(&other)?,
        rule(&[(0, SeccompCmpOp::Eq, netlink), (2, SeccompCmpOp::Ne, route)])?,
    ])
}

/// All of the conditions at once. The kernel reads these arguments as 32 bits.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions
        .iter()
        .map(|(argument, operator, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
        })
        .collect::<Result<_, _>>()?;
    SeccompRule::new(conditions)
}

/// On this machine the kernel may take the same calls under a second set of numbers, which no rule
/// names: a process that uses one is killed.
fn native_calls_only(program: BpfProgram) -> BpfProgram {
    if !cfg!(target_arch = "x86_64") {
        return program;
    }
    let statement = |code, k| sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    };
    let load_number = statement(0x20, 0);
    let skip_if_native = sock_filter {
        code: 0x35,
        jt: 0,
        jf: 1,
        k: 0x4000_0000,
    };
    let kill = statement(0x06, libc::SECCOMP_RET_KILL_PROCESS);
    [load_number, skip_if_native, kill]
        .into_iter()
        .chain(program)
        .collect()
}
