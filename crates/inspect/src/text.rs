//! Formats numbers for people.

/// `2.5 KiB`
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut size = count as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// `1 node`, `2 nodes`
pub fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// `97.5 %`; 100 only if `part` is all of `whole`.
pub fn share(part: usize, whole: usize) -> String {
    if part == whole {
        return "100 %".to_owned();
    }
    let percent = (part as f64 / whole as f64 * 1000.0).floor() / 10.0;
    format!("{percent:.1} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        let sizes = [0, 1023, 1024, 1_048_575, 1 << 20, 10 << 30, u64::MAX].map(bytes);
        let expected =
            ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.0 MiB", "10.0 GiB", "16384.0 PiB"];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn a_share_is_not_all_unless_it_is() {
        assert_eq!(share(99_999, 100_000), "99.9 %");
        assert_eq!(share(3, 3), "100 %");
        assert_eq!(share(0, 3), "0.0 %");
        assert_eq!(share(0, 0), "100 %");
    }
}
