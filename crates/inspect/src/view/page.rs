//! Builds the page: the viewer and the data of a view in one file.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::View;

const SCRIPT: &str = include_str!("page/viewer.js");
const STYLE: &str = include_str!("page/viewer.css");

/// The compression level: the best ratio is not worth its time.
const LEVEL: u8 = 7;

/// Returns the page of a view: one file that loads nothing else.
///
/// The content security policy allows only the page's own script and style, by their hashes. The data is compressed
/// and encoded in Base64, so no text of a model can end the element that contains it.
pub fn page(view: &View<'_>) -> String {
    let data = serde_json::to_vec(view).unwrap_or_default();
    let data = base64(&miniz_oxide::deflate::compress_to_vec_zlib(&data, LEVEL));
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    let title = escape(view.name());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"jax2onnx {version}\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <noscript>This page needs JavaScript.</noscript>\n\
         <script type=\"application/json\" id=\"jax2onnx-view\" data-encoding=\"zlib+base64\">{data}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        version = env!("CARGO_PKG_VERSION"),
    )
}

/// Returns the hash of an element's text in the syntax of the policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(text.as_bytes())))
}

/// Returns bytes in Base64.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * digit) & 63) as usize];
            text.push(if digit <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// Escapes a text for HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in crate::show::clean(text).chars() {
        match letter {
            '&' | '<' | '>' | '"' | '\'' => {
                let _ = write!(escaped, "&#{};", letter as u32);
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_remainder_have_their_base64() {
        for (bytes, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), expected);
        }
    }

    #[test]
    fn the_viewer_cannot_end_its_own_element() {
        assert!(!SCRIPT.to_lowercase().contains("</script") && !SCRIPT.contains("<!--"));
        assert!(!STYLE.to_lowercase().contains("</style"));
    }

    #[test]
    fn a_title_is_text() {
        assert_eq!(escape("<b>\u{202e}'"), "&#60;b&#62;\u{fffd}&#39;");
    }
}
