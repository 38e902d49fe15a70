//! Runs models in tract or rten, as `python/jax2onnx/_runtimes/serve.py` describes.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;

use rten::{NodeId, Value};
use rten_tensor::{AsView, Layout};
use serde_json::{Value as Json, json};
use tract_onnx::prelude::*;

type Answer = Result<Json, Box<dyn Error>>;

/// Runs a loaded model with the inputs in a folder.
type Run = Box<dyn Fn(&Path) -> Answer>;

/// Loads the model in a folder.
type Load = fn(&Path) -> Result<Run, Box<dyn Error>>;

/// The maximum number of models that stay loaded.
const KEPT: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let (load, version): (Load, &str) = match std::env::args().nth(1).as_deref() {
        Some("tract") => (load_tract, "0.23.9"),
        Some("rten") => (load_rten, "0.27.0"),
        _ => return Err("name a runtime: tract or rten".into()),
    };
    let mut kept: HashMap<String, Run> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let folder = line.trim();
        let answer = if folder.is_empty() {
            json!({ "version": version })
        } else {
            match run(folder, load, &mut kept) {
                Ok(outputs) => json!({ "outputs": outputs }),
                // A program that returns the error from `main` prints its debug form.
                Err(error) => {
                    json!({ "error": chain(&*error), "log": format!("Error: {error:?}") })
                }
            }
        };
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Runs the model in a folder, which stays loaded.
fn run(folder: &str, load: Load, kept: &mut HashMap<String, Run>) -> Answer {
    let changed = fs::metadata(Path::new(folder).join("model.onnx"))?.modified()?;
    let key = format!("{folder} {changed:?}");
    if !kept.contains_key(&key) {
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key.clone(), load(Path::new(folder))?);
    }
    kept[&key](Path::new(folder))
}

/// Returns the text of an error and of its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!("; caused by: {error}");
        cause = error.source();
    }
    text
}

/// An input: its name, its type as NumPy spells it, its shape and its elements.
struct Input {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

fn inputs(folder: &Path) -> Result<Vec<Input>, Box<dyn Error>> {
    let described: Json = serde_json::from_slice(&fs::read(folder.join("inputs.json"))?)?;
    let each = described.as_array().into_iter().flatten().enumerate();
    each.map(|(index, one)| {
        let sizes = one["shape"].as_array().into_iter().flatten();
        Ok(Input {
            name: one["name"].as_str().unwrap_or_default().to_owned(),
            dtype: one["dtype"].as_str().unwrap_or_default().to_owned(),
            shape: sizes.filter_map(|size| size.as_u64().map(|size| size as usize)).collect(),
            bytes: fs::read(folder.join(format!("input_{index}.bin")))?,
        })
    })
    .collect()
}

/// Returns the inputs in a folder as tensors.
fn tensors(folder: &Path) -> Result<TVec<TValue>, Box<dyn Error>> {
    let mut values: TVec<TValue> = tvec![];
    for input in inputs(folder)? {
        let dtype = match input.dtype.as_str() {
            "bool" => DatumType::Bool,
            "float16" => DatumType::F16,
            "float32" => DatumType::F32,
            "float64" => DatumType::F64,
            "int8" => DatumType::I8,
            "int16" => DatumType::I16,
            "int32" => DatumType::I32,
            "int64" => DatumType::I64,
            "uint8" => DatumType::U8,
            "uint16" => DatumType::U16,
            "uint32" => DatumType::U32,
            "uint64" => DatumType::U64,
            other => return Err(format!("no tensors of {other}").into()),
        };
        // The bytes are those of an array of this type, which NumPy wrote.
        let tensor = unsafe { Tensor::from_raw_dt(dtype, &input.shape, &input.bytes) };
        values.push(tensor.map_err(boxed)?.into());
    }
    Ok(values)
}

fn load_tract(folder: &Path) -> Result<Run, Box<dyn Error>> {
    let mut model = tract_onnx::onnx().model_for_path(folder.join("model.onnx")).map_err(boxed)?;
    for (index, value) in tensors(folder)?.iter().enumerate() {
        let fact = InferenceFact::dt_shape(value.datum_type(), value.shape());
        model.set_input_fact(index, fact).map_err(boxed)?;
    }
    let runnable = model.into_optimized().and_then(|model| model.into_runnable()).map_err(boxed)?;
    Ok(Box::new(move |folder| written(folder, &runnable.run(tensors(folder)?).map_err(boxed)?)))
}

/// Writes the results of tract.
fn written(folder: &Path, results: &[TValue]) -> Answer {
    let mut outputs = Vec::new();
    for (index, result) in results.iter().enumerate() {
        let dtype = format!("{:?}", result.datum_type()).to_lowercase();
        let dtype = match dtype.as_str() {
            "f16" => "float16",
            "f32" => "float32",
            "f64" => "float64",
            "i8" => "int8",
            "i16" => "int16",
            "i32" => "int32",
            "i64" | "tdim" => "int64",
            "u8" => "uint8",
            "u16" => "uint16",
            "u32" => "uint32",
            "u64" => "uint64",
            other => other,
        };
        let whole = result.cast_to_dt(match result.datum_type() {
            DatumType::TDim => DatumType::I64,
            same => same,
        });
        fs::write(folder.join(format!("output_{index}.bin")), whole.map_err(boxed)?.as_bytes())?;
        outputs.push(json!({ "dtype": dtype, "shape": result.shape() }));
    }
    Ok(Json::Array(outputs))
}

fn boxed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Box<dyn Error> {
    error.into()
}

fn load_rten(folder: &Path) -> Result<Run, Box<dyn Error>> {
    let model = rten::Model::load_file(folder.join("model.onnx"))?;
    Ok(Box::new(move |folder| run_rten(&model, folder)))
}

fn run_rten(model: &rten::Model, folder: &Path) -> Answer {
    let mut values: Vec<(NodeId, rten::ValueOrView<'_>)> = Vec::new();
    for input in inputs(folder)? {
        let node = model.node_id(&input.name)?;
        values.push((node, to_rten(&input)?.into()));
    }
    let results = model.run(values, model.output_ids(), None)?;
    let mut outputs = Vec::new();
    for (index, result) in results.iter().enumerate() {
        let (dtype, shape, bytes) = match result {
            Value::FloatTensor(t) => {
                ("float32", t.shape().to_vec(), bytes_of(t.to_vec(), f32::to_le_bytes))
            }
            Value::Int32Tensor(t) => {
                ("int32", t.shape().to_vec(), bytes_of(t.to_vec(), i32::to_le_bytes))
            }
            Value::Int8Tensor(t) => {
                ("int8", t.shape().to_vec(), bytes_of(t.to_vec(), i8::to_le_bytes))
            }
            Value::UInt8Tensor(t) => ("uint8", t.shape().to_vec(), t.to_vec()),
            _ => return Err("the result is not a tensor of a known type".into()),
        };
        fs::write(folder.join(format!("output_{index}.bin")), bytes)?;
        outputs.push(json!({ "dtype": dtype, "shape": shape }));
    }
    Ok(Json::Array(outputs))
}

fn bytes_of<T, const N: usize>(elements: Vec<T>, bytes: fn(T) -> [u8; N]) -> Vec<u8> {
    elements.into_iter().flat_map(bytes).collect()
}

/// Returns the input in one of rten's four types; it has no others.
fn to_rten(input: &Input) -> Result<Value, Box<dyn Error>> {
    let shape = input.shape.as_slice();
    let value = match input.dtype.as_str() {
        "float32" => Value::from_shape(shape, read(&input.bytes, f32::from_le_bytes))?,
        "int32" => Value::from_shape(shape, read(&input.bytes, i32::from_le_bytes))?,
        "int8" => Value::from_shape(shape, read(&input.bytes, i8::from_le_bytes))?,
        "uint8" => Value::from_shape(shape, input.bytes.clone())?,
        "bool" => Value::from_shape(shape, read(&input.bytes, |[byte]| i32::from(byte)))?,
        "int64" => {
            let narrow = |bytes| i32::try_from(i64::from_le_bytes(bytes));
            let elements: Result<Vec<i32>, _> = read(&input.bytes, narrow).into_iter().collect();
            Value::from_shape(shape, elements?)?
        }
        other => return Err(format!("no tensors of {other}").into()),
    };
    Ok(value)
}

fn read<T, const N: usize>(bytes: &[u8], element: impl Fn([u8; N]) -> T) -> Vec<T> {
    let elements = bytes.chunks_exact(N).filter_map(|chunk| chunk.try_into().ok());
    elements.map(element).collect()
}
