//! `fermix config validate`.

use fermix_config::{Config, ConfigError, Overrides};
use serde_json::json;

use crate::output::{self, Exit};
use crate::start::Start;

/// Checks the file together with the environment, and lists every problem.
pub fn run(as_json: bool, start: &Start) -> Exit {
    let path = start.home.config_file();
    let loaded = Config::load(&start.home, &start.environment, &Overrides::default());
    let problems = loaded
        .as_ref()
        .map(|config| start.problems(config))
        .unwrap_or_default();
    match loaded {
        Ok(_) if !problems.is_empty() => {
            if !as_json {
                return output::failure(false, &problems.join("\n"));
            }
            let problems: Vec<_> = problems
                .iter()
                .map(|reason| json!({ "reason": reason }))
                .collect();
            output::json(&json!({
                "valid": false, "path": path, "problems": problems, "warnings": [],
            }));
            return Exit::Failed;
        }
        Ok(config) if as_json => {
            output::json(
                &json!({ "valid": true, "path": path, "problems": [], "warnings": config.warnings }),
            );
        }
        Ok(config) => {
            output::line(&format!("{} is valid", path.display()));
            for warning in &config.warnings {
                output::notice(&format!("warning: {warning}"));
            }
        }
        Err(error) if as_json => {
            let problems = match &error {
                ConfigError::Invalid(problems) => json!(problems),
                ConfigError::Unreadable { .. } | ConfigError::Syntax { .. } => {
                    json!([{ "reason": error.to_string() }])
                }
            };
            output::json(
                &json!({ "valid": false, "path": path, "problems": problems, "warnings": [] }),
            );
            return Exit::Failed;
        }
        Err(error) => return output::failure(false, &error.to_string()),
    }
    Exit::Ok
}
