//! Writing to disks as devices.

use std::path::Path;

use crate::hardline::lexer::{UNKNOWN, USER};
use crate::hardline::targets::{absolute, is_disk, is_harmless_device};
use crate::hardline::{Class, Reason};

/// A redirection to `target`.
pub(super) fn written(target: &str, cwd: Option<&Path>) -> Option<Reason> {
    is_disk(target, cwd)
        .then(|| Reason::new(Class::Device, format!("writing to the disk {target}")))
}

pub(super) fn check(name: &str, args: &[&str], cwd: Option<&Path>) -> Option<Reason> {
    let device = |what: String| Some(Reason::new(Class::Device, what));
    let any_disk = || args.iter().find(|arg| is_disk(arg, cwd));
    let has = |wanted: &[&str]| args.iter().any(|arg| wanted.contains(arg));
    match name {
        "dd" => args
            .iter()
            .filter_map(|arg| arg.strip_prefix("of="))
            .find(|target| {
                is_disk(target, cwd) || (target.starts_with("/dev/") && !is_harmless_device(target))
            })
            .and_then(|target| device(format!("writing to the device {target}"))),
        // What they write to comes last, or behind an option.
        "cp" | "mv" | "install" => {
            let last = args.iter().rfind(|arg| !arg.starts_with('-'));
            let named = args
                .iter()
                .find_map(|arg| arg.strip_prefix("--target-directory="));
            let after = args
                .windows(2)
                .find(|pair| pair[0] == "-t")
                .map(|pair| pair[1]);
            [last.copied(), named, after]
                .into_iter()
                .flatten()
                .find_map(|target| written(target, cwd))
        }
        "tee" | "shred" | "blkdiscard" | "truncate" | "fallocate" | "mkswap" => {
            any_disk().and_then(|target| written(target, cwd))
        }
        // Without these they only look.
        "wipefs" => any_disk()
            .filter(|_| has(&["-a", "--all", "-o", "--offset", "-af", "-fa"]))
            .and_then(|target| written(target, cwd)),
        "sgdisk" | "fdisk" | "sfdisk" | "cfdisk" | "gdisk" | "cgdisk" => any_disk()
            .filter(|_| {
                !has(&[
                    "-l",
                    "--list",
                    "-p",
                    "--print",
                    "-d",
                    "--dump",
                    "-s",
                    "--show-size",
                    "-v",
                ]) || has(&["-Z", "--zap-all", "-z", "-o", "--clear"])
            })
            .and_then(|target| device(format!("{name} {target}"))),
        "parted" => {
            let changes = [
                "mklabel",
                "mktable",
                "mkpart",
                "rm",
                "resizepart",
                "rescue",
                "set",
                "name",
            ];
            any_disk()
                .filter(|_| has(&changes))
                .and_then(|target| device(format!("parted {target}")))
        }
        "diskutil" => args
            .iter()
            .find(|verb| {
                let verb = verb.to_ascii_lowercase();
                [
                    "erase",
                    "partitiondisk",
                    "zerodisk",
                    "secureerase",
                    "deletecontainer",
                    "randomdisk",
                ]
                .iter()
                .any(|bad| verb.starts_with(bad))
            })
            .and_then(|verb| device(format!("diskutil {verb}"))),
        _ if matches!(name, "mkfs" | "newfs" | "mke2fs") || name.starts_with("mkfs.") => {
            (!is_harmless_format(args, cwd)).then(|| Reason::new(Class::Device, name))
        }
        _ => None,
    }
}

/// Whether a file system is made in nothing but files, or none is made.
fn is_harmless_format(args: &[&str], cwd: Option<&Path>) -> bool {
    let is_question = args
        .iter()
        .any(|arg| matches!(*arg, "--help" | "-V" | "--version"));
    let mut operands = args.iter().filter(|arg| !arg.starts_with('-')).peekable();
    let is_file = |operand: &&str| {
        !operand.contains([UNKNOWN, USER])
            && absolute(operand, cwd).map_or(!operand.starts_with('/'), |path| {
                path != "/dev" && !path.starts_with("/dev/")
            })
    };
    is_question || (operands.peek().is_some() && operands.all(is_file))
}
