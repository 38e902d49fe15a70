"""A terminal for the tests: what a program prints there, as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

#: Colors, and other sequences that move no text.
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: A line that a later text replaces, such as the progress of an export.
REPLACED = re.compile(r"[^\n]*\r")


def _writer(number: int) -> TextIO:
    return os.fdopen(os.dup(number), "w", encoding="utf-8", buffering=1)


class Terminal:
    """A terminal with this many columns."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        modes = termios.tcgetattr(self._theirs)
        # The end of a line stays one character.
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(self._theirs, termios.TCSANOW, modes)
        self._printed = bytearray()
        self._arrived = threading.Condition()
        # A terminal holds a few kilobytes. A program that prints more waits until they are read.
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                block = os.read(self._ours, 1 << 16)
            except OSError:
                return
            with self._arrived:
                self._printed += block
                self._arrived.notify_all()

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Make the terminal standard output and standard error of this process."""
        streams = sys.stdout, sys.stderr
        for stream in streams:
            stream.flush()
        saved = [os.dup(1), os.dup(2)]
        os.dup2(self._theirs, 1)
        os.dup2(self._theirs, 2)
        sys.stdout, sys.stderr = _writer(1), _writer(2)
        try:
            yield
        finally:
            sys.stdout.close()
            sys.stderr.close()
            sys.stdout, sys.stderr = streams
            for number, copy in zip((1, 2), saved, strict=True):
                os.dup2(copy, number)
                os.close(copy)

    def text(self) -> str:
        """Return what was printed since the last call, without colors and replaced lines."""
        end = b"\x00end\x00"
        os.write(self._theirs, end)
        with self._arrived:
            self._arrived.wait_for(lambda: self._printed.endswith(end), timeout=30)
            printed = bytes(self._printed.removesuffix(end))
            self._printed.clear()
        text = printed.decode(errors="replace").replace("\r\n", "\n")
        return REPLACED.sub("", ESCAPE.sub("", text))

    def close(self) -> None:
        os.close(self._theirs)
        os.close(self._ours)
