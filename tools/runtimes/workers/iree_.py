"""Compiles models with IREE for the CPU and runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from frame import Inputs, serve
from iree import compiler, runtime


def run(model: Path, inputs: Inputs) -> list[np.ndarray]:
    text = model.with_suffix(".mlir")
    command = [sys.executable, "-m", "iree.compiler.tools.import_onnx", model, "-o", text]
    imported = subprocess.run(command, capture_output=True, text=True, check=False)
    if imported.returncode:
        raise ValueError(imported.stderr.strip()[-2000:])
    binary = compiler.compile_file(
        str(text),
        input_type="onnx",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    config = runtime.Config("local-sync")
    module = runtime.VmModule.copy_buffer(config.vm_instance, binary)
    context = runtime.SystemContext(config=config)
    context.add_vm_module(module)
    loaded = context.modules[module.name]
    names = [name for name in module.function_names if name != "__init"]
    entry = next(name for name in names if not name.endswith("$async"))
    results = loaded[entry](*inputs.values())
    several = results if isinstance(results, (list, tuple)) else [results]
    return [each.to_host() for each in several]


serve(run)
