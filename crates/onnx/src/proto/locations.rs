//! Finds the weight files that a model names, without reading the weights.

use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom};

use super::schema::Field;
use super::wire::{Fields, FileSource, Source, Walk};

/// Returns the locations of external data in a model, each once. A tensor that names a file counts even if it does
/// not say that its contents are external.
pub fn locations(mut model: impl Read + Seek) -> io::Result<Vec<String>> {
    let size = model.seek(SeekFrom::End(0))?;
    let mut source = FileSource::new(model);
    let mut walk = Walk::new(Fields::of_model(size));
    let mut locations = BTreeSet::new();
    while let Some(found) = walk.next(&mut source)? {
        if found.id.has_tensors() {
            continue;
        }
        walk.pass();
        let entry = found.fields()?.filter(|_| found.id == Field::TensorExternalData);
        let Some(mut entry) = entry else { continue };
        let (mut is_location, mut value) = (false, None);
        while let Some(part) = entry.next(&mut source)? {
            match part.id {
                Field::StringStringEntryKey => {
                    is_location = source.file_name(&part)? == "location";
                }
                Field::StringStringEntryValue => value = Some(part),
                _ => {}
            }
        }
        if is_location {
            let location = value.map(|value| source.file_name(&value).map(str::to_owned));
            locations.insert(location.transpose()?.unwrap_or_default());
        }
    }
    Ok(locations.into_iter().collect())
}
