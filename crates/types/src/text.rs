//! Bounded text. Every cut falls on a character boundary and says what it left out.

/// The longest prefix of `text` that has at most `max_bytes` bytes and ends on a character.
pub fn prefix(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// The longest suffix of `text` that has at most `max_bytes` bytes and starts on a character.
pub fn suffix(text: &str, max_bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max_bytes))..]
}

/// `text`, or its prefix and `…` when it has more than `max_bytes` bytes.
pub fn shortened(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        text.to_owned()
    } else {
        format!("{}…", prefix(text, max_bytes))
    }
}

/// Bytes as valid UTF-8; what is not becomes U+FFFD.
pub fn to_valid_utf8(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_fall_between_characters() {
        assert_eq!(prefix("añb", 2), "a");
        assert_eq!(suffix("añb", 2), "b");
        assert_eq!(shortened("añb", 9), "añb");
        assert_eq!(shortened("añbc", 3), "añ…");
    }

    #[test]
    fn bad_bytes_become_replacement_characters() {
        assert_eq!(to_valid_utf8(vec![b'a', 0xF3, b'b']), "a\u{FFFD}b");
    }
}
