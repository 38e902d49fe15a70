"""Record what an export could change in the process of the user, as values that can be compared."""

from __future__ import annotations

import contextvars
import gc
import logging
import os
import random
import signal
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

#: What an import or a warning adds to modules, and not only an export.
_ADDED = ("__warningregistry__", "__pycache__")


class Attributes:
    """The attributes of all modules and of their classes, by identity."""

    def __init__(self) -> None:
        self._found = dict(self._all())

    def differences(self) -> list[str]:
        """Return the attributes that are new or missing since, or that another value replaced.

        A submodule that was imported is no difference.
        """
        missing = set(self._found)
        found = []
        for key, value in self._all():
            missing.discard(key)
            if self._found.get(key, self) is not value and not self._is_allowed(key, value):
                found.append(": ".join(key))
        return [*found, *(": ".join(key) for key in missing if not self._is_own(key[0]))]

    def _is_allowed(self, key: tuple[str, str], value: Any) -> bool:
        module, path = key
        is_new_module = (
            isinstance(value, types.ModuleType) or (module, "__name__") not in self._found
        )
        is_new = key not in self._found and (is_new_module or path in _ADDED)
        return is_new or self._is_own(module)

    @staticmethod
    def _is_own(module: str) -> bool:
        """Return whether a module is the test itself, or part of pytest."""
        return module.split(".")[0] in ("_pytest", "pluggy", "tests", "python", "conftest")

    @staticmethod
    def _all() -> Iterator[tuple[tuple[str, str], Any]]:
        for name, module in list(sys.modules.items()):
            if not isinstance(module, types.ModuleType):
                continue
            for path, value in list(vars(module).items()):
                yield (name, path), value
                if isinstance(value, type) and value.__module__ == name:
                    for inner, attribute in list(vars(value).items()):
                        yield (name, f"{path}.{inner}"), attribute


def of_process() -> dict[str, Any]:
    """Return what all threads share, besides the attributes of modules."""
    return {
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug()),
        "callbacks of the collector": list(gc.callbacks),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "timers": signal.getitimer(signal.ITIMER_REAL),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "filters": list(warnings.filters),
        "logging": (list(logging.root.handlers), logging.root.level, logging.root.manager.disable),
        "imports": (list(sys.meta_path), list(sys.path_hooks), list(sys.path)),
        "hooks": (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook),
        "interpreter": (sys.getrecursionlimit(), sys.getswitchinterval()),
        "random": (random.getstate()[1], np.random.get_state()[1].tolist()),
        "tools": _tools(),
    }


def of_thread() -> dict[str, Any]:
    """Return what belongs to the current thread."""
    return {
        "profile": sys.getprofile(),
        "context": {each.name: value for each, value in contextvars.copy_context().items()},
        "configuration": dict(jax.config.values),
        "precision": bool(jax.config.jax_enable_x64),
        "numpy": (np.geterr(), np.get_printoptions()),
        "scopes": str(jax.make_jaxpr(jax.numpy.sin)(1.0).eqns[0].source_info.name_stack),
        "interceptors": _depth("flax.linen.module", "_global_interceptor_stack"),
        "setters": _depth("haiku._src.base", "state_setter_stack"),
        "getters": _depth("haiku._src.base", "state_getter_stack"),
        "stateless": _is_in_stateless_scope(),
    }


def _tools() -> list[str | None]:
    monitoring: Any = getattr(sys, "monitoring", None)
    return [monitoring.get_tool(tool) for tool in range(6)] if monitoring is not None else []


def _depth(module: str, name: str) -> int:
    stack = getattr(sys.modules.get(module), name, None)
    return len(stack._storage) if hasattr(stack, "_storage") else len(list(stack or ()))


def _is_in_stateless_scope() -> bool:
    stateless: Any = sys.modules.get("keras.src.backend.common.stateless_scope")
    return stateless is not None and bool(stateless.in_stateless_scope())
