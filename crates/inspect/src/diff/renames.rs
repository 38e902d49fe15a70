//! Finds files that were renamed.

use std::collections::{BTreeMap, BTreeSet};

use super::Side;

/// Returns the new name of each file of the first model that was renamed. A file that is only in the second model
/// is a renamed one if at least half of the functions of both files have the same names.
pub(super) fn renames<'d>(a: &Side<'d, '_>, b: &Side<'d, '_>) -> BTreeMap<&'d str, &'d str> {
    let (old, new) = (functions(a), functions(b));
    let mut pairs = Vec::new();
    for (&file, of_file) in old.iter().filter(|(file, _)| !new.contains_key(*file)) {
        for (&other, of_other) in new.iter().filter(|(file, _)| !old.contains_key(*file)) {
            let common = of_file.intersection(of_other).count();
            let all = of_file.len().max(of_other.len());
            if common > 0 && 2 * common >= all {
                pairs.push((common, file, other));
            }
        }
    }
    // Pairs with more common functions come first.
    pairs.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)).then(a.2.cmp(b.2)));
    let mut renamed: BTreeMap<&str, &str> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (_, file, other) in pairs {
        if !renamed.contains_key(file) && taken.insert(other) {
            renamed.insert(file, other);
        }
    }
    renamed
}

/// Returns the functions of each file.
fn functions<'d>(side: &Side<'d, '_>) -> BTreeMap<&'d str, BTreeSet<&'d str>> {
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for &(file, function) in side.lines.keys() {
        files.entry(file).or_default().insert(function);
    }
    files
}
