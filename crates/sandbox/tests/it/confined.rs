//! Confinement seen from inside a command.

use std::time::Instant;

use fermix_types::SandboxMode;
use tokio_util::sync::CancellationToken;

use crate::support::{TestHome, shell};

#[tokio::test]
async fn debug_look() {
    let test = TestHome::new(SandboxMode::Standard);
    let sandbox = test.sandbox();
    println!(
        "{}",
        serde_json::to_string_pretty(&sandbox.confinement()).unwrap()
    );
    println!("{:#?}", sandbox.explain_view(&Default::default()));
    let script = std::env::var("SCRIPT").unwrap_or_else(|_| "id; ps aux; mount; ls -la / /dev /tmp ~; cat /proc/self/status | grep -E 'Cap|NoNew|Secc'; ulimit -a; cat ~/.ssh/id; env; ls -la /proc/1/ | head; cat /proc/1/environ".to_owned());
    let out = sandbox
        .runner()
        .run(shell(&sandbox, &script).await, &CancellationToken::new())
        .await
        .unwrap();
    println!(
        "exit {} confined {}\n{}",
        out.exit,
        out.confined.as_str(),
        String::from_utf8_lossy(&out.stdout)
    );
    for mode in [
        fermix_sandbox::ConfineMode::Auto,
        fermix_sandbox::ConfineMode::Off,
    ] {
        let mut settings = sandbox.settings();
        settings.confine.mode = mode;
        sandbox.reconfigure(settings).unwrap();
        let mut best = std::time::Duration::MAX;
        let begun = Instant::now();
        for _ in 0..100 {
            let s = Instant::now();
            sandbox
                .runner()
                .run(shell(&sandbox, "exit 0").await, &CancellationToken::new())
                .await
                .unwrap();
            best = best.min(s.elapsed());
        }
        println!("{mode:?}: best {best:?} mean {:?}", begun.elapsed() / 100);
    }
}
