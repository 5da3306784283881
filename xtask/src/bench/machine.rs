//! What the numbers were measured on.

use std::fs;
use std::thread::available_parallelism;

/// The machine beside the numbers.
pub(super) struct Machine {
    /// The processor's own name.
    pub(super) processor: String,
    /// Cores this process may use.
    pub(super) cores: usize,
    /// Load average of the last minute before measuring: a busy machine explains slow numbers.
    pub(super) load: Option<f64>,
    /// System and architecture.
    pub(super) system: String,
}

pub(super) fn describe() -> Machine {
    let processor = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| "unknown processor".to_owned());
    let load = fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok());
    Machine {
        processor,
        cores: available_parallelism().map_or(1, usize::from),
        load,
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
    }
}
