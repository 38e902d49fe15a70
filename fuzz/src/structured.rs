//! Valid protobuf and valid JSON with wild contents: changed bytes alone rarely get past the readers of
//! messages and texts, so these are made of the bytes that the fuzzer chooses.

/// Names that several entries share, so that they refer to each other.
const NAMES: &[&str] =
    &["", "x", "y", "scan", "a/b", "x_1", "Loop", "If", "Add", "local", "\u{1b}[2J\n"];

const KEYS: &[&str] = &[
    "pkg.jax2onnx.origin",
    "pkg.jax2onnx.callsite",
    "pkg.jax2onnx.stacktrace",
    "pkg.jax2onnx.fused_from",
    "pkg.jax2onnx.plugin",
    "pkg.jax2onnx.path",
    "pkg.torch.onnx.stack_trace",
    "location",
    "offset",
    "length",
];

const VALUES: &[&str] = &[
    "0",
    "1",
    "4294967295",
    "-1",
    "model.py:12 (f)",
    "f:3",
    "File \"m.py\", line 3, in f\n    x + y",
    "../../etc/passwd",
    "weights.bin",
];

/// The deepest nesting of graphs.
const MAX_DEPTH: usize = 6;

/// The bytes that decide what is made; zeros when they have run out.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    /// A number of few or many bits.
    fn number(&mut self) -> u64 {
        let bits = u64::from_le_bytes(std::array::from_fn(|_| self.byte()));
        bits >> (8 * self.below(8))
    }

    fn one_of(&mut self, texts: &[&str]) -> String {
        match self.below(8) {
            0 => {
                let length = self.below(12);
                let bytes: Vec<u8> = (0..length).map(|_| self.byte()).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            _ => texts[self.below(texts.len())].to_owned(),
        }
    }

    fn times(&mut self, limit: usize, mut make: impl FnMut(&mut Self)) {
        for _ in 0..self.below(limit) {
            make(self);
        }
    }
}

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3);
        self.varint(number);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn name(&mut self, field: u64, choices: &mut Choices<'_>) {
        let name = choices.one_of(NAMES);
        self.bytes(field, name.as_bytes());
    }

    fn pair(&mut self, field: u64, choices: &mut Choices<'_>) {
        let mut pair = Message::default();
        pair.bytes(1, choices.one_of(KEYS).as_bytes());
        pair.bytes(2, choices.one_of(VALUES).as_bytes());
        self.bytes(field, &pair.0);
    }
}

/// Makes a model.
pub fn model(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut model = Message::default();
    model.number(1, choices.number());
    model.name(2, choices);
    model.bytes(7, &graph(choices, 0));
    choices.times(3, |choices| {
        let mut opset = Message::default();
        opset.name(1, choices);
        opset.number(2, choices.number());
        model.bytes(8, &opset.0);
    });
    choices.times(3, |choices| model.pair(14, choices));
    if choices.below(2) == 1 {
        let mut pair = Message::default();
        pair.bytes(1, b"pkg.jax2onnx.provenance");
        pair.bytes(2, table(choices).as_bytes());
        model.bytes(14, &pair.0);
    }
    choices.times(4, |choices| model.bytes(25, &function(choices)));
    model.0
}

fn graph(choices: &mut Choices<'_>, depth: usize) -> Vec<u8> {
    let mut graph = Message::default();
    choices.times(6, |choices| graph.bytes(1, &node(choices, depth)));
    graph.name(2, choices);
    choices.times(4, |choices| graph.bytes(5, &tensor(choices)));
    for field in 11..=13 {
        choices.times(3, |choices| graph.bytes(field, &value(choices)));
    }
    choices.times(2, |choices| graph.pair(16, choices));
    graph.0
}

fn function(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut function = Message::default();
    function.name(1, choices);
    for field in 4..=6 {
        choices.times(3, |choices| function.name(field, choices));
    }
    choices.times(4, |choices| function.bytes(7, &node(choices, 0)));
    function.name(10, choices);
    function.0
}

fn node(choices: &mut Choices<'_>, depth: usize) -> Vec<u8> {
    let mut node = Message::default();
    for field in 1..=2 {
        choices.times(4, |choices| node.name(field, choices));
    }
    for field in [3, 4, 7] {
        node.name(field, choices);
    }
    choices.times(3, |choices| {
        let mut attribute = Message::default();
        attribute.name(1, choices);
        match choices.below(4) {
            0 => attribute.number(3, choices.number()),
            1 => attribute.bytes(5, &tensor(choices)),
            2 if depth < MAX_DEPTH => attribute.bytes(6, &graph(choices, depth + 1)),
            _ => attribute.name(4, choices),
        }
        attribute.number(20, choices.number() % 16);
        node.bytes(5, &attribute.0);
    });
    choices.times(4, |choices| node.pair(9, choices));
    node.0
}

fn tensor(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut tensor = Message::default();
    choices.times(4, |choices| tensor.number(1, choices.number()));
    tensor.number(2, choices.number() % 32);
    tensor.name(8, choices);
    let length = choices.below(40);
    let raw: Vec<u8> = (0..length).map(|_| choices.byte()).collect();
    tensor.bytes([4, 9, 9, 9][choices.below(4)], &raw);
    choices.times(3, |choices| tensor.pair(13, choices));
    tensor.number(14, choices.number() % 3);
    choices.times(2, |choices| tensor.pair(16, choices));
    tensor.0
}

fn value(choices: &mut Choices<'_>) -> Vec<u8> {
    let (mut value, mut ty, mut array, mut shape) =
        (Message::default(), Message::default(), Message::default(), Message::default());
    value.name(1, choices);
    array.number(1, choices.number() % 32);
    choices.times(4, |choices| {
        let mut dim = Message::default();
        match choices.below(2) {
            0 => dim.number(1, choices.number()),
            _ => dim.name(2, choices),
        }
        shape.bytes(1, &dim.0);
    });
    array.bytes(2, &shape.0);
    ty.bytes(1, &array.0);
    value.bytes(2, &ty.0);
    value.0
}

/// Makes a provenance table.
pub fn table(choices: &mut Choices<'_>) -> String {
    let mut fields = vec![r#""version":1"#.to_owned()];
    let files = choices.below(4);
    for list in ["files", "functions", "scope_names", "emitter_files", "emitter_names"] {
        let count = if list == "files" { files } else { choices.below(4) };
        let names: Vec<String> = (0..count).map(|_| quoted(&choices.one_of(NAMES))).collect();
        fields.push(format!(r#""{list}":[{}]"#, names.join(",")));
    }
    let tiers: String = (0..files).map(|_| ["u", "l", "i"][choices.below(3)]).collect();
    fields.push(format!(r#""tiers":"{tiers}""#));
    for list in ["locations", "frames", "scopes", "emitters", "places", "origins", "fused"] {
        let count = choices.below(64);
        // Mostly small numbers, which refer to something.
        let letter = |choices: &mut Choices<'_>| match choices.below(8) {
            0 => b"ghijklmnopqrstuvwxyz0123456789+/"[choices.below(32)],
            _ => b"ABCDEFGH"[choices.below(8)],
        };
        let letters = (0..count).map(|_| char::from(letter(choices))).collect::<String>();
        fields.push(format!(r#""{list}":"{letters}""#));
    }
    format!("{{{}}}", fields.join(","))
}

/// A table with one origin.
const TABLE: &str = r#"{"version":1,"files":["a.py"],"tiers":"u","functions":["f"],"locations":"AACA","frames":"ABAA","scope_names":[],"scopes":"","emitter_files":[],"emitter_names":[],"emitters":"","places":"CA","origins":"AABA","fused":""}"#;

/// Makes a source map.
pub fn map(choices: &mut Choices<'_>) -> String {
    let mut graphs = Vec::new();
    let (mut count, mut table) = (0, TABLE.to_owned());
    choices.times(4, |choices| {
        let mut nodes = Vec::new();
        choices.times(8, |choices| {
            let (name, op) = (quoted(&choices.one_of(NAMES)), choices.below(3));
            let number = choices.below(4);
            let inputs: Vec<_> =
                (0..number).map(|_| choices.below(count + 2).to_string()).collect();
            let origin = choices.below(2);
            nodes.push(format!("[{name},{op},{origin},[{}]]", inputs.join(",")));
            count += 1;
        });
        let around = choices.below(count + 1);
        let place = match choices.below(2) {
            0 => String::new(),
            _ => format!(r#""node":{around},"attribute":"body","#),
        };
        graphs.push(format!(r#"{{{place}"nodes":[{}]}}"#, nodes.join(",")));
    });
    if choices.below(4) == 0 {
        table = self::table(choices);
    }
    let (id, name) = (quoted(&choices.one_of(NAMES)), quoted(&choices.one_of(NAMES)));
    format!(
        r#"{{"version":1,"debug_id":{id},"provenance":{table},"sources":[],"ops":["Add","Loop"],"graphs":[{}],"values":[[{name},0]]}}"#,
        graphs.join(",")
    )
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
