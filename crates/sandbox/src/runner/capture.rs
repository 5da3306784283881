//! Output of any length in bounded memory: its start, its end, and the number of bytes between.

use std::collections::VecDeque;

/// Keeps the first three quarters of its cap and the last quarter.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_cap: usize,
    tail_cap: usize,
    total: u64,
}

impl Capture {
    pub(super) fn new(cap: usize) -> Self {
        let tail_cap = cap / 4;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_cap: cap - tail_cap,
            tail_cap,
            total: 0,
        }
    }

    /// Bytes seen so far.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_cap - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.tail_cap)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_cap);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// The bytes kept, with a marker where some are missing, and how many are.
    pub(super) fn finish(self) -> (Vec<u8>, u64) {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let omitted = self.total - kept;
        let mut bytes = self.head;
        if omitted > 0 {
            bytes.extend_from_slice(format!("\n[… {omitted} bytes omitted …]\n").as_bytes());
        }
        let (front, back) = self.tail.as_slices();
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(back);
        (bytes, omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_left_out_and_counted() {
        for chunk in [1, 3, 7, 100, 1000] {
            let input: Vec<u8> = (0..1000u32)
                .map(|number| b'a' + u8::try_from(number % 26).unwrap())
                .collect();
            let mut capture = Capture::new(40);
            input.chunks(chunk).for_each(|part| capture.push(part));
            assert_eq!(capture.total(), 1000);
            let (bytes, omitted) = capture.finish();
            let expected = [
                &input[..30],
                "\n[… 960 bytes omitted …]\n".as_bytes(),
                &input[990..],
            ]
            .concat();
            assert_eq!((bytes, omitted), (expected, 960), "in chunks of {chunk}");
        }
        let mut short = Capture::new(40);
        short.push(b"exactly forty bytes of output, not more.");
        assert_eq!(
            short.finish(),
            (b"exactly forty bytes of output, not more.".to_vec(), 0)
        );
    }
}
