//! Reads the events of a profile one at a time.

use std::fmt;
use std::io::{BufReader, Read};
use std::sync::Arc;

use rustc_hash::FxHashSet;
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The maximum numbers of bytes and of events to read. The runtime itself stops at a million events.
const MAX_BYTES: u64 = 1 << 30;
const MAX_EVENTS: usize = 2 << 20;
/// The maximum length of a name, and of all names together.
const MAX_NAME: usize = 4096;
const MAX_NAMES: usize = 1 << 28;

/// The reason why a profile cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    #[error("this is not an ONNX Runtime profile: {0}")]
    NotAProfile(String),
    #[error(
        "the profile is incomplete, because it ends after {events} events: call \
         `session.end_profiling()` to complete it"
    )]
    Cut { events: usize },
    #[error("the profile is corrupt after {events} events: {why}")]
    Corrupt { events: usize, why: String },
    #[error(
        "the profile has more than {MAX_EVENTS} events, or very long names: profile fewer runs"
    )]
    TooLong,
    #[error(
        "the profile has {runs} runs, but most nodes are in only a few of them: profile one model at a \
         time, or fewer runs"
    )]
    TooManyRuns { runs: usize },
    #[error("the profile contains no times of nodes: was profiling enabled while the model ran?")]
    Empty,
    #[error("cannot read the profile: {0}")]
    Io(std::io::Error),
}

/// A relevant event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: EventKind,
    pub(super) thread: u64,
    pub(super) start: u64,
    pub(super) length: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    /// One run of the whole model.
    Run,
    Kernel {
        node: Arc<str>,
        op: Arc<str>,
        provider: Arc<str>,
        /// Its number in its graph. Nodes of two graphs may have the same name.
        index: Option<Arc<str>>,
        shapes: Shapes,
        /// The size of its results in bytes.
        bytes: Option<u64>,
    },
}

/// The shapes of the first operand and of the first result of a kernel: `{"float":[2,3]}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shapes {
    pub read: Option<Arc<str>>,
    pub made: Option<Arc<str>>,
}

impl Shapes {
    /// True if this kernel can read the result of `maker`.
    pub(super) fn can_read(&self, maker: &Shapes) -> bool {
        self.read.is_some() && self.read == maker.made
    }
}

/// Reads the relevant events, in the order of the file.
pub(super) fn events(file: impl Read) -> Result<Vec<Event>, ProfileError> {
    let mut events = Events::default();
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(file.take(MAX_BYTES)));
    let read = json.deserialize_any(&mut events).and_then(|()| json.end());
    if events.is_too_long {
        return Err(ProfileError::TooLong);
    }
    if let Err(error) = read {
        let count = events.count;
        return Err(match error.classify() {
            serde_json::error::Category::Io => ProfileError::Io(error.into()),
            serde_json::error::Category::Eof if count > 0 => ProfileError::Cut { events: count },
            _ if count == 0 => ProfileError::NotAProfile(error.to_string()),
            _ => ProfileError::Corrupt { events: count, why: error.to_string() },
        });
    }
    if !events.kept.iter().any(|event| matches!(event.kind, EventKind::Kernel { .. })) {
        return Err(ProfileError::Empty);
    }
    Ok(events.kept)
}

#[derive(Default)]
struct Events {
    kept: Vec<Event>,
    /// The number of events, including irrelevant ones.
    count: usize,
    is_too_long: bool,
    names: FxHashSet<Arc<str>>,
    name_bytes: usize,
}

impl Events {
    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.name_bytes += name.len();
        self.names.insert(name.clone());
        name
    }

    fn add(&mut self, raw: &RawEvent) {
        let (Some(start), Some(length)) = (raw.ts, raw.dur) else {
            return;
        };
        let kind = match raw.cat.as_deref() {
            Some("Session") if raw.name.as_deref() == Some("model_run") => EventKind::Run,
            Some("Node") => {
                let name = raw.name.as_deref().unwrap_or_default();
                let Some(node) = name.strip_suffix("_kernel_time") else {
                    return;
                };
                EventKind::Kernel {
                    node: self.name(node),
                    op: self.name(raw.op.as_deref().unwrap_or_default()),
                    provider: self.name(raw.provider.as_deref().unwrap_or_default()),
                    index: raw.index.as_deref().map(|index| self.name(index)),
                    bytes: raw.bytes.as_deref().and_then(|bytes| bytes.parse().ok()),
                    shapes: Shapes {
                        read: raw.read.as_deref().map(|shape| self.name(shape)),
                        made: raw.made.as_deref().map(|shape| self.name(shape)),
                    },
                }
            }
            _ => return,
        };
        self.kept.push(Event { kind, thread: raw.tid.unwrap_or(0), start, length });
    }
}

/// Reads an array of events, or an object with an array under `traceEvents`.
impl<'de> Visitor<'de> for &mut Events {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(event) = seq.next_element_seed(EventSeed)? {
            self.count += 1;
            self.add(&event);
            if self.count > MAX_EVENTS || self.name_bytes > MAX_NAMES {
                self.is_too_long = true;
                return Err(serde::de::Error::custom("too many events"));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                map.next_value_seed(Nested(self))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Reads the array in the object.
struct Nested<'e>(&'e mut Events);

impl<'de> DeserializeSeed<'de> for Nested<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self.0)
    }
}

/// The relevant fields of an event.
#[derive(Default)]
struct RawEvent {
    cat: Option<String>,
    name: Option<String>,
    tid: Option<u64>,
    ts: Option<u64>,
    dur: Option<u64>,
    op: Option<String>,
    provider: Option<String>,
    index: Option<String>,
    bytes: Option<String>,
    read: Option<String>,
    made: Option<String>,
}

struct EventSeed;

impl<'de> DeserializeSeed<'de> for EventSeed {
    type Value = RawEvent;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawEvent, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EventSeed {
    type Value = RawEvent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawEvent, A::Error> {
        let mut event = RawEvent::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "cat" => event.cat = map.next_value_seed(Text)?,
                "name" => event.name = map.next_value_seed(Text)?,
                "tid" => event.tid = map.next_value_seed(Number)?,
                "ts" => event.ts = map.next_value_seed(Number)?,
                "dur" => event.dur = map.next_value_seed(Number)?,
                "args" => map.next_value_seed(Args(&mut event))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(event)
    }
}

/// Reads the arguments of an event.
struct Args<'e>(&'e mut RawEvent);

impl<'de> DeserializeSeed<'de> for Args<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Args<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the arguments of an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "op_name" => self.0.op = map.next_value_seed(Text)?,
                "provider" => self.0.provider = map.next_value_seed(Text)?,
                "node_index" => self.0.index = map.next_value_seed(Text)?,
                "output_size" => self.0.bytes = map.next_value_seed(Text)?,
                "input_type_shape" => self.0.read = map.next_value_seed(FirstShape)?,
                "output_type_shape" => self.0.made = map.next_value_seed(FirstShape)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Reads a text that is not too long; otherwise returns `None`.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let value: serde_json::Value = serde::Deserialize::deserialize(deserializer)?;
        Ok(match value {
            serde_json::Value::String(text) if text.len() <= MAX_NAME => Some(text),
            _ => None,
        })
    }
}

/// Reads the first of several shapes as text.
struct FirstShape;

impl<'de> DeserializeSeed<'de> for FirstShape {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let value: serde_json::Value = serde::Deserialize::deserialize(deserializer)?;
        let first = value.get(0).map(ToString::to_string);
        Ok(first.filter(|shape| shape.len() <= MAX_NAME))
    }
}

/// Reads a nonnegative integer; otherwise returns `None`.
struct Number;

impl<'de> DeserializeSeed<'de> for Number {
    type Value = Option<u64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let value: serde_json::Value = serde::Deserialize::deserialize(deserializer)?;
        Ok(value.as_u64().filter(|&number| number <= u64::from(u32::MAX) << 16))
    }
}
