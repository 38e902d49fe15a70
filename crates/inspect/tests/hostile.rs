//! Reads untrusted files. Each is accepted or refused in bounded time and memory, without a panic. This is also the
//! short run of the fuzz targets: their functions run on the corpus and on changes of it.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::fs;
use std::path::Path;

use cpu_time::ThreadTime;
use inspect::{ModelFile, Recorded, Weights};
use onnx::scan::scan;
use provenance::codec::encode;
use provenance::{Location, Origin, OriginId, PathPolicy, Paths, ScopeKind, Site, Table, Tier};

#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

/// Returns the initial files of a fuzz target.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Generates pseudorandom numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// Changes a file: flips bits, inserts special bytes, and cuts out, doubles or moves parts.
fn changed(data: &[u8], random: &mut Random) -> Vec<u8> {
    let mut data = data.to_vec();
    for _ in 0..=random.below(4) {
        if data.is_empty() {
            break;
        }
        let at = random.below(data.len());
        let end = (at + 1 + random.below(40)).min(data.len());
        match random.below(6) {
            0 => data[at] ^= 1 << random.below(8),
            1 => data[at] = [0, 0x7f, 0x80, 0xff, b'"', b'['][random.below(6)],
            2 => drop(data.drain(at..end)),
            3 => {
                let part = data[at..end].to_vec();
                let to = random.below(data.len());
                data.splice(to..to, part);
            }
            4 => data.truncate(at),
            _ => data[at] = random.below(256) as u8,
        }
    }
    data
}

/// Returns the value of a variable that `make test` and `make test-all` set.
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns one of how many changes run. `make test-all` sets it to 1.
fn sample() -> usize {
    setting("JAX2ONNX_TEST_SAMPLE").map_or(16, |text| text.parse().unwrap())
}

/// Returns the size of an input that shows whether time is linear: a quarter if only a sample of the changes runs.
fn size(full: u32) -> u32 {
    if sample() == 1 { full } else { full / 4 }
}

/// Returns random numbers that depend on `JAX2ONNX_TEST_SEED`.
fn random() -> Random {
    let seed = setting("JAX2ONNX_TEST_SEED").unwrap_or_default();
    Random(seed.bytes().fold(0x9e37_79b9_7f4a_7c15, |sum: u64, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    }))
}

/// Runs `ask` on each file of the corpus, on a sample of the changes of it, and on noise.
#[track_caller]
fn survives(target: &str, ask: fn(&[u8]), changes: usize) {
    let changes = changes.div_ceil(sample());
    let mut random = random();
    for data in corpus(target) {
        ask(&data);
        for _ in 0..changes {
            ask(&changed(&data, &mut random));
        }
    }
    for length in 0..400 {
        let noise: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        ask(&noise);
    }
}

#[test]
fn models_are_read_or_refused() {
    survives("model", fuzz::model, 300);
}

#[test]
fn tables_are_read_or_refused() {
    survives("table", fuzz::table, 500);
}

#[test]
fn maps_are_read_or_refused() {
    survives("map", fuzz::map, 1000);
}

#[test]
fn logs_are_read() {
    const MODEL: &[u8] = include_bytes!("failures/in_a_loop_of_a_function.onnx");
    survives("log", |data| fuzz::log(MODEL, data), 200);
}

#[test]
fn profiles_are_read_or_refused() {
    const MODEL: &[u8] = include_bytes!("profiles/loop.onnx");
    survives("profile", |data| fuzz::profile(MODEL, data), 400);
}

#[test]
fn valid_messages_with_wild_contents_are_read_or_refused() {
    let mut random = random();
    for _ in 0..3000 / sample() {
        let length = random.below(600);
        let choices: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        fuzz::structured(&choices);
    }
}

#[test]
fn every_beginning_of_a_model_is_read_or_refused() {
    for data in corpus("model") {
        for end in 0..data.len() {
            let _ = scan(&data[..end]);
            if end % 97 == 0 {
                fuzz::model(&data[..end]);
            }
        }
    }
}

#[test]
fn every_bit_may_be_flipped() {
    let step = sample();
    let first = random().below(step);
    for data in corpus("model").iter().filter(|data| data.len() < 4000) {
        for bit in (first..data.len() * 8).step_by(step) {
            let mut data = data.clone();
            data[bit / 8] ^= 1 << (bit % 8);
            let _ = scan(&data);
        }
    }
}

/// Encodes a field with contents.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(content);
    bytes
}

/// Checks that eight times as much takes far less than 64 times as long. Caches and other threads disturb a
/// measurement, so one of several is enough.
#[track_caller]
fn takes_linear_time(ask: impl Fn(&[u8]), input: impl Fn(u32) -> Vec<u8>, count: u32) {
    let (small, large) = (input(count / 8), input(count));
    let cost = |data: &[u8]| {
        // CPU time of this thread does not depend on what else the machine does.
        let start = ThreadTime::now();
        ask(data);
        start.elapsed().as_secs_f64()
    };
    let mut ratios = (0..5).map(|_| {
        let cost_of_small = cost(&small).max(1e-3);
        cost(&large) / cost_of_small
    });
    assert!(
        ratios.any(|ratio| ratio < 24.0),
        "{count} take more than 24 times as long as {}",
        count / 8
    );
}

#[test]
fn a_node_that_reads_very_many_values_takes_linear_time() {
    let model = |count: u32| {
        let nodes: Vec<u8> = (0..count)
            .flat_map(|i| {
                field(1, &[field(2, format!("v{i}").as_bytes()), field(4, b"A")].concat())
            })
            .collect();
        let reads: Vec<u8> =
            (0..count).flat_map(|i| field(1, format!("v{i}").as_bytes())).collect();
        field(7, &[nodes, field(1, &[reads, field(4, b"Concat")].concat())].concat())
    };
    takes_linear_time(fuzz::model, model, size(20_000));
}

#[test]
fn a_table_with_one_deep_call_path_is_read() {
    const DEPTH: u32 = 2000;
    let mut table = Table::default();
    let file = table.file("a.py", Tier::Internal);
    let function = table.function("f");
    let location = table.location(Location { file, function, line: 1, span: None });
    let (mut stack, mut scope) = (None, None);
    let mut origins = Vec::new();
    let mut all: Option<OriginId> = None;
    for depth in 0..DEPTH {
        stack = Some(table.push(stack, location));
        scope = Some(table.scope(scope, ScopeKind::Name, "s"));
        if (depth + 1) % 100 == 0 {
            let site = table.site(Site { stack, scope, emitter: None });
            let origin = table.origin(Origin::of(site));
            origins.push(origin);
            all = Some(all.map_or(origin, |all| table.absorb(all, origin)));
        }
    }
    origins.extend(all);
    let nowhere = |_: &Path| false;
    let encoded = encode(&table, &origins, &mut Paths::new(PathPolicy::Absolute, &nowhere));
    let entry =
        |key: &str, value: &str| [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
    let nodes: Vec<u8> = origins
        .iter()
        .flat_map(|origin| {
            let number = entry("pkg.jax2onnx.origin", &encoded.numbers[origin].to_string());
            field(1, &[field(4, b"A"), field(9, &number)].concat())
        })
        .collect();
    let bytes =
        [field(7, &nodes), field(14, &entry("pkg.jax2onnx.provenance", &encoded.text))].concat();
    let file = ModelFile::from_bytes(bytes.clone());
    assert_eq!(file.read(None).unwrap().level, Recorded::Indexed);
    fuzz::model(&bytes);
}

#[test]
fn very_many_functions_and_bodies_take_linear_time() {
    let call = |i: u32| field(1, &[field(4, format!("f{i}").as_bytes()), field(7, b"d")].concat());
    let function = |i: u32| {
        let body = field(7, &field(5, &field(6, b"")));
        field(0, &[field(1, format!("f{i}").as_bytes()), field(10, b"d"), body].concat())
    };
    let model = |count: u32| {
        let calls: Vec<u8> = (0..count).flat_map(call).collect();
        let functions: Vec<u8> = (0..count).flat_map(function).collect();
        // The tag of field 25 takes two bytes.
        [field(7, &calls), with_tag_25(&functions)].concat()
    };
    takes_linear_time(fuzz::model, model, size(8000));
}

/// Returns the same fields with the number 25.
fn with_tag_25(fields: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = fields;
    while let Some((_, after)) = rest.split_first() {
        let (mut length, mut size) = (0usize, 0);
        for (i, &byte) in after.iter().enumerate() {
            length |= usize::from(byte & 0x7f) << (7 * i);
            size = i + 1;
            if byte < 0x80 {
                break;
            }
        }
        bytes.extend([0xca, 0x01]);
        bytes.extend_from_slice(&after[..size + length]);
        rest = &after[size + length..];
    }
    bytes
}

#[test]
fn a_path_that_is_not_a_file_is_refused() {
    let folder = std::env::temp_dir();
    let error = ModelFile::open(&folder, Weights::Skipped).unwrap_err().to_string();
    assert!(error.ends_with("is not a file"), "{error}");
    let error = ModelFile::open(&folder.join("jax2onnx-gone.onnx"), Weights::Skipped)
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("cannot read"), "{error}");
}

/// Returns a graph with a node that reads `count` values, and as many declared ones of each kind.
fn model_with_inputs(count: u32) -> Vec<u8> {
    let named = |number: u8, named: u8| {
        let name = |i: u32| field(number, &field(named, format!("w{i}").as_bytes()));
        (0..count).flat_map(name).collect::<Vec<u8>>()
    };
    let reads: Vec<u8> = (0..count).flat_map(|i| field(1, format!("w{i}").as_bytes())).collect();
    let node = field(1, &[reads, field(4, b"Concat")].concat());
    field(7, &[node, named(5, 8), named(13, 1)].concat())
}

#[test]
fn a_node_that_reads_very_many_weights_takes_linear_time() {
    takes_linear_time(fuzz::model, model_with_inputs, size(40_000));
}

#[test]
fn long_logs_take_linear_time() {
    const MODEL: &[u8] = include_bytes!("failures/in_a_loop_of_a_function.onnx");
    for piece in [
        "running ",
        "running Add node. Name:'",
        "running A node. Name:'a' Status Message: ",
        "Node(",
        "In Node, (\"",
        "x",
        " ",
        "\n",
        "\x1b[",
        "(",
        "\0",
        "2026-01-01 00:00:00.0 [E:onnxruntime:, running A node. Name:'a'\n",
    ] {
        let text = |length: u32| piece.repeat(length as usize / piece.len()).into_bytes();
        takes_linear_time(|data| fuzz::log(MODEL, data), text, size(1 << 18));
    }
}

#[test]
#[should_panic(expected = "24 times as long")]
fn quadratic_time_is_noticed() {
    let quadratic = |data: &[u8]| {
        let pairs = data.iter().flat_map(|one| data.iter().map(move |other| one ^ other));
        assert_eq!(pairs.fold(0, |sum, pair| sum ^ pair), 0);
    };
    takes_linear_time(quadratic, |count| vec![1; count as usize], 1 << 11);
}
