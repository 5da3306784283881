//! How the kernel holds commands to the sandbox.

use super::super::kind::Kind;
use super::super::{KeyDoc, put};
use super::{choice, row};
use crate::confine::{ConfineMode, NetworkAccess, SshAccess};

/// More processes than any machine's default limit lets a user have.
const MAX_PIDS: Kind = Kind::Count {
    min: 16,
    max: 4_194_304,
};
/// A petabyte, so that the number of bytes is one that every limit takes.
const MAX_MEMORY: Kind = Kind::Count {
    min: 0,
    max: 1 << 30,
};

pub(super) static ROWS: &[KeyDoc] = &[
    row(
        "sandbox.confine.mode",
        choice(ConfineMode::NAMES),
        "\"auto\"",
        "`auto`: commands are confined by every layer the kernel offers, and what is missing is reported. `require`: no command runs unless all of them are there. `off`: commands reach whatever you can.",
        |c, _, v| put(&mut c.sandbox.confine.mode, v),
    ),
    row(
        "sandbox.confine.network",
        choice(NetworkAccess::NAMES),
        "\"allow\"",
        "Whether commands have a network.",
        |c, _, v| put(&mut c.sandbox.confine.network, v),
    ),
    row(
        "sandbox.confine.extra_read",
        Kind::Paths,
        "[]",
        "Files and folders commands may read besides the roots, the system and the toolchains. No protected path.",
        |c, _, v| put(&mut c.sandbox.confine.extra_read, v),
    ),
    row(
        "sandbox.confine.extra_write",
        Kind::Paths,
        "[]",
        "Files and folders commands may change besides the roots and caches; file tools do not reach them. No protected path.",
        |c, _, v| put(&mut c.sandbox.confine.extra_write, v),
    ),
    row(
        "sandbox.confine.ssh",
        choice(SshAccess::NAMES),
        "\"off\"",
        "`agent`: commands reach your SSH agent, `known_hosts` and the SSH configuration, never a key file. With it, whatever runs a command can sign in where your keys do.",
        |c, _, v| put(&mut c.sandbox.confine.ssh, v),
    ),
    row(
        "sandbox.confine.max_pids",
        MAX_PIDS,
        "1024",
        "The most processes and threads of one command at once.",
        |c, _, v| put(&mut c.sandbox.confine.max_pids, v),
    ),
    row(
        "sandbox.confine.max_memory_mb",
        MAX_MEMORY,
        "0",
        "The most memory of one command, in MiB; 0 means no limit. Where Fermix may not make control groups it holds for each process.",
        |c, _, v| put(&mut c.sandbox.confine.max_memory_mb, v),
    ),
    row(
        "sandbox.confine.allow_nested",
        Kind::Flag,
        "false",
        "Whether commands may make namespaces of their own, as browsers do.",
        |c, _, v| put(&mut c.sandbox.confine.allow_nested, v),
    ),
];
