//! Commands that try to get out. Each try is made confined, in every combination of layers this
//! machine has, and then without confinement, where it must succeed: a try that never works proves
//! nothing.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use fermix_sandbox::{ConfineMode, Network, Sandbox};
use fermix_types::SandboxMode;

use crate::support::{TestHome, is_confined, said};

/// The layers, and the name of the launcher that has just them.
const FULL: (&str, &str) = ("full", "launcher");
const NO_NAMESPACES: (&str, &str) = ("landlock+seccomp", "fail-at-namespaces");
const NO_LANDLOCK: (&str, &str) = ("namespaces+seccomp", "fail-at-landlock");
const NO_SECCOMP: (&str, &str) = ("namespaces+landlock", "fail-at-seccomp");

fn home(launcher: &str) -> TestHome {
    let test = TestHome::new(SandboxMode::Standard)
        .launched_by(launcher)
        .at_home();
    fs::write(test.home.join(".fermix/config.toml"), "mode = \"strict\"\n").expect("written");
    test
}

/// Runs `script` under each combination and without any. `got_out` looks at what it printed and did.
async fn try_out(
    combinations: &[(&str, &str)],
    script: &str,
    change: impl Fn(&mut TestHome),
    got_out: impl Fn(&str, &TestHome) -> bool,
) {
    for (layers, launcher) in combinations {
        let mut test = home(launcher);
        change(&mut test);
        let sandbox = test.sandbox();
        if !is_confined(&sandbox, layers) {
            continue;
        }
        let (text, _) = said(&sandbox, script).await;
        assert!(!got_out(&text, &test), "{layers}: {script}\n{text}");
    }
    let mut test = home("launcher").with_confinement(ConfineMode::Off);
    change(&mut test);
    let (text, _) = said(&test.sandbox(), script).await;
    assert!(
        got_out(&text, &test),
        "unconfined, it must get out: {script}\n{text}"
    );
}

#[tokio::test]
async fn secrets_of_the_home_are_not_read() {
    for script in [
        "cat ~/.ssh/id",
        "cat ~/./.ssh//id",
        "cp ~/.ssh/id stolen; cat stolen",
        "cp -r ~/.ssh stolen; cat stolen/id",
        "tar cf - -C ~ .ssh | tar xOf -",
        "python3 -c \"print(open('$HOME/.ssh/id').read())\"",
        "ln ~/.ssh/id k; cat k",
        "ln -s ~/.ssh/id l; cat l",
        "mv ~/.ssh/id m; cat m",
        "cat < ~/.ssh/id",
        "echo $(cat ~/.ssh/id)",
        "sh -c 'cat ~/.ssh/id' | tee out; cat out",
        "cat /proc/self/root$HOME/.ssh/id",
        "cat /proc/$PPID/root$HOME/.ssh/id",
        "cat /proc/$PPID/cwd/../../.ssh/id",
        "cat ../../.netrc",
        "cat ../auth.json",
        "grep -r SECRET ~ 2>/dev/null",
    ] {
        let combinations = [FULL, NO_NAMESPACES, NO_LANDLOCK, NO_SECCOMP];
        try_out(
            &combinations,
            script,
            |_| {},
            |text, _| text.contains("SECRET"),
        )
        .await;
    }
}

#[tokio::test]
async fn what_lies_outside_is_not_changed() {
    let everywhere = [FULL, NO_NAMESPACES, NO_LANDLOCK, NO_SECCOMP];
    try_out(
        &everywhere,
        "echo 'mode = \"open\"' > ../config.toml",
        |_| {},
        |_, test| {
            fs::read_to_string(test.home.join(".fermix/config.toml"))
                .is_ok_and(|text| text.contains("open"))
        },
    )
    .await;
    try_out(
        &everywhere,
        "touch ~/.ssh/authorized_keys; ln -s x ~/.bashrc; mkdir ~/.config",
        |_| {},
        |_, test| {
            test.home.join(".ssh/authorized_keys").exists()
                || test.home.join(".bashrc").is_symlink()
                || test.home.join(".config").exists()
        },
    )
    .await;
    // Landlock lets anybody change the mode of what they cannot open; only the view helps.
    let with_view = [FULL, NO_LANDLOCK, NO_SECCOMP];
    try_out(
        &with_view,
        "chmod 0700 ~/project; chmod 0 ~/.ssh; true",
        |_| {},
        |_, test| {
            let mode = fs::metadata(test.home.join(".ssh"))
                .expect("there")
                .permissions();
            let is_changed = mode.mode() & 0o777 == 0;
            fs::set_permissions(test.home.join(".ssh"), fs::Permissions::from_mode(0o755))
                .expect("ours");
            is_changed
        },
    )
    .await;
    try_out(
        &everywhere,
        "cd /; mv ~/.fermix/workspace ~/.fermix/elsewhere",
        |_| {},
        |_, test| !test.home.join(".fermix/workspace").exists(),
    )
    .await;
    try_out(
        &everywhere,
        "echo x > skills-marker; echo x > ../skills/new",
        |_| {},
        |_, test| test.home.join(".fermix/skills/new").exists(),
    )
    .await;
}

#[tokio::test]
async fn blocked_folders_inside_a_root_are_closed() {
    let change = |test: &mut TestHome| {
        let inner = test.workspace().join("open/closed");
        fs::create_dir_all(&inner).expect("made");
        fs::write(inner.join("file"), "SECRET").expect("written");
        test.settings.blocked_roots.push(inner);
    };
    for script in [
        "cat open/closed/file",
        "mv open elsewhere; cat elsewhere/closed/file",
        "mv open/closed c; cat c/file",
    ] {
        let combinations = [FULL, NO_NAMESPACES, NO_LANDLOCK];
        try_out(&combinations, script, change, |text, _| {
            text.contains("SECRET")
        })
        .await;
    }
}

#[tokio::test]
async fn the_whole_home_opens_without_its_secrets() {
    for (layers, launcher) in [FULL, NO_LANDLOCK] {
        let mut test = home(launcher);
        test.settings.mode = SandboxMode::Open;
        let sandbox = test.sandbox();
        if !is_confined(&sandbox, layers) {
            continue;
        }
        let script = "cat project/a.txt; echo new > ~/new; echo kept > ~/.fermix/workspace/kept; \
             ls ~/.fermix; cat ~/.ssh/id ~/.netrc ~/.fermix/auth.json ~/.fermix/config.toml; \
             ls -a ~/.ssh; rm -rf ~/.ssh ~/.fermix/auth.json";
        let (text, _) = said(&sandbox, &format!("cd ~; {script}")).await;
        assert!(
            text.contains("project") && !text.contains("SECRET"),
            "{layers}: {text}"
        );
        assert!(text.contains("skills\nworkspace\n"), "{layers}: {text}");
        assert!(test.home.join("new").exists() && test.workspace().join("kept").exists());
        assert_eq!(
            fs::read_to_string(test.home.join(".ssh/id")).expect("there"),
            "SECRET key"
        );
    }
    // Landlock alone goes by the children, so what is there is reached and nothing new is made.
    let (layers, launcher) = NO_NAMESPACES;
    let mut test = home(launcher);
    test.settings.mode = SandboxMode::Open;
    let sandbox = test.sandbox();
    if is_confined(&sandbox, layers) {
        let script = "cd ~; cat project/a.txt; cat .ssh/id .netrc; echo more > project/b.txt; echo no > ~/new";
        let (text, _) = said(&sandbox, script).await;
        assert!(
            text.starts_with("project") && !text.contains("SECRET"),
            "{text}"
        );
        assert!(test.home.join("project/b.txt").exists() && !test.home.join("new").exists());
    }
}

#[tokio::test]
async fn sockets_of_the_session_are_out_of_reach() {
    let listen = |test: &mut TestHome| {
        for path in [".fermix/daemon.sock", "agent.sock"] {
            let listener = UnixListener::bind(test.home.join(path)).expect("bound");
            // A connection is made whether or not anybody accepts it.
            std::mem::forget(listener);
        }
    };
    for path in [".fermix/daemon.sock", "agent.sock"] {
        let script = format!(
            "python3 -c \"import os,socket; s=socket.socket(socket.AF_UNIX); s.connect(os.environ['HOME']+'/{path}'); print('connected')\""
        );
        try_out(&[FULL, NO_LANDLOCK], &script, listen, |text, _| {
            text.contains("connected")
        })
        .await;
    }
}

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "the process to look into is no run"
)]
async fn other_processes_are_out_of_reach() {
    let mut other = std::process::Command::new("sleep")
        .arg("300")
        .env("OTHER_SECRET", "SECRET of another process")
        .spawn()
        .expect("started");
    let pid = other.id();
    for script in [
        format!("tr '\\0' '\\n' < /proc/{pid}/environ"),
        format!("cat /proc/{pid}/root/etc/hostname >/dev/null && echo SECRET"),
        format!(
            "python3 -c \"import ctypes; l=ctypes.CDLL(None,use_errno=True); print('SECRET' if l.ptrace(0x4206,{pid},0,0)==0 else ctypes.get_errno())\""
        ),
    ] {
        let combinations = [FULL, NO_NAMESPACES, NO_LANDLOCK, NO_SECCOMP];
        try_out(
            &combinations,
            &script,
            |_| {},
            |text, _| text.contains("SECRET"),
        )
        .await;
    }
    // Signals need a list of processes of one's own, or Landlock's newer scope.
    let script = format!("kill -0 {pid} && echo SECRET");
    try_out(
        &[FULL, NO_LANDLOCK],
        &script,
        |_| {},
        |text, _| text.contains("SECRET"),
    )
    .await;
    other.kill().expect("ours");
    other.wait().expect("reaped");
}

#[tokio::test]
async fn calls_that_lead_out_are_refused() {
    // Each prints the error number; 1 is EPERM, 38 ENOSYS.
    let number = |call: &str| {
        format!(
            "python3 -c \"import ctypes; l=ctypes.CDLL(None,use_errno=True); r={call}; print('errno', ctypes.get_errno() if r==-1 else 0)\""
        )
    };
    let numbers: &[(&str, &str)] = if cfg!(target_arch = "x86_64") {
        &[
            ("l.syscall(425,1,0)", "io_uring_setup"),
            ("l.syscall(321,0,0,0)", "bpf"),
            ("l.syscall(250,0,-3,0)", "keyctl"),
            ("l.syscall(303,-100,0,0,0,0)", "name_to_handle_at"),
            ("l.syscall(323,1)", "userfaultfd"),
            ("l.unshare(0x04000000)", "unshare"),
            ("l.mount(b'x',b'/nowhere',b'tmpfs',0,0)", "mount"),
            ("l.chroot(b'/nowhere')", "chroot"),
            ("l.syscall(135,0x0040000)", "personality"),
            ("l.ioctl(0,0x5412,b'x')", "TIOCSTI"),
            ("l.socket(40,1,0)", "vsock"),
            ("l.socket(16,3,9)", "netlink audit"),
        ]
    } else {
        &[
            ("l.unshare(0x04000000)", "unshare"),
            ("l.mount(b'x',b'/nowhere',b'tmpfs',0,0)", "mount"),
            ("l.chroot(b'/nowhere')", "chroot"),
            ("l.ioctl(0,0x5412,b'x')", "TIOCSTI"),
            ("l.socket(40,1,0)", "vsock"),
        ]
    };
    for (call, name) in numbers {
        let script = number(call);
        let is_let_in = |text: &str, _: &TestHome| text.trim() != "errno 1";
        let combinations = [FULL, NO_NAMESPACES, NO_LANDLOCK];
        // Some are refused to an ordinary user anyway, so that only root can see the difference.
        if rustix::process::geteuid().is_root() {
            try_out(&combinations, &script, |_| {}, is_let_in).await;
            continue;
        }
        for (layers, launcher) in combinations {
            let sandbox = home(launcher).sandbox();
            if is_confined(&sandbox, layers) {
                let (text, _) = said(&sandbox, &script).await;
                assert_eq!(text.trim(), "errno 1", "{layers}: {name}");
            }
        }
    }
    if cfg!(target_arch = "x86_64") {
        // Hidden rather than refused, so that the C library takes the older call.
        let script = number("l.syscall(435,0,0)");
        let test = home("launcher");
        let sandbox = test.sandbox();
        if is_confined(&sandbox, "full") {
            assert_eq!(said(&sandbox, &script).await.0.trim(), "errno 38");
        }
        // The same calls under their second set of numbers end the caller.
        let (text, exit) = said(
            &sandbox,
            "python3 -c \"import ctypes; ctypes.CDLL(None).syscall(0x40000000+39)\"; echo $?",
        )
        .await;
        if is_confined(&sandbox, "full") {
            assert_eq!((text.lines().last(), exit), (Some("159"), 0), "{text}");
        }
    }
}

#[tokio::test]
async fn nested_namespaces_are_the_owners_choice() {
    let mut test = home("launcher");
    let sandbox = test.sandbox();
    if !is_confined(&sandbox, "full") {
        return;
    }
    let script = "unshare -U true && echo nested";
    assert!(!said(&sandbox, script).await.0.contains("nested"));
    test.settings.confine.allow_nested = true;
    let (text, _) = said(&test.sandbox(), script).await;
    assert!(text.contains("nested"), "{text}");
    // Also then it stays inside.
    let (text, _) = said(
        &test.sandbox(),
        "unshare -Urm sh -c 'cat ~/.ssh/id; umount -l /; cat ~/.ssh/id'",
    )
    .await;
    assert!(!text.contains("SECRET"), "{text}");
}

#[tokio::test]
async fn without_a_network_nothing_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("known").port();
    let deny = |test: &mut TestHome| {
        test.settings.confine.network = Network::Denied;
    };
    for script in [
        format!("s=socket.create_connection(('127.0.0.1',{port}),3)"),
        format!(
            "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.sendto(b'x',('127.0.0.1',{port}))"
        ),
        format!(
            "s=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM); s.sendto(b'x',('::1',{port}))"
        ),
    ] {
        let script = format!("python3 -c \"import socket; {script}; print('sent')\"");
        let combinations = [FULL, NO_NAMESPACES, NO_LANDLOCK, NO_SECCOMP];
        try_out(&combinations, &script, deny, |text, _| {
            text.contains("sent")
        })
        .await;
    }
}

#[tokio::test]
async fn the_machine_is_not_used_up() {
    let few = |test: &mut TestHome| test.settings.confine.max_pids = 64;
    let limited = home("launcher").sandbox().confinement().process_limit;
    if limited != fermix_sandbox::ProcessLimit::None {
        let script = "for i in $(seq 300); do sleep 60 & done 2>/dev/null; wait_is_not_needed=1; \
             set -- $(ls -d /proc/[0-9]*); echo processes $#";
        try_out(&[FULL, NO_LANDLOCK], script, few, |text, _| {
            let count = text
                .split_whitespace()
                .last()
                .and_then(|count| count.parse::<u32>().ok());
            count.is_some_and(|count| count > 300)
        })
        .await;
    }
    let everywhere = [FULL, NO_NAMESPACES, NO_LANDLOCK];
    try_out(
        &everywhere,
        "truncate -s 100G big",
        |_| {},
        |_, test| fs::metadata(test.workspace().join("big")).is_ok_and(|file| file.len() > 8 << 30),
    )
    .await;
    let memory = |test: &mut TestHome| test.settings.confine.max_memory_mb = 100;
    let hog = "python3 -c \"b=bytearray(400<<20); print('has it')\"";
    try_out(&[FULL, NO_LANDLOCK], hog, memory, |text, _| {
        text.contains("has it")
    })
    .await;
}

/// The tests above would pass on a sandbox that runs nothing.
#[tokio::test]
async fn confined_commands_run() {
    for (layers, launcher) in [FULL, NO_NAMESPACES, NO_LANDLOCK, NO_SECCOMP] {
        let test = home(launcher);
        let sandbox: Sandbox = test.sandbox();
        if !is_confined(&sandbox, layers) {
            continue;
        }
        let script =
            "cat note.txt; echo > new && echo made; echo x > $TMPDIR/t && cat $TMPDIR/t; exit 3";
        let (text, exit) = said(&sandbox, script).await;
        assert_eq!((text.as_str(), exit), ("hellomade\nx\n", 3), "{layers}");
    }
}
