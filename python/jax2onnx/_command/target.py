"""Load the target of an export: `package.module:fn`, `file.py:Model.apply`, `module:make(3)`."""

import ast
import importlib
import importlib.util
import inspect
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from .. import _core
from .._errors import ConfigError
from .._words import did_you_mean, quoted

_FORMS = "MODULE:NAME such as package.module:fn, or FILE.py:NAME"


def load(target: str) -> Any:
    """Import what a target names. The current directory is importable, as with `python -m`.

    Raises:
        ConfigError: The target does not exist. Exceptions of the imported code pass unchanged.
    """
    parts = re.fullmatch(r"(.+?):([^\W\d].*)", target, re.DOTALL)
    if parts is None:
        raise ConfigError(f"{quoted(target)} is not a target: use {_FORMS}")
    place, expression = parts.groups()
    tree = _parsed(expression)
    _importable(os.getcwd())
    is_file = place.endswith(".py") or os.sep in place
    module = _module_of_file(place) if is_file else _module(place)
    found = _value(tree, module, f"module {quoted(place)}")
    if inspect.isclass(found):
        raise ConfigError(
            f"{quoted(target)} is a class: to export an object, call the class, as in `{target}()`"
        )
    if not callable(found):
        raise ConfigError(
            f"{quoted(target)} is of type {type(found).__name__}, which cannot be called"
        )
    return found


def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        column = (error.offset or 1) - 1
        raise ConfigError(
            f"{quoted(expression)} is not valid Python ({error.msg})\n\n"
            f"  {_core.clean(expression)}\n  {' ' * column}^"
        ) from None


def _importable(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(f"{quoted(name)} is not a module: use {_FORMS}")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        files = [entry.stem for entry in Path().iterdir() if entry.suffix in ("", ".py")]
        hint = did_you_mean(error.name, files, ": ") if "." not in error.name else ""
        raise ConfigError(f"there is no module {quoted(error.name)}{hint}") from None


def _module_of_file(path: str) -> ModuleType:
    """Import a file. Like `python FILE`, make its folder importable."""
    file = Path(path).resolve()
    if not file.is_file():
        files = [entry.name for entry in Path(path).parent.glob("*.py")]
        raise ConfigError(
            f"there is no file {quoted(path)}{did_you_mean(Path(path).name, files, ': ')}"
        )
    _importable(str(file.parent))
    name = file.stem if file.stem not in sys.modules else f"{file.stem}_exported"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{quoted(path)} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _value(tree: ast.expr, module: ModuleType, where: str) -> Any:
    """Evaluate names, attributes, entries, and calls with literal arguments."""
    match tree:
        case ast.Name(id=name):
            return _attribute(module, name, where)
        case ast.Attribute(value=inner, attr=name):
            return _attribute(_value(inner, module, where), name, f"`{ast.unparse(inner)}`")
        case ast.Subscript(value=inner, slice=key):
            return _value(inner, module, where)[_literal(key)]
        case ast.Call(func=inner, args=args, keywords=keywords):
            options = {keyword.arg or "": _literal(keyword.value) for keyword in keywords}
            if "" in options:
                _not_literal(tree)
            fn = _value(inner, module, where)
            if not callable(fn):
                raise ConfigError(f"`{ast.unparse(inner)}` cannot be called")
            return fn(*map(_literal, args), **options)
    raise ConfigError(
        f"`{ast.unparse(tree)}` is not a target: use names, attributes, and calls with literal "
        "arguments"
    )


def _attribute(holder: Any, name: str, where: str) -> Any:
    try:
        return getattr(holder, name)
    except AttributeError:
        public = [known for known in dir(holder) if not known.startswith("_")]
        raise ConfigError(
            f"{where} has no {quoted(name)}{did_you_mean(name, public, ': ')}"
        ) from None


def _literal(tree: ast.expr) -> Any:
    try:
        return ast.literal_eval(tree)
    except ValueError:
        _not_literal(tree)


def _not_literal(tree: ast.expr) -> NoReturn:
    raise ConfigError(
        f"`{ast.unparse(tree)}` is not a literal: write a function without arguments that returns "
        "the model"
    )
