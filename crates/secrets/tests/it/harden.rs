//! A hardened process still does what Fermix does with `/proc`, and others of its user cannot look
//! into it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use fermix_secrets::harden_process;
use rustix::process::{DumpableBehavior, Resource};

const ALONE: &str = "FERMIX_SECRETS_TEST_ALONE";
const NAME: &str = "harden::a_hardened_process_works_and_is_closed_to_others";
/// A user that owns nothing: to root, closed doors are open.
const NOBODY: u32 = 65_534;

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts its own binary, and tells it so by its environment"
)]
fn a_hardened_process_works_and_is_closed_to_others() {
    if std::env::var_os(ALONE).is_some() {
        return in_a_process_of_its_own();
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for path in [folder.path(), &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let users = match rustix::process::geteuid().is_root() {
        true => vec![None, Some(NOBODY)],
        false => vec![None],
    };
    for user in users {
        let mut command = Command::new(&program);
        command
            .args(["--exact", NAME, "--nocapture"])
            .env(ALONE, "1")
            .current_dir(folder.path());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{user:?}: {text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "other processes are the point")]
fn in_a_process_of_its_own() {
    let look = |path: String| {
        let looked = Command::new("cat").arg(path).output().unwrap();
        looked.status.success()
    };
    let own = std::process::id();
    // Some machines show nobody but root any process at all.
    let has_proc = fs::read_link("/proc/self/exe").is_ok();
    let is_open = look(format!("/proc/{own}/environ"));
    harden_process().unwrap();
    harden_process().unwrap();
    assert_eq!(
        rustix::process::dumpable_behavior().unwrap(),
        DumpableBehavior::NotDumpable
    );
    let core = rustix::process::getrlimit(Resource::Core);
    assert_eq!((core.current, core.maximum), (Some(0), Some(0)));

    if !has_proc {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        assert!(!look(format!("/proc/{own}/environ")), "closed after");
        assert!(!look(format!("/proc/{own}/maps")));
    }

    // What the launcher and the check of presence need.
    fs::read_link("/proc/self/exe").unwrap();
    fs::read_to_string("/proc/self/stat").unwrap();
    assert!(fs::read_dir("/proc/self/fd").unwrap().count() > 0);
    let again = Command::new("/proc/self/exe")
        .arg("--list")
        .output()
        .unwrap();
    assert!(again.status.success(), "{again:?}");
    let mut child = Command::new("sleep")
        .arg("60")
        .env("A_MARK", "1")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The kernel sets it up a moment after the program has begun.
    let path = format!("/proc/{}/environ", child.id());
    let mut environment = fs::read(&path);
    for _ in 0..500 {
        if environment.as_ref().map_or(true, |bytes| !bytes.is_empty()) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        environment = fs::read(&path);
    }
    let program = fs::metadata(format!("/proc/{}/exe", child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    if is_open {
        let environment = String::from_utf8(environment.unwrap()).unwrap();
        assert!(environment.contains("A_MARK=1"), "{environment}");
        program.unwrap();
    }
}
