//! Where an anchor occurs in a file, and what the file becomes when it is replaced.
//!
//! Everything here takes time linear in the file, whatever the file and the anchor hold.

use std::borrow::Cow;
use std::ops::Range;

/// An anchor and the file it is looked for in.
pub(super) struct Anchor<'a> {
    file: &'a [u8],
    /// The file, without the carriage returns of its CRLFs when the anchor's line feeds stand for
    /// either ending.
    text: Cow<'a, [u8]>,
    /// For each carriage return left out, where its line feed stands in `text`.
    left_out: Vec<usize>,
    anchor: &'a [u8],
    fallback: Vec<usize>,
}

impl<'a> Anchor<'a> {
    /// Prepares to find `anchor`, which is not empty.
    pub(super) fn new(file: &'a [u8], anchor: &'a [u8]) -> Self {
        // An anchor that spells out carriage returns means them.
        let either_ending =
            anchor.contains(&b'\n') && !anchor.contains(&b'\r') && file.contains(&b'\r');
        let (text, left_out) = if either_ending {
            without_carriage_returns(file)
        } else {
            (file.into(), Vec::new())
        };
        // An anchor that cannot fit needs no preparation, however long it is.
        let fallback = if anchor.len() <= text.len() {
            prefix_lengths(anchor)
        } else {
            Vec::new()
        };
        Self {
            file,
            text,
            left_out,
            anchor,
            fallback,
        }
    }

    /// The byte ranges of the file the anchor occurs at, overlapping ones included, in file order.
    pub(super) fn matches(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let text = if self.fallback.is_empty() {
            &[]
        } else {
            &*self.text
        };
        positions(text, self.anchor, &self.fallback)
            .map(|start| self.offset_in_file(start)..self.offset_in_file(start + self.anchor.len()))
    }

    /// The matches that can be replaced together: each starts behind the one before.
    pub(super) fn matches_apart(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut free_from = 0;
        self.matches().filter(move |place| {
            let is_apart = place.start >= free_from;
            if is_apart {
                free_from = place.end;
            }
            is_apart
        })
    }

    /// The lines, counted from 1, that the first `limit` matches start on.
    pub(super) fn lines(&self, limit: usize) -> Vec<usize> {
        let (mut line, mut counted) = (1, 0);
        self.matches()
            .take(limit)
            .map(|place| {
                let passed = &self.file[counted..place.start];
                line += passed.iter().filter(|byte| **byte == b'\n').count();
                counted = place.start;
                line
            })
            .collect()
    }

    /// The file with `new` at each of [`Self::matches_apart`]. Line feeds of `new` take the ending
    /// of the lines around the place, unless the caller spelled out carriage returns.
    pub(super) fn replaced_by(&self, new: &str) -> Vec<u8> {
        let verbatim = self.anchor.contains(&b'\r') || new.contains('\r') || !new.contains('\n');
        let with_crlf = if verbatim {
            String::new()
        } else {
            new.replace('\n', "\r\n")
        };
        let mut endings = Endings::new(self.file);
        let mut changed = Vec::with_capacity(self.file.len() + new.len());
        let mut copied = 0;
        for place in self.matches_apart() {
            changed.extend_from_slice(&self.file[copied..place.start]);
            let text = if !verbatim && endings.is_crlf_at(place.start) {
                &with_crlf
            } else {
                new
            };
            changed.extend_from_slice(text.as_bytes());
            copied = place.end;
        }
        changed.extend_from_slice(&self.file[copied..]);
        changed
    }

    /// Where the byte at `offset` of the text starts in the file; a line break starts at its
    /// carriage return. The end of the byte before is the same place.
    fn offset_in_file(&self, offset: usize) -> usize {
        offset + self.left_out.partition_point(|at| *at < offset)
    }
}

/// The line endings of a file, asked for at ascending places.
struct Endings<'a> {
    file: &'a [u8],
    /// The answer, and the place up to which it holds.
    known: Option<(bool, usize)>,
}

impl<'a> Endings<'a> {
    fn new(file: &'a [u8]) -> Self {
        Self { file, known: None }
    }

    /// Whether the line at `place` ends with CRLF; the last line is like the line before it.
    fn is_crlf_at(&mut self, place: usize) -> bool {
        if let Some((is_crlf, until)) = self.known
            && place <= until
        {
            return is_crlf;
        }
        let is_break = |byte: &u8| *byte == b'\n';
        let ahead = self.file[place..].iter().position(is_break);
        let (line_feed, until) = match ahead {
            Some(at) => (Some(place + at), place + at),
            None => (
                self.file[..place].iter().rposition(is_break),
                self.file.len(),
            ),
        };
        let is_crlf = line_feed.is_some_and(|at| at > 0 && self.file[at - 1] == b'\r');
        self.known = Some((is_crlf, until));
        is_crlf
    }
}

fn without_carriage_returns(file: &[u8]) -> (Cow<'_, [u8]>, Vec<usize>) {
    let mut text = Vec::with_capacity(file.len());
    let mut left_out = Vec::new();
    for (index, byte) in file.iter().enumerate() {
        if *byte == b'\r' && file.get(index + 1) == Some(&b'\n') {
            left_out.push(text.len());
        } else {
            text.push(*byte);
        }
    }
    (text.into(), left_out)
}

/// The first offset `anchor`, which is not empty, occurs at.
pub(super) fn first_position(text: &[u8], anchor: &[u8]) -> Option<usize> {
    positions(text, anchor, &prefix_lengths(anchor)).next()
}

/// Every offset `anchor` occurs at, overlapping ones included (Knuth, Morris and Pratt).
fn positions(text: &[u8], anchor: &[u8], fallback: &[usize]) -> impl Iterator<Item = usize> {
    let mut matched = 0;
    text.iter().enumerate().filter_map(move |(index, byte)| {
        while matched > 0 && (matched == anchor.len() || anchor[matched] != *byte) {
            matched = fallback[matched - 1];
        }
        if anchor[matched] == *byte {
            matched += 1;
        }
        (matched == anchor.len()).then(|| index + 1 - matched)
    })
}

/// For each prefix of `anchor`, the length of its longest proper prefix that is also its suffix.
fn prefix_lengths(anchor: &[u8]) -> Vec<usize> {
    let mut lengths = vec![0; anchor.len()];
    let mut length = 0;
    for index in 1..anchor.len() {
        while length > 0 && anchor[length] != anchor[index] {
            length = lengths[length - 1];
        }
        if anchor[length] == anchor[index] {
            length += 1;
        }
        lengths[index] = length;
    }
    lengths
}

#[cfg(test)]
mod tests;
