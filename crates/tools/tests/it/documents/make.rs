//! Small documents, made from their formats' rules.

use std::io::{Cursor, Write as _};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A zip archive of these parts.
pub(super) fn zip(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        archive
            .start_file(*name, SimpleFileOptions::default())
            .expect("archives in memory take parts");
        archive.write_all(content).expect("memory takes bytes");
    }
    archive.finish().expect("it can be finished").into_inner()
}

/// The archive with one more part, of noise, so that it has exactly `size` bytes.
pub(super) fn enlarged(archive: &[u8], size: usize) -> Vec<u8> {
    let with = |noise: usize| {
        let mut archive =
            ZipWriter::new_append(Cursor::new(archive.to_vec())).expect("it is an archive");
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        archive
            .start_file("media/noise", options)
            .expect("archives in memory take parts");
        archive
            .write_all(&vec![0xA5; noise])
            .expect("memory takes bytes");
        archive.finish().expect("it can be finished").into_inner()
    };
    with(size - with(0).len())
}

/// A PDF with one line of text on each page.
pub(super) fn pdf(pages: &[&str]) -> Vec<u8> {
    let streams: Vec<(String, Vec<u8>)> = pages
        .iter()
        .map(|text| {
            let stream = format!("BT /F1 12 Tf 72 720 Td ({text}) Tj ET");
            (String::new(), stream.into_bytes())
        })
        .collect();
    pdf_of(&streams)
}

/// A PDF of one page whose packed content is this many MiB of spaces.
pub(super) fn pdf_of_spaces(mebibytes: usize) -> Vec<u8> {
    let mut packer = flate2::Compress::new(flate2::Compression::best(), false);
    let mut block = Vec::with_capacity(64 * 1024);
    let spaces = vec![b' '; 1024 * 1024];
    // After a full flush a block stands for itself, so that it can be repeated.
    let flush = flate2::FlushCompress::Full;
    packer
        .compress_vec(&spaces, &mut block, flush)
        .expect("there is room");
    let mut stream = vec![0x78, 0x9c];
    stream.extend(block.repeat(mebibytes));
    pdf_of(&[("/Filter /FlateDecode".to_owned(), stream)])
}

/// A PDF of pages, each with the entries and the bytes of its content stream.
fn pdf_of(streams: &[(String, Vec<u8>)]) -> Vec<u8> {
    let kids: Vec<String> = (0..streams.len())
        .map(|n| format!("{} 0 R", 4 + 2 * n))
        .collect();
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!(
            "<< /Type /Pages /Kids [{}] /Count {} >>",
            kids.join(" "),
            streams.len()
        )
        .into_bytes(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_vec(),
    ];
    for (n, (entries, stream)) in streams.iter().enumerate() {
        let page = format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] \
             /Resources << /Font << /F1 3 0 R >> >> /Contents {} 0 R >>",
            5 + 2 * n
        );
        objects.push(page.into_bytes());
        let mut object = format!("<< /Length {} {entries} >>\nstream\n", stream.len()).into_bytes();
        object.extend(stream);
        object.extend(b"\nendstream");
        objects.push(object);
    }
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (n, object) in objects.iter().enumerate() {
        places.push(format!("{:010} 00000 n \n", file.len()));
        file.extend(format!("{} 0 obj\n", n + 1).bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let size = places.len() + 1;
    let table = format!(
        "xref\n0 {size}\n0000000000 65535 f \n{}trailer\n<< /Size {size} /Root 1 0 R >>\n\
         startxref\n{}\n%%EOF\n",
        places.concat(),
        file.len()
    );
    file.extend(table.bytes());
    file
}

const RELATIONSHIPS: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const WORD: &str = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";

/// A Word document with this body, a footnote, and a heading style with a German id.
pub(super) fn docx(body: &str) -> Vec<u8> {
    let package = format!(
        r#"<Relationships><Relationship Id="r1" Type="{RELATIONSHIPS}/officeDocument" Target="/word/main.xml"/></Relationships>"#
    );
    let main = format!(
        r#"<?xml version="1.0" encoding="UTF-8"?><w:document xmlns:w="{WORD}" xmlns:mc="m"><w:body>{body}</w:body></w:document>"#
    );
    let styles = format!(
        r#"<w:styles xmlns:w="{WORD}"><w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style></w:styles>"#
    );
    let footnotes = format!(
        r#"<w:footnotes xmlns:w="{WORD}"><w:footnote w:id="0"><w:p/></w:footnote><w:footnote w:id="2"><w:p><w:r><w:t>See there</w:t></w:r></w:p></w:footnote></w:footnotes>"#
    );
    zip(&[
        ("_rels/.rels", package.as_bytes()),
        ("word/main.xml", main.as_bytes()),
        ("word/styles.xml", styles.as_bytes()),
        ("word/footnotes.xml", footnotes.as_bytes()),
    ])
}

/// A workbook of one sheet with these rows, one shared string, and a date format as style 1.
pub(super) fn xlsx(rows: &str) -> Vec<u8> {
    let main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    let package = format!(
        r#"<Relationships><Relationship Id="r1" Type="{RELATIONSHIPS}/officeDocument" Target="xl/workbook.xml"/></Relationships>"#
    );
    let workbook = format!(
        r#"<workbook xmlns="{main}" xmlns:r="{RELATIONSHIPS}"><sheets><sheet name="Données" sheetId="1" r:id="r1"/></sheets></workbook>"#
    );
    let relations = format!(
        r#"<Relationships><Relationship Id="r1" Type="{RELATIONSHIPS}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#
    );
    let strings = format!(r#"<sst xmlns="{main}"><si><t>shared</t></si></sst>"#);
    let styles = format!(
        r#"<styleSheet xmlns="{main}"><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>"#
    );
    let sheet = format!(r#"<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>"#);
    zip(&[
        ("_rels/.rels", package.as_bytes()),
        ("xl/workbook.xml", workbook.as_bytes()),
        ("xl/_rels/workbook.xml.rels", relations.as_bytes()),
        ("xl/sharedStrings.xml", strings.as_bytes()),
        ("xl/styles.xml", styles.as_bytes()),
        ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
    ])
}
