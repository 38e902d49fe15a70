"""Reading the table of a model that was exported at `indexed`, with nothing but JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import onnx

KEY = "pkg.jax2onnx.provenance"

_COMMENT = re.compile(r"\s*#[^\n]*")
_BREAK = re.compile(r"\s*\n\s*")


@dataclass(frozen=True)
class Frame:
    """A line of a call path, and the expression on it: `columns` is (column, end line, end)."""

    file: str
    tier: str
    function: str
    line: int
    columns: tuple[int, int, int] | None

    @property
    def name(self) -> str:
        """As `callsite` has it."""
        return f"{self.function}:{self.line}"

    def text(self, source: str) -> str:
        """The expression, without comments, in one line; columns count bytes."""
        assert self.columns is not None, "the columns are not known"
        column, end_line, end_column = self.columns
        lines = [line.encode() for line in source.splitlines()[self.line - 1 : end_line]]
        lines[-1] = lines[-1][:end_column]
        lines[0] = lines[0][column:]
        return _BREAK.sub(" ", _COMMENT.sub("", b"\n".join(lines).decode()))


@dataclass(frozen=True)
class Place:
    """One equation's part in a node."""

    frames: list[Frame]
    #: The name stack, outermost first: (kind, name).
    scope: list[tuple[str, str]]
    absorbed: list[Place]

    @property
    def callsite(self) -> Frame:
        """The innermost frame of the user; else of a library; else the outermost of all."""
        for tier in ("user", "library"):
            for frame in self.frames:
                if frame.tier == tier:
                    return frame
        return self.frames[-1]

    @property
    def path(self) -> str:
        """The name stack as JAX spells it, transformations included."""
        return "/".join(name for _, name in self.scope)


@dataclass(frozen=True)
class Index:
    """The table of a model."""

    table: dict[str, Any]

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Index:
        (text,) = (entry.value for entry in model.metadata_props if entry.key == KEY)
        return cls(json.loads(text))

    def origin(self, number: int) -> Place:
        """The place that is shown first, with those that it absorbed."""
        first, *others = self.table["origins"][number]
        shown = self._place(first)
        shown.absorbed.extend(self._place(other) for other in others)
        return shown

    def _place(self, site: int) -> Place:
        frame, scope, _ = self.table["sites"][site]
        return Place(self._frames(frame), self._scope(scope), [])

    def _frames(self, frame: int | None) -> list[Frame]:
        frames = []
        while frame is not None:
            location, frame = self.table["frames"][frame]
            file, function, line, *columns = self.table["locations"][location]
            path, tier = self.table["files"][file]
            name = self.table["functions"][function]
            frames.append(Frame(path, tier, name, line, tuple(columns) or None))
        return frames

    def _scope(self, scope: int | None) -> list[tuple[str, str]]:
        entries = []
        while scope is not None:
            kind, name, scope = self.table["scopes"][scope]
            entries.append((kind, name))
        return entries[::-1]
