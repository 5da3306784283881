//! Images from the disk. The owner names them on the command line, so any file the owner can read
//! is theirs to show.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fermix_api::ImagePart;
use fermix_daemon::images::media_type;
use fermix_types::Image;

/// The largest image, in bytes.
const MAX_IMAGE: u64 = 20 << 20;

/// What rides along in the request, in bytes of all images together; more than that is read by the
/// daemon from the files, since a frame has no room for it.
const MAX_INLINE: usize = 1 << 20;

/// An image with the file it is from.
pub struct Attachment {
    /// The image.
    pub image: Image,
    path: PathBuf,
}

/// The images as the daemon takes them.
pub fn parts(attachments: &[Attachment]) -> Result<Vec<ImagePart>, String> {
    let total: usize = attachments.iter().map(|one| one.image.data.len()).sum();
    attachments
        .iter()
        .map(|attachment| {
            let mut part = ImagePart {
                mime_type: attachment.image.mime_type.clone(),
                data_base64: None,
                path: None,
            };
            if total <= MAX_INLINE {
                part.data_base64 = Some(STANDARD.encode(&attachment.image.data));
                return Ok(part);
            }
            // Paths are text in a request.
            let path = std::path::absolute(&attachment.path)
                .ok()
                .filter(|path| path.to_str().is_some())
                .ok_or_else(|| {
                    format!(
                        "cannot name `{}` to the daemon; rename the file",
                        attachment.path.display()
                    )
                })?;
            part.path = Some(path);
            Ok(part)
        })
        .collect()
}

/// Reads every image, or says which one cannot be attached and why.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Attachment>, String> {
    paths
        .iter()
        .map(|path| {
            let image = read(path)
                .map_err(|reason| format!("cannot attach `{}`: {reason}", path.display()))?;
            let path = path.clone();
            Ok(Attachment { image, path })
        })
        .collect()
}

fn read(path: &Path) -> Result<Image, String> {
    let explain = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => error.to_string(),
    };
    // Opening a pipe would wait for somebody to write into it.
    if !path.metadata().map_err(explain)?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let file = File::open(path).map_err(explain)?;
    let mut data = Vec::new();
    file.take(MAX_IMAGE + 1)
        .read_to_end(&mut data)
        .map_err(|error| error.to_string())?;
    if data.len() as u64 > MAX_IMAGE {
        return Err(format!("it is larger than {} MiB", MAX_IMAGE >> 20));
    }
    let mime_type = media_type(&data).ok_or("it is not a png, jpg, gif or webp image")?;
    Ok(Image {
        mime_type: mime_type.to_owned(),
        data: data.into(),
    })
}
