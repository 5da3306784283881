//! The files a command may open.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use ::landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::confine::plan::{Grant, Rule};
use crate::jail::Network;

/// The newest rights the rules are written for. An older kernel enforces those it knows.
const NEWEST: ABI = ABI::V6;

/// Restricts this thread for good. `own_program` is the launcher's executable, for commands that are
/// Fermix itself.
pub(super) fn restrict(
    rules: &[Rule],
    own_program: Option<&OwnedFd>,
    network: Network,
) -> io::Result<()> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(NEWEST)))
        .map_err(io::Error::other)?;
    if network == Network::Denied {
        ruleset = ruleset
            .handle_access(AccessNet::from_all(NEWEST))
            .map_err(io::Error::other)?;
    }
    let mut created = ruleset.create().map_err(io::Error::other)?;
    for rule in rules {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let object = match rustix::fs::open(&rule.path, flags, Mode::empty()) {
            Ok(object) => object,
            // What is not there needs no right. What cannot be opened by name is not reached by it.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => continue,
            Err(error) => return Err(error.into()),
        };
        let rights = rights(rule.grant, &object)?;
        created = created
            .add_rule(PathBeneath::new(object.as_fd(), rights))
            .map_err(io::Error::other)?;
    }
    if let Some(program) = own_program {
        created = created
            .add_rule(PathBeneath::new(
                program.as_fd(),
                AccessFs::Execute | AccessFs::ReadFile,
            ))
            .map_err(io::Error::other)?;
    }
    let status = created.restrict_self().map_err(io::Error::other)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(Errno::OPNOTSUPP.into());
    }
    Ok(())
}

fn rights(grant: Grant, object: &OwnedFd) -> io::Result<BitFlags<AccessFs>> {
    let all = match grant {
        Grant::List => AccessFs::ReadDir.into(),
        Grant::Read => AccessFs::ReadFile | AccessFs::ReadDir,
        Grant::ReadAndRun => AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute,
        Grant::Devices => {
            AccessFs::ReadFile
                | AccessFs::WriteFile
                | AccessFs::ReadDir
                | AccessFs::Truncate
                | AccessFs::IoctlDev
        }
        Grant::Everything => AccessFs::from_all(NEWEST),
    };
    let stat = rustix::fs::fstat(object)?;
    Ok(
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            all
        } else {
            all & AccessFs::from_file(NEWEST)
        },
    )
}
