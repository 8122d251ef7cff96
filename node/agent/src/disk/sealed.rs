//! Small text files that say whether they are whole: their last line is a checksum of what stands above it.
//!
//! A bit that flips in a pid, an ident or a UUID gives another one that looks just as right.

use std::path::Path;

use super::{DiskError, read_optional};

/// What the last line begins with; a comment in TOML.
const SEAL: &str = "# blake3 ";

/// How many hexadecimal digits of the hash are kept.
const DIGITS: usize = 32;

fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..DIGITS].to_owned()
}

/// The text with its seal.
#[must_use]
pub fn seal_text(text: &str) -> String {
    let text = if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
    let digest = digest(&text);
    format!("{text}{SEAL}{digest}\n")
}

/// The text above the seal; none: it was cut off, changed, or never sealed.
#[must_use]
pub fn open_sealed_text(bytes: &[u8]) -> Option<&str> {
    let whole = std::str::from_utf8(bytes).ok()?;
    let (text, seal) = whole.strip_suffix('\n')?.rsplit_once(SEAL)?;
    (seal == digest(text)).then_some(text)
}

/// Reads a sealed file: none where it is missing or damaged, which is logged.
///
/// # Errors
/// [`DiskError`] where it can't be read at all.
pub fn read_sealed_text(path: &Path) -> Result<Option<String>, DiskError> {
    let Some(bytes) = read_optional(path)? else { return Ok(None) };
    let text = open_sealed_text(&bytes).map(str::to_owned);
    if text.is_none() {
        tracing::warn!(path = %path.display(), "cut off or damaged: not believed");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_cut_nor_a_flipped_bit_is_believed() {
        let sealed = seal_text("pid = 42\nrelease = \"acme/app/1.0/20260101000000\"\n").into_bytes();
        assert!(open_sealed_text(&sealed).is_some_and(|text| text.ends_with("000\"\n")));
        for cut in 0..sealed.len() {
            assert_eq!(open_sealed_text(&sealed[..cut]), None, "cut to {cut}");
        }
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open_sealed_text(&flipped), None, "bit {bit}");
        }
        assert_eq!(open_sealed_text(b"pid = 42\n"), None);
    }
}
