//! Writes compact JSON piece by piece.

use std::fmt::Write;

/// A document that is being written. It inserts commas between neighbors.
#[derive(Debug, Default)]
pub struct Json {
    text: String,
}

impl Json {
    pub fn finish(self) -> String {
        self.text
    }

    /// Writes a list; `fill` writes its contents.
    pub fn list(&mut self, fill: impl FnOnce(&mut Json)) {
        self.nested('[', ']', fill);
    }

    /// Writes an object; `fill` writes its contents, each after a [`Json::key`].
    pub fn object(&mut self, fill: impl FnOnce(&mut Json)) {
        self.nested('{', '}', fill);
    }

    /// Writes a list with one entry for each item.
    pub fn each<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut entry: impl FnMut(&mut Json, T),
    ) {
        self.list(|json| items.into_iter().for_each(|item| entry(json, item)));
    }

    pub fn key(&mut self, key: &str) -> &mut Json {
        self.text(key);
        self.text.push(':');
        self
    }

    pub fn number(&mut self, number: impl Into<u64>) {
        self.comma();
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{}", number.into());
    }

    pub fn numbers(&mut self, numbers: impl IntoIterator<Item = u32>) {
        numbers.into_iter().for_each(|number| self.number(number));
    }

    pub fn number_or_null(&mut self, number: Option<u32>) {
        match number {
            Some(number) => self.number(number),
            None => self.null(),
        }
    }

    pub fn null(&mut self) {
        self.comma();
        self.text.push_str("null");
    }

    pub fn text(&mut self, text: &str) {
        self.comma();
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\0'..='\x1f' => {
                    let _ = write!(self.text, "\\u{:04x}", c as u32);
                }
                _ => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    pub fn text_or_null(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.null(),
        }
    }

    /// Writes text that is JSON already.
    pub fn raw(&mut self, json: &str) {
        self.comma();
        self.text.push_str(json);
    }

    fn nested(&mut self, open: char, close: char, fill: impl FnOnce(&mut Json)) {
        self.comma();
        self.text.push(open);
        fill(self);
        self.text.push(close);
    }

    fn comma(&mut self) {
        if !matches!(self.text.as_bytes().last(), None | Some(b'[' | b'{' | b':' | b',')) {
            self.text.push(',');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::testing::seeded;

    #[test]
    fn commas_stand_between_neighbours_alone() {
        let mut json = Json::default();
        json.object(|json| {
            json.key("a").each([1_u32, 2], |json, n| json.list(|json| json.number(n)));
            json.key("b").null();
            json.key("c").text("[");
            json.key("d").list(|json| json.text_or_null(Some(":")));
        });
        assert_eq!(json.finish(), r#"{"a":[[1],[2]],"b":null,"c":"[","d":[":"]}"#);
    }

    proptest! {
        #![proptest_config(seeded())]

        #[test]
        fn any_text_comes_back(first in any::<String>(), second in any::<String>()) {
            let mut json = Json::default();
            json.list(|json| {
                json.text(&first);
                json.text(&second);
            });
            let read: Value = serde_json::from_str(&json.finish()).unwrap();
            prop_assert_eq!(read, serde_json::json!([first, second]));
        }
    }
}
