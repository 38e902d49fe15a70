"""What a user reads when an export cannot be done."""

from __future__ import annotations

import functools
import re
import textwrap
import traceback
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

import jax2onnx
from jax2onnx import to_onnx
from jax2onnx._tracing import trace
from testkit import mystery

HINT = (
    "hint: write a plugin with `jax2onnx.plugin`, "
    "or move the operation out of the exported function\n"
)


def load(text: str, path: Path) -> Any:
    """The function `fn` of a file with this text."""
    path.write_text(text, encoding="utf-8")
    namespace: dict[str, Any] = {"jax": jax, "jnp": jnp, "mystery": mystery.mystery}
    exec(compile(text, str(path), "exec"), namespace)
    return namespace["fn"]


def refusal(fn: Any, *inputs: Any) -> str:
    """The message of the refusal to export `fn`."""
    with (
        jax2onnx.provenance(library_code=[mystery.__file__]),
        pytest.raises(jax2onnx.UnsupportedError) as error,
    ):
        to_onnx(fn, list(inputs) or [(3,)])
    assert isinstance(error.value, jax2onnx.Jax2OnnxError)
    return str(error.value)


def expect(found: str, text: str) -> None:
    assert found == textwrap.dedent(text) + "\n" + HINT


def test_an_operation_without_a_plugin_is_shown_with_its_line(tmp_path: Path) -> None:
    fn = load("def fn(x):\n    y = x + mystery(x)[::-1]\n    return y\n", tmp_path / "net.py")
    expect(
        refusal(fn),
        """\
        no plugin for `mystery`
          --> net.py:2:13, in fn
           |
         2 |     y = x + mystery(x)[::-1]
           |             ^^^^^^^^^^
           = through jit(mystery) / mystery
        """,
    )


def test_the_path_through_jits_scopes_and_callers_is_shown(tmp_path: Path) -> None:
    text = """\
@jax.jit
def whiten(x):
    with jax.named_scope("cov"):
        return mystery(x @ x.T)

@jax.jit
def layer(x):
    return whiten(x * 2.0)

def fn(x):
    return layer(x)
"""
    expect(
        refusal(load(text, tmp_path / "net.py"), (3, 3)),
        """\
        no plugin for `mystery`
          --> net.py:4:16, in whiten
           |
         4 |         return mystery(x @ x.T)
           |                ^^^^^^^^^^^^^^^^
           = through jit(layer) / jit(whiten) / cov / jit(mystery) / mystery
           = called from net.py:8, in layer
           = called from net.py:11, in fn
        """,
    )


def test_an_expression_over_several_lines_is_marked_on_its_first(tmp_path: Path) -> None:
    fn = load("def fn(x):\n    return mystery(\n        x,\n    )\n", tmp_path / "net.py")
    assert " 2 |     return mystery(\n   |            ^^^^^^^^ ...\n" in refusal(fn)


def test_wide_letters_and_tabs_keep_the_carets_under_the_expression(tmp_path: Path) -> None:
    fn = load("def fn(x):\n\tψ, 漢 = x, x; return mystery(漢) + ψ\n", tmp_path / "net.py")
    expect(
        refusal(fn),
        """\
        no plugin for `mystery`
          --> net.py:2:22, in fn
           |
         2 |     ψ, 漢 = x, x; return mystery(漢) + ψ
           |                          ^^^^^^^^^^^
           = through jit(mystery) / mystery
        """,
    )


@pytest.mark.parametrize("file", ["<string>", "<cell 3>", "/nowhere/net.py"])
def test_code_without_a_file_has_a_place_and_no_excerpt(file: str) -> None:
    namespace: dict[str, Any] = {"mystery": mystery.mystery}
    exec(compile("def fn(x):\n    return mystery(x)\n", file, "exec"), namespace)
    shown = "net.py" if file.endswith(".py") else file
    expect(
        refusal(namespace["fn"]),
        f"""\
        no plugin for `mystery`
          --> {shown}:2:12, in fn
           = through jit(mystery) / mystery
        """,
    )


def test_an_unreadable_source_file_does_not_hide_the_error(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    fn = load("def fn(x):\n    return mystery(x)\n", path)
    path.write_bytes(b"\xff\xfe\x00")
    assert "  --> net.py:2:12, in fn\n" in refusal(fn)


def test_a_function_of_jax_is_shown_where_it_is_defined() -> None:
    message = refusal(functools.partial(jax.lax.rng_uniform, shape=(3,)), 0.0, 1.0)
    assert re.search(r"--> jax/_src/lax/lax\.py:\d+, in rng_uniform\n", message)


def test_a_parameter_that_the_plugin_does_not_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fn = load("def fn(x):\n    return jnp.sin(x)\n", tmp_path / "net.py")
    closed = jax.make_jaxpr(fn)(jnp.ones(3))
    monkeypatch.setitem(closed.jaxpr.eqns[0].params, "flavour", "sweet")
    monkeypatch.setattr(trace, "trace", lambda *_, **__: trace.Traced(closed, ["x"], ["out_0"]))
    message = refusal(fn)
    assert message.startswith("the plugin for `sin` does not support the parameter `flavour=")
    assert "   |            ^^^^^^^^^^\n" in message
    assert "hint: leave the argument at its default" in message


def test_a_jaxpr_that_cannot_be_read_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "trace", lambda *_, **__: trace.Traced(object(), [], []))
    with pytest.raises(jax2onnx.InternalError, match="please report it") as error:
        to_onnx(jnp.sin, [(2,)])
    assert isinstance(error.value.__cause__, AttributeError)


def test_an_element_type_that_onnx_lacks_is_named() -> None:
    message = refusal(lambda x: x.astype(jnp.float8_e3m4))
    assert message.startswith("ONNX has no element type for `float8_e3m4`\n")
    assert message.endswith("hint: convert the array to a type that ONNX supports\n")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([(2,), (2, -1)], r"^inputs\[1\], \(2, -1\), has the size -1: give an unknown size a name"),
        ([(3, 1.5)], r"^inputs\[0\], \(3, 1\.5\), has the size 1\.5: a size is a whole number"),
        ([(3, True)], r"^inputs\[0\], \(3, True\), has the size True: a size is a whole number"),
        ([("B", 1.0)], r"^inputs\[0\], \('B', 1\.0\), has the size 1\.0: a size is a whole"),
        ([(2,), ("B*",)], r"^inputs\[1\], \('B\*',\), has the size 'B\*', which is not a symbolic"),
        ([(10**30,)], r"^inputs\[0\], .* has the size 10{30}: the largest size in ONNX is"),
        ([(2,), "B"], r"^inputs\[1\] is 'B', which is not an input spec: use a shape such as"),
        (
            [{"x": [(2,), object()]}],
            r"^inputs\[0\]\['x'\]\[1\] is <object .*, which is not an input",
        ),
        ([np.array(["a"])], r"^inputs\[0\] has elements of type <U1, which are not numbers$"),
        ([jax.ShapeDtypeStruct((2,), object)], r"^inputs\[0\] has elements of type object"),
        ((2, 3), r"^`inputs` is the shape \(2, 3\), .*: use \[\(2, 3\)\]$"),
        (None, r"^`inputs` is None, but should be a list with one spec per argument"),
        ("abc", r"^`inputs` is 'abc', but should be a list"),
        (np.ones(3), r"^`inputs` is array\(.*, but should be a list"),
    ],
)
def test_an_invalid_spec_names_the_input_and_the_reason(inputs: Any, message: str) -> None:
    with pytest.raises(jax2onnx.InputSpecError, match=message):
        to_onnx(lambda *_: jnp.ones(2), inputs)


def add(x: jax.Array, y: jax.Array, *, scale: float = 1.0) -> jax.Array:
    return (x + y) * scale


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "0 inputs: missing a required argument: 'x'"),
        ([(2,)], "1 input: missing a required argument: 'y'"),
        ([(2,)] * 3, "3 inputs: too many positional arguments"),
    ],
)
def test_too_few_or_too_many_inputs_are_counted(inputs: Any, message: str) -> None:
    with pytest.raises(jax2onnx.InputSpecError) as error:
        to_onnx(add, inputs)
    found = str(error.value)
    assert found.startswith("`add(x: ")
    assert found.endswith(f" cannot be called with {message}")


def test_a_shape_without_its_own_brackets_is_shown_with_them() -> None:
    message = r"2 inputs: too many .*; for one input of this shape, use \[\(4, 8\)\]$"
    with pytest.raises(jax2onnx.InputSpecError, match=message):
        to_onnx(lambda x: x, [4, 8])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"provenance": "loud"}, "^`loud` is not a provenance level: use off, minimal, full, inde"),
        ({"provenance": True}, "^`True` is not a provenance level"),
        ({"provenance_paths": "short"}, "^`short` is not a path policy: use relative, absolute, b"),
        ({"opset": 15}, "^opset 15 is not supported: use 16 to 26$"),
        ({"opset": 27}, "^opset 27 is not supported: use 16 to 26$"),
        ({"opset": "23"}, "^opset '23' is not supported"),
        ({"opset": 23.0}, "^opset 23.0 is not supported"),
        ({"model_name": 3}, "^`model_name` is 3, which is not a string$"),
        ({"return_mode": "bytes"}, "^`bytes` is not a return mode: use proto, ir, file$"),
        ({"return_mode": "file"}, "^`return_mode='file'` needs an `output_path`$"),
        (
            {"return_mode": "file", "output_path": 3},
            "^`output_path` is 3, which is not a path$",
        ),
    ],
)
def test_a_wrong_option_lists_the_allowed_values(options: dict[str, Any], message: str) -> None:
    with pytest.raises(jax2onnx.ConfigError, match=message):
        to_onnx(jnp.sin, [(2,)], **options)


def test_a_level_in_the_environment_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAX2ONNX_ENABLE_STACKTRACE_METADATA", "1")
    monkeypatch.setenv("JAX2ONNX_STACKTRACE_DETAIL", "loud")
    message = "`loud` .*JAX2ONNX_STACKTRACE_DETAIL.*: use minimal, full, indexed$"
    with pytest.raises(jax2onnx.ConfigError, match=message):
        to_onnx(jnp.sin, [(2,)])


def test_a_level_of_a_block_is_checked_when_it_is_entered() -> None:
    with (
        pytest.raises(jax2onnx.ConfigError, match=r"^`loud` is not a provenance level"),
        jax2onnx.provenance("loud"),  # type: ignore[arg-type]
    ):
        pytest.fail("the block was entered")


@pytest.mark.parametrize("fn", [3, "sin", None, [jnp.sin]])
def test_an_argument_that_is_not_a_function_is_refused(fn: Any) -> None:
    with pytest.raises(jax2onnx.ConfigError) as error:
        to_onnx(fn, [(2,)])
    kind = type(fn).__name__
    assert str(error.value) == f"`fn` is of type {kind}, which cannot be called: use a function"


def test_the_result_of_a_function_is_not_taken_for_the_function() -> None:
    message = "^`fn` is of type ndarray, .*: pass the function, not its result$"
    with pytest.raises(jax2onnx.ConfigError, match=message):
        to_onnx(np.ones((8, 8)), [(2,)])  # type: ignore[arg-type]


def write(path: Any, fn: Any = jnp.sin) -> str:
    return to_onnx(fn, [(2,)], return_mode="file", output_path=path)


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "net.onnx"
    message = r"^cannot write '.*net\.onnx': No such file or directory \(there is no folder '.*'\)$"
    with pytest.raises(jax2onnx.WriteError, match=message) as error:
        write(path)
    assert error.value.filename == str(path)
    assert isinstance(error.value, OSError)


def test_a_target_that_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(jax2onnx.WriteError, match="directory") as error:
        write(tmp_path)
    assert str(tmp_path) in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_a_name_that_no_file_has_is_an_error_of_writing(path: str) -> None:
    with pytest.raises(jax2onnx.WriteError, match=r"^cannot write"):
        write(path)


def test_an_export_that_fails_leaves_the_old_model(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    write(path)
    before = path.read_bytes()
    with pytest.raises(jax2onnx.UnsupportedError):
        write(path, mystery.mystery)
    with pytest.raises(ZeroDivisionError):
        write(path, lambda x: x / (1 // 0))
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["net.onnx"]
    onnx.checker.check_model(path)


class OwnError(Exception):
    pass


def test_an_exception_of_the_user_keeps_its_traceback() -> None:
    raised = OwnError("mine")

    def inner(x: jax.Array) -> jax.Array:
        raise raised

    def fn(x: jax.Array) -> jax.Array:
        return jax.jit(inner)(x)

    with pytest.raises(OwnError) as error:
        to_onnx(fn, [(2,)])
    assert error.value is raised
    names = [frame.name for frame in traceback.extract_tb(raised.__traceback__)]
    assert [name for name in names if name in ("fn", "inner")] == ["fn", "inner"]


@pytest.mark.parametrize(
    ("fn", "inputs", "options"),
    [
        (lambda x: jax.pure_callback(np.sort, x, x), [(2,)], {}),
        (lambda x: x, [(2,)], {"provenance": "index"}),
        (lambda x: x, [(2,), (2,)], {}),
        (lambda image: image, ["imge=f32[2]"], {}),
    ],
    ids=["primitive", "option", "inputs", "name"],
)
def test_the_traceback_of_an_error_contains_no_frames_of_the_converter(
    fn: Any, inputs: list[Any], options: dict[str, Any]
) -> None:
    with pytest.raises(jax2onnx.Jax2OnnxError) as error:
        to_onnx(fn, inputs, **options)
    frames = traceback.extract_tb(error.value.__traceback__)
    assert {Path(frame.filename) for frame in frames} == {Path(__file__)}
    assert error.value.__cause__ is None


@pytest.mark.parametrize(
    ("specs", "params", "message"),
    [
        (["imge=f32[2]", "mask=f32[2]"], {}, "parameters are: image, mask; did you mean `image`?"),
        ([(2,), (2,)], {"maks": 1.0}, "unexpected keyword argument 'maks'; did you mean `mask`?"),
    ],
)
def test_a_misspelled_name_is_answered_with_the_nearest_one(
    specs: list[Any], params: dict[str, Any], message: str
) -> None:
    with pytest.raises(jax2onnx.Jax2OnnxError) as error:
        to_onnx(lambda image, mask: image + mask, specs, params)
    assert message in str(error.value)


def test_a_type_error_of_the_user_is_not_taken_for_a_wrong_number_of_inputs() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return add(x)  # type: ignore[call-arg]

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'") as error:
        to_onnx(fn, [(2,)])
    assert not isinstance(error.value, jax2onnx.Jax2OnnxError)


def test_an_exception_of_jax_keeps_its_type() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return x if x.sum() > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError):
        to_onnx(fn, [(2,)])
