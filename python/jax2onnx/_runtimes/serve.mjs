// Runs models in onnxruntime-web (WebAssembly) or onnxruntime-node: `node serve.mjs NAME FOLDER`. See serve.py.

import { readFileSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [name, folder] = process.argv.slice(2);
const isWeb = name === "onnxruntime-web";
let ort;

function runtime() {
  if (!ort) {
    ort = createRequire(`${folder}/index.js`)(name);
    ort.env.logLevel = "error";
    if (isWeb) ort.env.wasm.numThreads = 1;
  }
  return ort;
}

// NumPy calls a type by another name than ONNX Runtime.
const ARRAYS = {
  bool: Uint8Array,
  float16: Uint16Array,
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
};

// The models that stay loaded, the one that was used last at the end.
const KEPT = 64;
const kept = new Map();

async function loaded(folder) {
  const key = `${folder} ${statSync(`${folder}/model.onnx`, { bigint: true }).mtimeNs}`;
  const session = kept.get(key) ?? (await load(folder));
  kept.delete(key);
  kept.set(key, session);
  if (kept.size > KEPT) {
    const [oldest, dropped] = kept.entries().next().value;
    kept.delete(oldest);
    await dropped.release();
  }
  return session;
}

async function load(folder) {
  const options = { logSeverityLevel: 4, executionProviders: [isWeb ? "wasm" : "cpu"] };
  return runtime().InferenceSession.create(readFileSync(`${folder}/model.onnx`), options);
}

function read(folder, index, { dtype, shape }) {
  if (!ARRAYS[dtype]) throw new Error(`no arrays of ${dtype}`);
  const bytes = readFileSync(`${folder}/input_${index}.bin`);
  const whole = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  return new (runtime().Tensor)(dtype, new ARRAYS[dtype](whole), shape);
}

async function run(folder) {
  const session = await loaded(folder);
  const described = JSON.parse(readFileSync(`${folder}/inputs.json`, "utf8"));
  const inputs = Object.fromEntries(described.map((one, i) => [one.name, read(folder, i, one)]));
  const results = await session.run(inputs);
  return session.outputNames.map((name, i) => {
    const { data, dims, type } = results[name];
    writeFileSync(`${folder}/output_${i}.bin`, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    return { dtype: type, shape: dims };
  });
}

async function answer(line) {
  if (line) return { outputs: await run(line) };
  return { version: runtime().env.versions.common };
}

for await (const line of createInterface({ input: process.stdin })) {
  let found;
  try {
    found = await answer(line.trim());
  } catch (error) {
    found = { error: String(error.message ?? error), log: String(error.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
