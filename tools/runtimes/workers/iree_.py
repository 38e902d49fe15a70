"""Compiles models with IREE for the CPU and runs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from frame import Inputs, kept, serve
from iree import compiler, runtime
from iree.compiler.tools.import_onnx import __main__ as importer


@kept
def load(model: Path) -> Callable[..., Any]:
    text = model.with_suffix(".mlir")
    importer.main(importer.parse_arguments([str(model), "-o", str(text)]))
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
    return loaded[entry]


def run(model: Path, inputs: Inputs) -> list[np.ndarray]:
    results = load(model)(*inputs.values())
    several = results if isinstance(results, (list, tuple)) else [results]
    return [each.to_host() for each in several]


serve(run)
