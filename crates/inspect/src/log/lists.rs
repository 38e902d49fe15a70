//! Reads lists of operators that a runtime does not support.

use super::clean::Squeezed;

/// The maximum number of operators to read.
const MAX: usize = 64;

/// The words before a list, without white space.
const STARTS: &[&str] = &[
    // OpenVINO.
    "Noconversionrulefoundforoperations:",
    "notsupportthefollowingONNXoperations:",
    "Conversionisfailedfor:",
    // MNN.
    "TheseOpNotSupport:",
];

/// An operator of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) op: String,
    pub(super) domain: Option<String>,
    /// The text of the list.
    pub(super) used: String,
}

/// Returns the operators of the lists in a message, each once.
pub(super) fn find(text: &Squeezed<'_>) -> Vec<Listed> {
    let mut found: Vec<Listed> = Vec::new();
    for start in STARTS {
        for (at, _) in text.text.match_indices(start) {
            let from = at + start.len();
            let rest = text.slice(from, text.text.len());
            let used = text.slice(at, from);
            for item in items(rest).take(MAX) {
                let (op, domain) = operator(item);
                if !op.is_empty() && !found.iter().any(|known| known.op == op) {
                    found.push(Listed { op, domain, used: format!("{used} {item}") });
                }
            }
        }
    }
    found
}

/// Returns the items of a list at the start of a text. A comma or a bar is between two items.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let is_of_item = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?.trim_start();
        let end = text.find(|c| !is_of_item(c)).unwrap_or(text.len());
        let (item, after) = text.split_at(end);
        rest = after.trim_start().strip_prefix([',', '|']);
        (!item.is_empty()).then_some(item)
    })
}

/// Handles `Scan-23`, `com.example.Exp`, `ai.onnx.Scan-23` and `ONNX::Scan`.
fn operator(item: &str) -> (String, Option<String>) {
    let item = item.trim_end_matches(['.', ':', '-']);
    let item = item.rsplit_once("::").map_or(item, |(_, op)| op);
    let item = match item.rsplit_once('-') {
        Some((op, opset)) if opset.bytes().all(|c| c.is_ascii_digit()) => op,
        _ => item,
    };
    match item.rsplit_once('.') {
        Some((domain, op)) if domain != "ai.onnx" => (op.to_owned(), Some(domain.to_owned())),
        Some((_, op)) => (op.to_owned(), None),
        None => (item.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, Option<&str>)]) {
        let found = find(&Squeezed::new(text));
        let found: Vec<_> = found.iter().map(|it| (it.op.as_str(), it.domain.as_deref())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn each_operator_of_a_list_is_read() {
        check(
            "These Op Not Support: ONNX::BitwiseOr | ONNX::IsInf \nConverted Failed!\n",
            &[("BitwiseOr", None), ("IsInf", None)],
        );
        check(
            "-- No conversion rule found for operations: Cosine-23, com.example.Exp\n\n",
            &[("Cosine", None), ("Exp", Some("com.example"))],
        );
        check("OpenVINO does not support the following ONNX operations: Mish.", &[("Mish", None)]);
        check("These Op Not Support:", &[]);
    }
}
