//! Asking for a secret on the terminal without showing it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use zeroize::Zeroizing;

/// The longest value that is typed or pasted, in bytes.
const MAX: usize = 16 * 1024;

const INTERRUPT: u8 = 0x03;
const END_OF_INPUT: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const DELETE: u8 = 0x7f;
const ERASE_LINE: u8 = 0x15;

/// What the person types after `question`.
pub(super) fn masked(question: &str) -> Result<Zeroizing<String>, String> {
    // The terminal itself, whatever standard input and output are.
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .map_err(|_| "there is no terminal to ask on; pipe the value in with --stdin".to_owned())?;
    let quiet = Quiet::new(&terminal)
        .map_err(|error| format!("the terminal cannot hide what is typed: {error}"))?;
    let typed = (&terminal)
        .write_all(question.as_bytes())
        .and_then(|()| read(&terminal));
    drop(quiet);
    let _ = (&terminal).write_all(b"\n");
    let typed = typed.map_err(|error| format!("cannot read from the terminal: {error}"))?;
    let bytes = typed.ok_or_else(|| "nothing was stored".to_owned())?;
    String::from_utf8(bytes.to_vec())
        .map(Zeroizing::new)
        .map_err(|_| "what was typed is not text; paste the key alone".to_owned())
}

/// Reads to the end of the line; `None` when the person gave up.
fn read(mut terminal: &File) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let mut typed = Zeroizing::new(Vec::with_capacity(MAX));
    // One at a time, so that nothing behind the line is taken from whoever reads next.
    let mut byte = [0];
    while terminal.read(&mut byte)? == 1 {
        match byte[0] {
            b'\r' | b'\n' => return Ok(Some(typed)),
            INTERRUPT => return Ok(None),
            END_OF_INPUT if typed.is_empty() => return Ok(None),
            END_OF_INPUT => return Ok(Some(typed)),
            BACKSPACE | DELETE => {
                typed.pop();
            }
            ERASE_LINE => typed.clear(),
            _ if typed.len() == MAX => {
                return Err(io::Error::other("that is longer than any key"));
            }
            byte => typed.push(byte),
        }
    }
    Ok(None)
}

/// The terminal shows nothing and hands over each byte, until this is dropped.
struct Quiet<'t> {
    terminal: &'t File,
    before: Termios,
}

impl<'t> Quiet<'t> {
    fn new(terminal: &'t File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut quiet = before.clone();
        // Without signals: an interruption in between would leave the terminal without echo.
        quiet
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, OptionalActions::Flush, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}
