//! What a file is, judged by its first bytes.

use std::path::Path;

use crate::file::document::DocumentKind;

/// How many bytes are looked at (spec/02 §4.2).
pub(super) const SNIFFED: usize = 4096;

/// How a file is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// As lines.
    Text,
    /// As the text a library finds in it.
    Document(DocumentKind),
    /// As its size and the name of its type.
    Binary(&'static str),
}

/// Where a type has its mark, the mark, and the type's name.
const MARKS: &[(usize, &[u8], &str)] = &[
    (0, b"\x89PNG\r\n\x1a\n", "PNG image"),
    (0, b"\xff\xd8\xff", "JPEG image"),
    (0, b"GIF8", "GIF image"),
    (8, b"WEBP", "WebP image"),
    (8, b"WAVE", "WAV audio"),
    (8, b"AVI ", "AVI video"),
    (0, b"BM", "BMP image"),
    (0, b"II*\0", "TIFF image"),
    (0, b"MM\0*", "TIFF image"),
    (0, b"\0\0\x01\0", "icon"),
    (4, b"ftypheic", "HEIC image"),
    (4, b"ftypavif", "AVIF image"),
    (4, b"ftyp", "MP4 media"),
    (0, b"\x1aE\xdf\xa3", "Matroska media"),
    (0, b"OggS", "Ogg media"),
    (0, b"fLaC", "FLAC audio"),
    (0, b"ID3", "MP3 audio"),
    (0, b"\xff\xfb", "MP3 audio"),
    (0, b"%PDF-", "PDF"),
    (0, b"PK\x03\x04", "zip archive"),
    (0, b"PK\x05\x06", "zip archive"),
    (0, b"\x1f\x8b", "gzip archive"),
    (0, b"BZh", "bzip2 archive"),
    (0, b"\xfd7zXZ\0", "xz archive"),
    (0, b"\x28\xb5\x2f\xfd", "zstd archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (0, b"Rar!", "rar archive"),
    (257, b"ustar", "tar archive"),
    (0, b"\x7fELF", "ELF executable"),
    (0, b"\xcf\xfa\xed\xfe", "Mach-O executable"),
    (0, b"\xca\xfe\xba\xbe", "Java class or universal executable"),
    (0, b"MZ", "Windows executable"),
    (0, b"\0asm", "WebAssembly module"),
    (0, b"SQLite format 3\0", "SQLite database"),
    (
        0,
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "old Office document",
    ),
    (0, b"wOF2", "font"),
    (0, b"wOFF", "font"),
    (0, b"\0\x01\0\0", "font"),
    (0, b"OTTO", "font"),
];

impl Kind {
    pub(super) fn of(head: &[u8], path: &Path) -> Self {
        if head.starts_with(b"%PDF-") {
            return Self::Document(DocumentKind::Pdf);
        }
        if head.starts_with(b"PK\x03\x04")
            && let Some(kind) = DocumentKind::by_ending(path)
        {
            return Self::Document(kind);
        }
        // Four bytes that start like UTF-16 and are UTF-32, which nothing here reads.
        let is_utf32 = head.starts_with(b"\xff\xfe\0\0");
        let is_utf16 = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
        if !head.contains(&0) || (is_utf16 && !is_utf32) {
            return Self::Text;
        }
        if is_utf32 {
            return Self::Binary("UTF-32 text");
        }
        let name = MARKS
            .iter()
            .find(|(at, mark, _)| head.get(*at..).is_some_and(|rest| rest.starts_with(mark)))
            .map(|(_, _, name)| *name);
        Self::Binary(name.unwrap_or("unknown"))
    }
}
