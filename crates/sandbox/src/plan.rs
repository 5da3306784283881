//! What this process and its launcher say to each other, over one socket.
//!
//! This process sends a [`Plan`], then at most one [`TERMINATE`]. The launcher sends one [`Report`]
//! and ends. The end of the stream means that the other side is gone.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use crate::confine::plan::ConfinePlan;

/// Asks the launcher to end the run, gently first.
pub(crate) const TERMINATE: u8 = b'T';
/// The longest plan, in bytes.
const MAX_PLAN: usize = 64 * 1024 * 1024;

/// What to run. The working directory is the launcher's own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) umask: u32,
    /// Nothing means that the kernel does not confine it.
    pub(crate) confine: Option<ConfinePlan>,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Nothing was started; the system's error number.
    NotStarted(i32),
    /// Nothing was started, because a step of its confinement failed.
    NotConfined {
        /// The step's number.
        step: i32,
        /// The system's error number.
        errno: i32,
    },
    /// The command ended, and so did everything it had started.
    Ended {
        exit: i32,
        signal: Option<i32>,
        /// Whether the tree is proven to be gone.
        is_clean: bool,
    },
}

impl Report {
    /// Bytes of a report on the wire.
    pub(crate) const LEN: usize = 10;

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let (kind, first, second, clean) = match self {
            Self::NotStarted(error) => (b'F', error, 0, true),
            Self::NotConfined { step, errno } => (b'C', step, errno, true),
            Self::Ended {
                exit,
                signal,
                is_clean,
            } => (b'E', exit, signal.unwrap_or(0), is_clean),
        };
        let mut bytes = [0; Self::LEN];
        bytes[0] = kind;
        bytes[1..5].copy_from_slice(&first.to_le_bytes());
        bytes[5..9].copy_from_slice(&second.to_le_bytes());
        bytes[9] = u8::from(clean);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let number = |at: usize| {
            i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        match bytes[0] {
            b'F' => Some(Self::NotStarted(number(1))),
            b'C' => Some(Self::NotConfined {
                step: number(1),
                errno: number(5),
            }),
            b'E' => Some(Self::Ended {
                exit: number(1),
                signal: Some(number(5)).filter(|signal| *signal != 0),
                is_clean: bytes[9] == 1,
            }),
            _ => None,
        }
    }
}

impl Plan {
    /// The plan with its length in front; nothing when it is too long.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        put(&mut body, self.program.as_bytes());
        put_count(&mut body, self.args.len());
        self.args
            .iter()
            .for_each(|arg| put(&mut body, arg.as_bytes()));
        put_count(&mut body, self.env.len());
        for (name, value) in &self.env {
            put(&mut body, name.as_bytes());
            put(&mut body, value.as_bytes());
        }
        body.push(u8::from(self.stdin.is_some()));
        put(&mut body, self.stdin.as_deref().unwrap_or_default());
        body.extend_from_slice(&self.umask.to_le_bytes());
        body.push(u8::from(self.confine.is_some()));
        if let Some(confine) = &self.confine {
            confine.put(&mut body);
        }
        if body.len() > MAX_PLAN {
            return None;
        }
        let mut bytes = Vec::with_capacity(body.len() + 4);
        put(&mut bytes, &body);
        Some(bytes)
    }

    /// Reads one plan.
    pub(crate) fn read(source: &mut impl Read) -> io::Result<Self> {
        let body = take(source, MAX_PLAN)?;
        let mut rest = body.as_slice();
        let source = &mut rest;
        let program = take_text(source)?;
        let args = (0..take_count(source)?)
            .map(|_| take_text(source))
            .collect::<io::Result<_>>()?;
        let env = (0..take_count(source)?)
            .map(|_| Ok((take_text(source)?, take_text(source)?)))
            .collect::<io::Result<_>>()?;
        let mut has_stdin = [0];
        source.read_exact(&mut has_stdin)?;
        let stdin = take(source, MAX_PLAN)?;
        let umask = take_count(source)?;
        let mut is_confined = [0];
        source.read_exact(&mut is_confined)?;
        let confine = match is_confined {
            [0] => None,
            [1] => Some(ConfinePlan::take(source)?),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Self {
            program,
            args,
            env,
            stdin: (has_stdin == [1]).then_some(stdin),
            umask,
            confine,
        })
    }

    /// Writes one plan.
    #[cfg(test)]
    pub(crate) fn write(&self, target: &mut impl Write) -> io::Result<()> {
        target.write_all(&self.to_bytes().ok_or(io::ErrorKind::InvalidInput)?)
    }
}

/// Writes one report.
pub(crate) fn write_report(report: Report, target: &mut impl Write) -> io::Result<()> {
    target.write_all(&report.to_bytes())
}

pub(crate) fn put_count(target: &mut Vec<u8>, count: usize) {
    // A count beyond this would not fit into the longest plan and is refused there.
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    target.extend_from_slice(&count.to_le_bytes());
}

pub(crate) fn put(target: &mut Vec<u8>, bytes: &[u8]) {
    put_count(target, bytes.len());
    target.extend_from_slice(bytes);
}

pub(crate) fn take_count(source: &mut impl Read) -> io::Result<u32> {
    let mut count = [0; 4];
    source.read_exact(&mut count)?;
    Ok(u32::from_le_bytes(count))
}

fn take(source: &mut impl Read, limit: usize) -> io::Result<Vec<u8>> {
    let len = take_count(source)? as usize;
    if len > limit {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    source.take(len as u64).read_to_end(&mut bytes)?;
    if bytes.len() == len {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

pub(crate) fn take_text(source: &mut &[u8]) -> io::Result<OsString> {
    take(source, MAX_PLAN).map(OsString::from_vec)
}

/// Whether text can be an argument, a name or a value of a new process.
pub(crate) fn is_passable(text: &OsStr) -> bool {
    !text.as_bytes().contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::plan::{Grant, Group, Link, Mount, MountKind, Rule};
    use crate::confine::report::Confinement;
    use crate::jail::Network;

    fn whole_confinement() -> ConfinePlan {
        ConfinePlan {
            layers: Confinement {
                namespaces: true,
                landlock: false,
                seccomp: true,
            },
            mounts: vec![Mount {
                path: "/usr".into(),
                kind: MountKind::Passage,
            }],
            links: vec![Link {
                path: "/bin".into(),
                target: "usr/bin".into(),
            }],
            rules: vec![Rule {
                path: "/".into(),
                grant: Grant::List,
            }],
            cwd: Some("/work".into()),
            network: Network::Allowed,
            allow_nested: false,
            runs_own_program: true,
            scratch: Some("/tmp/x".into()),
            groups: vec![Group {
                folder: "/sys/fs/cgroup/x".into(),
                limits: vec![("pids.max".into(), "7".into())],
            }],
            max_processes: Some(7),
            max_data: Some(1 << 40),
            is_probe: true,
        }
    }

    #[test]
    fn plans_and_reports_survive_the_wire() {
        let plan = Plan {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), OsString::from_vec(vec![b'a', 0xFF]), "".into()],
            env: vec![("A".into(), "1=2".into()), ("B".into(), "".into())],
            stdin: Some(vec![0, 1, 2]),
            umask: 0o77,
            confine: Some(whole_confinement()),
        };
        let mut wire = Vec::new();
        plan.write(&mut wire).expect("a vector takes everything");
        assert_eq!(Plan::read(&mut wire.as_slice()).expect("complete"), plan);
        assert!(
            Plan::read(&mut &wire[..wire.len() - 1]).is_err(),
            "a cut plan is no plan"
        );
        for report in [
            Report::NotStarted(2),
            Report::NotConfined { step: 3, errno: 1 },
            Report::Ended {
                exit: 7,
                signal: None,
                is_clean: true,
            },
            Report::Ended {
                exit: 137,
                signal: Some(9),
                is_clean: false,
            },
        ] {
            assert_eq!(Report::from_bytes(&report.to_bytes()), Some(report));
        }
    }
}
