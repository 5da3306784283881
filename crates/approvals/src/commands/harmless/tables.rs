//! Commands by what they can do at most.

/// Commands whose words are text and not files, and that do nothing but print or compute.
pub(super) const TALKERS: &[&str] = &[
    "echo", "pwd", "true", "false", ":", "sleep", "seq", "basename", "dirname", "whoami", "id",
    "groups", "uname", "nproc", "uptime", "free", "ps", "cal", "arch", "tr", "expr", "which",
    "type", "exit", "return", "break", "continue", "wait", "tty", "locale", "getconf", "factor",
    "logname", "printenv", "tput", "numfmt",
];

/// Options of a command that reads files.
pub(super) struct Options {
    /// Letters that make it do more. A cluster that holds one is refused.
    letters: &'static str,
    /// The same as words; an abbreviation counts.
    words: &'static [&'static str],
    /// How many operands it may have before the last one is written.
    pub(super) operands: usize,
}

impl Options {
    const fn any() -> Self {
        Self::but("", &[])
    }

    const fn but(letters: &'static str, words: &'static [&'static str]) -> Self {
        Self {
            letters,
            words,
            operands: usize::MAX,
        }
    }

    pub(super) fn are_all_harmless(&self) -> bool {
        self.letters.is_empty() && self.words.is_empty() && self.operands == usize::MAX
    }

    /// Whether a literal option is none of those that do more.
    pub(super) fn allow(&self, option: &str) -> bool {
        match option.strip_prefix("--") {
            Some("") => true,
            Some(word) => {
                let name = word.split('=').next().unwrap_or(word);
                !self
                    .words
                    .iter()
                    .any(|bad| bad.starts_with(name) || name.starts_with(bad))
            }
            None => !option
                .chars()
                .skip(1)
                .any(|letter| self.letters.contains(letter)),
        }
    }
}

/// Commands that read the files they name.
pub(super) const READERS: &[(&str, Options)] = &[
    ("cat", Options::any()),
    ("head", Options::any()),
    ("tail", Options::any()),
    ("wc", Options::any()),
    ("nl", Options::any()),
    ("tac", Options::any()),
    ("rev", Options::any()),
    ("cut", Options::any()),
    ("paste", Options::any()),
    ("join", Options::any()),
    ("comm", Options::any()),
    ("cmp", Options::any()),
    ("diff", Options::but("l", &["paginate"])),
    ("fold", Options::any()),
    ("fmt", Options::any()),
    ("expand", Options::any()),
    ("unexpand", Options::any()),
    ("column", Options::any()),
    ("ls", Options::any()),
    ("dir", Options::any()),
    ("stat", Options::any()),
    ("du", Options::any()),
    ("df", Options::any()),
    ("readlink", Options::any()),
    ("realpath", Options::any()),
    ("md5sum", Options::any()),
    ("sha1sum", Options::any()),
    ("sha256sum", Options::any()),
    ("sha512sum", Options::any()),
    ("b2sum", Options::any()),
    ("cksum", Options::any()),
    ("sum", Options::any()),
    ("od", Options::any()),
    ("hexdump", Options::any()),
    ("base64", Options::any()),
    ("grep", Options::any()),
    ("egrep", Options::any()),
    ("fgrep", Options::any()),
    ("jq", Options::any()),
    ("file", Options::but("Cm", &["compile", "magic-file"])),
    ("rg", Options::but("", &["pre", "hostname-bin"])),
    (
        "sort",
        Options::but("oT", &["output", "compress-program", "temporary-directory"]),
    ),
    ("shuf", Options::but("o", &["output"])),
    ("tree", Options::but("oR", &["output"])),
    ("date", Options::but("s", &["set"])),
    (
        "uniq",
        Options {
            letters: "",
            words: &[],
            operands: 1,
        },
    ),
];

/// Programs that are often asked for their version. Nothing else of them is harmless.
pub(super) const VERSIONED: &[&str] = &[
    "bash", "bun", "cargo", "clang", "cmake", "curl", "deno", "docker", "gcc", "gh", "git", "go",
    "java", "javac", "make", "ninja", "node", "npm", "npx", "perl", "php", "pip", "pip3", "pnpm",
    "python", "python3", "rg", "ruby", "rustc", "rustup", "sh", "sqlite3", "tar", "uv", "wget",
    "yarn",
];

/// Trees outside the roots that hold no secrets.
pub(super) const SYSTEM_TREES: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/opt",
    "/dev/null",
    "/dev/stdin",
    "/dev/zero",
    "/etc/os-release",
    "/etc/hostname",
    "/etc/localtime",
    "/etc/timezone",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/version",
    "/proc/uptime",
];
