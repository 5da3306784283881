//! `file_read` on PDF, docx and xlsx, in this process and in the child process that reads them in
//! the product.

mod make;

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{World, ok, refused};
use make::{docx, enlarged, pdf, xlsx, zip};

const CHILD: &str = env!("CARGO_BIN_EXE_fermix-document-under-test");

/// The answer to reading a file of this name and content, which has to be the same both ways.
async fn read(name: &str, bytes: &[u8], more: Value) -> String {
    let mut answers = Vec::new();
    for program in [None, Some(CHILD.into())] {
        let world = World::reading_documents_with(program);
        fs::write(world.home.workspace().join(name), bytes).expect("the workspace exists");
        let mut arguments = more.clone();
        arguments["path"] = name.into();
        answers.push(ok(world.call("file_read", arguments).await));
    }
    assert_eq!(answers[0], answers[1], "in this process, and in a child");
    answers.pop().expect("there are two")
}

/// Reads in the child only: the documents here are made to do harm.
async fn refuse(name: &str, bytes: &[u8], words: &[&str]) {
    let world = World::reading_documents_with(Some(CHILD.into()));
    fs::write(world.home.workspace().join(name), bytes).expect("the workspace exists");
    let outcome = world.call("file_read", json!({"path": name})).await;
    refused(&outcome, words);
    // The turn goes on.
    fs::write(world.home.workspace().join("next"), "still here").expect("the workspace exists");
    assert!(ok(world.call("file_read", json!({"path": "next"})).await).starts_with("still here"));
}

#[tokio::test]
async fn pages() {
    let one = pdf(&["Hello PDF"]);
    assert_eq!(
        read("any-name", &one, json!({})).await,
        "Hello PDF\n[note: text of a PDF with 1 page]"
    );
    let three = pdf(&["First page", "", "Third page"]);
    assert_eq!(
        read("report.pdf", &three, json!({})).await,
        "--- page 1 ---\nFirst page\n--- page 2 ---\n--- page 3 ---\nThird page\n\
         [note: text of a PDF with 3 pages]"
    );
    // The window is one of the text's lines.
    assert_eq!(
        read("report.pdf", &three, json!({"offset": 4, "limit": 1})).await,
        "--- page 3 ---\n[note: text of a PDF with 3 pages]\n[note: lines 4-4 of 5]"
    );
    let empty = read("scan.pdf", &pdf(&[""]), json!({})).await;
    assert!(empty.contains("it may hold pictures only"), "{empty}");
}

#[tokio::test]
async fn word() {
    let body = r#"
        <w:p><w:pPr><w:pStyle w:val="berschrift1"/></w:pPr><w:r><w:t>Plan</w:t></w:r></w:p>
        <w:p><w:pPr><w:tabs><w:tab w:val="left" w:pos="720"/></w:tabs></w:pPr>
          <w:r><w:t xml:space="preserve">One &amp; </w:t></w:r><w:r><w:t>two &#252;</w:t><w:tab/><w:t>three</w:t></w:r>
          <w:del><w:r><w:delText>gone</w:delText><w:t>gone</w:t></w:r></w:del>
          <w:r><w:instrText>PAGE</w:instrText><w:footnoteReference w:id="2"/></w:r></w:p>
        <w:p><w:pPr><w:numPr><w:ilvl w:val="0"/></w:numPr></w:pPr><w:r><w:t>item</w:t></w:r></w:p>
        <w:p/>
        <w:tbl>
          <w:tr><w:tc><w:p><w:r><w:t>A1</w:t></w:r></w:p><w:p><w:r><w:t>more</w:t></w:r></w:p></w:tc>
                <w:tc><w:p><w:r><w:t>B1</w:t></w:r></w:p></w:tc></w:tr>
          <w:tr><w:tc><w:p/></w:tc><w:tc><w:p><w:r><w:t>B2</w:t></w:r></w:p>
            <w:tbl><w:tr><w:tc><w:p><w:r><w:t>inner</w:t></w:r></w:p></w:tc></w:tr></w:tbl></w:tc></w:tr>
        </w:tbl>
        <w:p><mc:AlternateContent><mc:Choice><w:r><w:t>once</w:t></w:r></mc:Choice>
          <mc:Fallback><w:r><w:t>twice</w:t></w:r></mc:Fallback></mc:AlternateContent></w:p>"#;
    let text = read("plan.docx", &docx(body), json!({})).await;
    let expected = "# Plan\nOne & two ü\tthree[^2]\n- item\n\nA1 more\tB1\n\tB2 inner\nonce\n\
        --- footnotes ---\nSee there\n\
        [note: text of a Word document with 9 paragraphs]";
    assert_eq!(text, expected);
    let window = read("plan.docx", &docx(body), json!({"offset": 5, "limit": 1})).await;
    assert!(window.starts_with("A1 more\tB1\n"), "{window}");
}

#[tokio::test]
async fn workbook() {
    let rows = r#"
        <row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>two
lines</t></is></c></row>
        <row r="2"><c r="A2"><v>1.5</v></c><c r="C2" t="b"><v>1</v></c><c r="D2" s="1"><v>45292</v></c></row>
        <row r="4"><c r="A4"><v>42</v></c><c r="B4" t="e"><v>#DIV/0!</v></c></row>
        <row r="1000"><c r="B1000" t="str"><f>A1</f><v>end</v></c></row>"#;
    let text = read("numbers.xlsx", &xlsx(rows), json!({})).await;
    let expected = "--- sheet Données ---\nshared\ttwo lines\n1.5\t\tTRUE\t2024-01-01\n\n42\t#DIV/0!\n\
        [rows 5-999 are empty]\n\tend\n\
        [note: text of a workbook with 1 sheet]";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn hostile_documents_are_refused_and_end() {
    let bomb = vec![b' '; 3 * 1024 * 1024];
    refuse(
        "bomb.docx",
        &zip(&[("word/document.xml", &bomb)]),
        &["far more than it holds"],
    )
    .await;
    refuse(
        "bomb.xlsx",
        &zip(&[("xl/worksheets/sheet1.xml", &bomb)]),
        &["far more than it holds"],
    )
    .await;
    let names: Vec<String> = (0..10_001).map(|n| format!("part{n}")).collect();
    let parts: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    refuse("parts.docx", &zip(&parts), &["10001 parts"]).await;
    refuse(
        "empty.docx",
        &zip(&[("other.xml", b"<a/>")]),
        &["no text part"],
    )
    .await;
    refuse(
        "empty.xlsx",
        &zip(&[("other.xml", b"<a/>")]),
        &["workbook could not be read"],
    )
    .await;
    refuse("cut.docx", &docx("<w:p/>")[..200], &["damaged"]).await;
    refuse("cut.pdf", &pdf(&["text"])[..60], &["PDF could not be read"]).await;
    refuse(
        "noise.pdf",
        b"%PDF-1.7\n\xff\xfe\0 no document at all",
        &["PDF could not be read"],
    )
    .await;
    // Entities that would multiply are not expanded at all.
    let laughs = r#"<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><d><p><t>&b;</t></p></d>"#;
    let world = World::reading_documents_with(Some(CHILD.into()));
    let laughing = zip(&[("word/document.xml", laughs.as_bytes())]);
    fs::write(world.home.workspace().join("l.docx"), laughing).unwrap();
    let text = ok(world.call("file_read", json!({"path": "l.docx"})).await);
    assert!(text.starts_with("\u{FFFD}\n"), "{text}");
}

/// A stream of 768 MiB in less than one: more than the child may have. The limit on its memory ends
/// it, and nothing else notices.
#[tokio::test]
async fn a_document_that_wants_all_memory_ends_one_child() {
    refuse(
        "bomb.pdf",
        &make::pdf_of_spaces(768),
        &["the PDF could not be read"],
    )
    .await;
}

/// A page tree that contains itself makes the library recurse until its stack is gone. The child
/// is; the turn is not.
#[tokio::test]
async fn a_crash_of_the_library_ends_one_child() {
    let cyclic = String::from_utf8(pdf(&["text"])).expect("it is text");
    let cyclic = cyclic
        .replace("/MediaBox [0 0 612 792]", "/Ignored  [0 0 612 792]")
        .replace("/Count 1 >>", "/Count 1 /Parent 2 0 R >>");
    let world = World::reading_documents_with(Some(CHILD.into()));
    fs::write(world.home.workspace().join("c.pdf"), cyclic).unwrap();
    let outcome = world.call("file_read", json!({"path": "c.pdf"})).await;
    refused(&outcome, &["could not be read", "damaged"]);
}

#[tokio::test]
async fn documents_are_read_up_to_the_limit_and_refused_unread_above() {
    let largest = enlarged(
        &docx("<w:p><w:r><w:t>All of it</w:t></w:r></w:p>"),
        20 << 20,
    );
    assert_eq!(largest.len(), 20 * 1024 * 1024);
    let text = read("largest.docx", &largest, json!({})).await;
    assert!(text.starts_with("All of it\n"), "{text}");
    let world = World::reading_documents_with(Some(CHILD.into()));
    let path = world.home.workspace().join("large.pdf");
    fs::write(&path, b"%PDF-1.7\n").unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(21 * 1024 * 1024)
        .unwrap();
    let outcome = world.call("file_read", json!({"path": "large.pdf"})).await;
    refused(&outcome, &["22020096 bytes", "is read up to"]);
}

/// A reader that cannot be started, or answers with nothing, is a failed call.
#[tokio::test]
async fn a_reader_that_does_not_work_says_so() {
    for (program, words) in [
        ("/no/such/program", "executable not found"),
        ("/bin/true", "ended without an answer"),
    ] {
        let world = World::reading_documents_with(Some(program.into()));
        fs::write(world.home.workspace().join("a.pdf"), pdf(&["text"])).unwrap();
        let outcome = world.call("file_read", json!({"path": "a.pdf"})).await;
        refused(&outcome, &["the PDF could not be read", words]);
    }
}

/// What only looks like a document is what it is.
#[tokio::test]
async fn names_do_not_make_documents() {
    assert_eq!(
        read("notes.docx", b"plain words", json!({})).await,
        "plain words"
    );
    let archive = zip(&[("a", b"a")]);
    assert_eq!(
        read("archive.zip", &archive, json!({})).await,
        format!("binary file, {} bytes, type zip archive", archive.len())
    );
}
