//! Images that a client shows: bytes in the request, or a file of the owner's.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fermix_agent::{MAX_IMAGE_BYTES, MAX_IMAGES};
use fermix_api::ImagePart;
use fermix_types::Image;
use rustix::fs::OFlags;

/// Decodes and reads all of them. Blocks for as long as the disk. `may_name_files`: a process that
/// tools started sees the disk as they do, and must not have this one read for it.
pub(crate) fn read_all(parts: &[ImagePart], may_name_files: bool) -> Result<Vec<Image>, String> {
    if parts.len() > MAX_IMAGES {
        return Err(format!("at most {MAX_IMAGES} images are taken"));
    }
    let mut left = MAX_IMAGE_BYTES;
    parts
        .iter()
        .map(|part| {
            let data = match (&part.data_base64, &part.path) {
                (Some(text), None) => STANDARD
                    .decode(text)
                    .map_err(|error| format!("an image is not base64: {error}"))?,
                (None, Some(_)) if !may_name_files => {
                    return Err("images by path are the owner's to show in person; \
                                send the bytes as `data_base64`"
                        .to_owned());
                }
                (None, Some(path)) => read(path, left)
                    .map_err(|reason| format!("cannot read `{}`: {reason}", path.display()))?,
                (Some(_), Some(_)) | (None, None) => {
                    return Err("an image has either `data_base64` or `path`".to_owned());
                }
            };
            left = left.checked_sub(data.len()).ok_or_else(too_large)?;
            let Some(found) = media_type(&data) else {
                return Err("an image is no png, jpg, gif or webp".to_owned());
            };
            if part.mime_type != found {
                return Err(format!(
                    "an image is said to be `{}` and is `{found}`",
                    part.mime_type
                ));
            }
            Ok(Image {
                mime_type: found.to_owned(),
                data: data.into(),
            })
        })
        .collect()
}

fn too_large() -> String {
    format!("the images have more than {} MiB", MAX_IMAGE_BYTES >> 20)
}

fn read(path: &Path, most: usize) -> Result<Vec<u8>, String> {
    if !path.is_absolute() {
        return Err("the path has to be absolute".to_owned());
    }
    let file = OpenOptions::new()
        .read(true)
        // A named pipe would have its reader wait for a writer.
        .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed())
        .open(path)
        .map_err(|error| error.to_string())?;
    if !file
        .metadata()
        .map_err(|error| error.to_string())?
        .is_file()
    {
        return Err("it is not a regular file".to_owned());
    }
    let mut data = Vec::new();
    file.take(most as u64 + 1)
        .read_to_end(&mut data)
        .map_err(|error| error.to_string())?;
    if data.len() > most {
        return Err(too_large());
    }
    Ok(data)
}

/// The media type by the first bytes, of the images that models take; a file's name says nothing
/// reliable.
pub fn media_type(data: &[u8]) -> Option<&'static str> {
    match data {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, rest @ ..] if rest.starts_with(b"WEBP") => {
            Some("image/webp")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....";

    fn part(mime_type: &str, data: Option<&[u8]>, path: Option<&Path>) -> ImagePart {
        ImagePart {
            mime_type: mime_type.to_owned(),
            data_base64: data.map(|data| STANDARD.encode(data)),
            path: path.map(Path::to_owned),
        }
    }

    #[test]
    fn bytes_and_files_are_read_and_everything_else_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.png");
        std::fs::write(&file, PNG).unwrap();
        let large = folder.path().join("large.png");
        std::fs::File::create(&large)
            .and_then(|file| file.set_len(MAX_IMAGE_BYTES as u64 + 1))
            .unwrap();
        let read = |part: ImagePart, in_person| {
            read_all(&[part], in_person).map(|images| images[0].data.to_vec())
        };
        assert_eq!(
            read(part("image/png", Some(PNG), None), false).unwrap(),
            PNG
        );
        assert_eq!(
            read(part("image/png", None, Some(&file)), true).unwrap(),
            PNG
        );
        let refused = [
            (part("image/png", None, Some(&file)), false, "in person"),
            (part("image/gif", Some(PNG), None), true, "is `image/png`"),
            (part("image/png", Some(b"text"), None), true, "no png"),
            (part("image/png", None, None), true, "either"),
            (part("image/png", Some(PNG), Some(&file)), true, "either"),
            (part("image/png", None, Some(&large)), true, "20 MiB"),
            (
                part("image/png", None, Some(folder.path())),
                true,
                "regular file",
            ),
            (
                part("image/png", None, Some(Path::new("a.png"))),
                true,
                "absolute",
            ),
        ];
        for (part, in_person, expected) in refused {
            let error = read(part, in_person).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let many = vec![part("image/png", Some(PNG), None); MAX_IMAGES + 1];
        assert!(read_all(&many, true).is_err());
    }
}
