// Record what onnxruntime-web or onnxruntime-node computes, for `jax2onnx compare --captured`.
//
//     python record.py prepare model.onnx tapped.onnx
//     node record.mjs tapped.onnx folder x=batch.npy …
//
// In a browser, import `npy` and `fileName`, and send the files to your server or to a download.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The types of ONNX Runtime, as NumPy writes them, and the arrays that hold their elements.
const TYPES = {
  bool: ["|b1", Uint8Array],
  float16: ["<f2", Uint16Array],
  float32: ["<f4", Float32Array],
  float64: ["<f8", Float64Array],
  int8: ["|i1", Int8Array],
  int16: ["<i2", Int16Array],
  int32: ["<i4", Int32Array],
  int64: ["<i8", BigInt64Array],
  uint8: ["|u1", Uint8Array],
  uint16: ["<u2", Uint16Array],
  uint32: ["<u4", Uint32Array],
  uint64: ["<u8", BigUint64Array],
};

/** Returns a tensor of ONNX Runtime as the bytes of an .npy file. */
export function npy({ type, dims, data }) {
  const shape = dims.length === 1 ? `${dims[0]},` : dims.join(", ");
  const start = `{'descr': '${TYPES[type][0]}', 'fortran_order': False, 'shape': (${shape}), }`;
  // The elements start at a multiple of 64 bytes.
  const header = `${start.padEnd(Math.ceil((start.length + 11) / 64) * 64 - 11)}\n`;
  const bytes = new Uint8Array(10 + header.length + data.byteLength);
  bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
  bytes.set(new TextEncoder().encode(header), 10);
  bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), 10 + header.length);
  return bytes;
}

/** Returns the name of the file of a value. */
export function fileName(value) {
  return `${encodeURIComponent(value)}.npy`;
}

/** Reads an .npy file. */
export function array(bytes) {
  const start = bytes[6] === 1 ? 10 : 12;
  const length = bytes[8] + 256 * bytes[9];
  const header = new TextDecoder().decode(bytes.subarray(start, start + length));
  const descr = /'descr': '([^']*)'/.exec(header)[1];
  const dims = /'shape': \(([^)]*)\)/.exec(header)[1].split(",").filter((size) => size.trim()).map(Number);
  const [type, [, Elements]] = Object.entries(TYPES).find(([, [known]]) => known === descr);
  return { type, dims, data: new Elements(bytes.slice(start + length).buffer) };
}

async function main([model, folder, ...inputs]) {
  const require = createRequire(`${process.cwd()}/index.js`);
  const ort = require(process.env.RUNTIME ?? "onnxruntime-web");
  const session = await ort.InferenceSession.create(readFileSync(model));
  const feeds = {};
  for (const input of inputs) {
    const at = input.indexOf("=");
    const { type, dims, data } = array(new Uint8Array(readFileSync(input.slice(at + 1))));
    feeds[input.slice(0, at)] = new ort.Tensor(type, data, dims);
  }
  mkdirSync(folder, { recursive: true });
  for (const [name, tensor] of Object.entries(await session.run(feeds))) {
    writeFileSync(`${folder}/${fileName(name)}`, npy(tensor));
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main(process.argv.slice(2));
