// Runs models in onnxruntime-node, or in onnxruntime-web (WebAssembly) with the argument `web`. See frame.py.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [kind, modules] = process.argv.slice(2);
const require = createRequire(`${modules}/index.js`);
const ort = require(kind === "web" ? "onnxruntime-web" : "onnxruntime-node");
ort.env.logLevel = "error";
if (kind === "web") ort.env.wasm.numThreads = 1;

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

function read(folder, index, { dtype, shape }) {
  const bytes = readFileSync(`${folder}/input_${index}.bin`);
  const whole = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  return new ort.Tensor(dtype, new ARRAYS[dtype](whole), shape);
}

async function run(folder) {
  const described = JSON.parse(readFileSync(`${folder}/inputs.json`, "utf8"));
  const options = { logSeverityLevel: 4, executionProviders: [kind === "web" ? "wasm" : "cpu"] };
  const session = await ort.InferenceSession.create(readFileSync(`${folder}/model.onnx`), options);
  const inputs = Object.fromEntries(described.map((one, i) => [one.name, read(folder, i, one)]));
  const results = await session.run(inputs);
  return session.outputNames.map((name, i) => {
    const { data, dims, type } = results[name];
    writeFileSync(`${folder}/output_${i}.bin`, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    return { dtype: type, shape: dims };
  });
}

for await (const folder of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = { outputs: await run(folder) };
  } catch (error) {
    answer = { error: String(error.message ?? error), log: String(error.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
