//! Harmless things people and models do in a shell, under full confinement.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use fermix_sandbox::{CommandSpec, find_executable};
use fermix_types::SandboxMode;
use tokio_util::sync::CancellationToken;

use crate::support::{TestHome, is_confined, shell};

/// The program it needs beside the shell, the script, and what it prints.
const IDIOMS: &[(&str, &str, &str)] = &[
    ("", "echo a > f; cat f", "a"),
    ("", "ls nowhere 2>/dev/null; echo $?", "2"),
    (
        "",
        "echo a >&2 2>&1 | cat; echo b >/dev/null; echo c",
        "a\nc",
    ),
    ("", "printf 'b\\na\\n' | sort | head -n 1", "a"),
    ("", "cat <<END\nhere\nEND", "here"),
    ("", "echo in | cat /dev/stdin", "in"),
    (
        "",
        "echo out > /dev/stdout; echo err > /dev/stderr",
        "out\nerr",
    ),
    ("bash", "bash -c 'cat <(echo sub) >(cat >/dev/null)'", "sub"),
    (
        "bash",
        "bash -c 'diff <(echo 1) <(echo 1) && echo same'",
        "same",
    ),
    (
        "bash",
        "bash -c 'x=(1 2 3); echo ${#x[@]}; cat <<< word'",
        "3\nword",
    ),
    (
        "",
        "f=$(mktemp); echo t > \"$f\"; cat \"$f\"; rm \"$f\"",
        "t",
    ),
    ("", "d=$(mktemp -d); cd \"$d\" && pwd | grep -c tmp", "1"),
    (
        "",
        "echo t > /tmp/file; cat /tmp/file; ls /var/tmp/file",
        "t\n/var/tmp/file",
    ),
    ("", "sleep 0.1 & sleep 0.1 & wait; echo waited", "waited"),
    (
        "",
        "(trap 'echo got' USR1; kill -USR1 $(sh -c 'echo $PPID'); :)",
        "got",
    ),
    ("", "yes | head -n 2 | wc -l", "2"),
    ("", "mkfifo p; echo through > p & cat p", "through"),
    ("", "ln -s note.txt l; readlink l; cat l", "note.txt\nhello"),
    (
        "",
        "mkdir -p a/b; mv note.txt a/b/; ln a/b/note.txt hard; cat hard",
        "hello",
    ),
    ("", "touch x; chmod 755 x; stat -c %a x", "755"),
    ("", "find . -name note.txt", "./note.txt"),
    ("", "grep -rl hello . | xargs basename", "note.txt"),
    (
        "",
        "tar cf t.tar note.txt; mkdir o; tar xf t.tar -C o; cat o/note.txt",
        "hello",
    ),
    ("", "gzip -k note.txt; zcat note.txt.gz", "hello"),
    ("", "seq 3 | xargs -n1 -P3 echo | sort | tr -d '\\n'", "123"),
    (
        "",
        "date -d @0 -u +%Y; TZ=Europe/Paris date -d @0 +%H",
        "1970\n01",
    ),
    ("", "locale >/dev/null 2>&1; echo $?", "0"),
    ("", "ps -o pid= -p $$ | tr -d ' ' | grep -c .", "1"),
    (
        "",
        "nproc | grep -c .; head -c 5 /dev/urandom | wc -c",
        "1\n5",
    ),
    (
        "",
        "id -u >/dev/null; whoami | grep -c .; getent passwd root | cut -d: -f1",
        "1\nroot",
    ),
    (
        "",
        "ulimit -n; df . >/dev/null && echo df; free >/dev/null && echo free",
        "4096\ndf\nfree",
    ),
    ("", "timeout 5 sh -c 'echo in time'", "in time"),
    ("", "nohup echo kept 2>/dev/null | cat", "kept"),
    ("", "setsid -w echo apart", "apart"),
    (
        "",
        "script -qec 'test -t 1 && echo terminal' /dev/null | tr -d '\\r'",
        "terminal",
    ),
    ("python3", "python3 -c 'print(6*7)'", "42"),
    (
        "python3",
        "python3 -c \"import sqlite3; c=sqlite3.connect('d.db'); c.execute('create table t(x)'); c.execute('insert into t values(1)'); c.commit(); print(c.execute('select * from t').fetchall())\"",
        "[(1,)]",
    ),
    (
        "python3",
        "python3 -c \"import socket,threading; s=socket.create_server(('127.0.0.1',0)); threading.Thread(target=lambda: s.accept()[0].sendall(b'hi')).start(); print(socket.create_connection(s.getsockname()).recv(2).decode())\"",
        "hi",
    ),
    (
        "python3",
        "python3 -c \"import multiprocessing as m; print(sum(m.Pool(2).map(abs,[-1,-2])))\"",
        "3",
    ),
    (
        "python3",
        "python3 -c \"import pty,os; m,s=pty.openpty(); os.write(s,b'x'); print(os.read(m,1).decode())\"",
        "x",
    ),
    (
        "python3",
        "python3 -m venv --without-pip v && v/bin/python -c 'print(1)'",
        "1",
    ),
    (
        "cc",
        "echo 'int main(){return 7;}' > m.c; cc m.c -o m && ./m; echo $?",
        "7",
    ),
    (
        "make",
        "printf 'all:\\n\\t@echo made\\n' > Makefile; make -s",
        "made",
    ),
    (
        "git",
        "git init -q . && git add note.txt && git -c user.name=o -c user.email=o@example.com commit -qm first && git log --format=%s && git status --short | grep -c . || true",
        "first\n0",
    ),
    (
        "node",
        "node -e 'require(\"fs\").writeFileSync(\"n\",\"7\"); console.log(6*7)'",
        "42",
    ),
    (
        "node",
        "node -e 'setTimeout(()=>console.log(\"later\"),5)'",
        "later",
    ),
    (
        "npm",
        "mkdir app && cd app && echo '{\"name\":\"app\",\"version\":\"1.0.0\",\"scripts\":{\"go\":\"echo gone\"}}' > package.json && npm run -s go && npm ls --offline >/dev/null && echo listed",
        "gone\nlisted",
    ),
    ("perl", "perl -e 'print 6*7'", "42"),
    (
        "cargo",
        "cargo init -q --vcs none --name tiny tiny && cd tiny && cargo run -q --offline",
        "Hello, world!",
    ),
];

#[tokio::test]
async fn harmless_idioms_run_under_full_confinement() {
    let mut test = TestHome::new(SandboxMode::Standard).at_home();
    let real_home = home_of_the_tests();
    // The toolchains of whoever runs the tests, as they would lie in the owner's home.
    for name in [".rustup", ".pyenv"] {
        if real_home.join(name).is_dir() {
            symlink(real_home.join(name), test.home.join(name)).expect("linked");
        }
    }
    let search_path = std::env::join_paths(
        ["/usr/local/bin", "/usr/bin", "/bin"]
            .map(PathBuf::from)
            .into_iter()
            .chain([real_home.join(".cargo/bin")]),
    )
    .expect("plain names");
    let environment = &mut test.surroundings.environment;
    environment.insert("PATH".into(), search_path.clone());
    if !is_confined(&test.sandbox(), "full") {
        return;
    }
    let mut wrong = Vec::new();
    for (program, script, expected) in IDIOMS {
        if !program.is_empty() && find_executable(program.as_ref(), &search_path).is_none() {
            println!("left out, there is no {program}: {script}");
            continue;
        }
        let workspace = test.workspace().to_owned();
        std::fs::remove_dir_all(&workspace).expect("ours");
        std::fs::create_dir_all(&workspace).expect("ours");
        std::fs::write(workspace.join("note.txt"), "hello").expect("ours");
        let sandbox = test.sandbox();
        let run = CommandSpec {
            timeout: Duration::from_secs(if *program == "cargo" { 60 } else { 15 }),
            ..shell(&sandbox, script).await
        };
        let outcome = sandbox
            .runner()
            .run(run, &CancellationToken::new())
            .await
            .expect("ran");
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        if text.trim() != *expected {
            wrong.push(format!("{script}\n  gave {text:?} ({})", outcome.exit));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(IDIOMS.len() >= 40);
}

#[expect(
    clippy::disallowed_methods,
    reason = "where the toolchains of whoever runs the tests are"
)]
fn home_of_the_tests() -> PathBuf {
    std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default()
}
