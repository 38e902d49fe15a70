"""Write crates/onnx/src/operator/generated.rs: the operators of ONNX's own domain.

They are read from the schemas of the installed onnx package, those of every opset:

    python tools/generate_operators.py > crates/onnx/src/operator/generated.rs
"""

from __future__ import annotations

import textwrap

import onnx
import onnx.defs


def main() -> None:
    schemas = onnx.defs.get_all_schemas_with_history()
    names = sorted({schema.name for schema in schemas if schema.domain == ""})
    print(f"//! Made by `tools/generate_operators.py` from onnx {onnx.__version__}; do not edit.")
    print()
    print("operators! {")
    print(textwrap.fill(", ".join(names), 96, initial_indent="    ", subsequent_indent="    "))
    print("}")


if __name__ == "__main__":
    main()
