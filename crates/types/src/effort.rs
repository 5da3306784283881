//! How hard a model is asked to think.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::{UnknownName, closed_names};

closed_names! {
    /// Reasoning effort, lowest first. `none` leaves the field out of the request.
    Effort, "reasoning effort", {
        /// The field is left out.
        None = "none",
        /// Least.
        Low = "low",
        /// Middle.
        Medium = "medium",
        /// More.
        High = "high",
        /// Even more, where the model knows it.
        XHigh = "xhigh",
        /// Most, where the model knows it.
        Max = "max",
    }
}
