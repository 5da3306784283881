//! What `--since` takes.

use jiff::{Timestamp, ToSpan as _};

/// `15m`, `2h`, `3d`, a date, or a full timestamp.
pub fn moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let wrong = || {
        format!(
            "--since takes 15m, 2h, 3d, a date such as 2026-01-31, or a timestamp, not `{text}`"
        )
    };
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    if let Ok(date) = text.parse::<jiff::civil::Date>() {
        return date
            .to_zoned(jiff::tz::TimeZone::UTC)
            .map(|start| start.timestamp())
            .map_err(|_| wrong());
    }
    let unit = text.chars().last().ok_or_else(wrong)?;
    let count: i64 = text[..text.len() - unit.len_utf8()]
        .parse()
        .map_err(|_| wrong())?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let back = count
        .checked_mul(seconds)
        .filter(|back| (0..=3_200_000_000).contains(back))
        .ok_or_else(wrong)?;
    now.checked_sub(back.seconds()).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_reads_spans_dates_and_moments() {
        let now: Timestamp = "2026-02-01T12:00:00Z".parse().unwrap();
        let cases = [
            ("15m", Some("2026-02-01T11:45:00Z")),
            ("2h", Some("2026-02-01T10:00:00Z")),
            ("3d", Some("2026-01-29T12:00:00Z")),
            ("2026-01-31", Some("2026-01-31T00:00:00Z")),
            ("2026-01-31T01:02:03Z", Some("2026-01-31T01:02:03Z")),
            ("yesterday", None),
            ("", None),
            ("-5m", None),
            ("999999999999d", None),
            ("5é", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|moment| moment.parse::<Timestamp>().unwrap());
            assert_eq!(moment(text, now).ok(), expected, "{text}");
        }
    }
}
