"""Shows the progress of a long export on a terminal, in one line that is rewritten, and cleared at the end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_QUIET_S = 1.0  # shorter exports show nothing
_TICK_S = 0.2


class Progress:
    """Shows the current stage and the time. Writes nothing if the stream is not a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._what = ""
        self._begin = time.monotonic()
        self._over = threading.Event()
        self._shown = False
        self._thread = threading.Thread(target=self._show, daemon=True) if self._is_terminal() else None

    def _is_terminal(self) -> bool:
        return bool(getattr(self._stream, "isatty", lambda: False)())

    def __enter__(self) -> Progress:
        if self._thread:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()
        if self._shown:
            self._write("")

    @contextmanager
    def stage(self, what: str, method: str = "") -> Iterator[None]:
        """Sets the current stage within the block. what: a text such as "capturing"."""
        before, self._what = self._what, f"{what} {method!r}" if method else what
        try:
            yield
        finally:
            self._what = before

    def _show(self) -> None:
        self._over.wait(_QUIET_S)
        while not self._over.is_set():
            if self._what:
                self._write(f"clave: {self._what}, {time.monotonic() - self._begin:.0f} s")
            self._over.wait(_TICK_S)

    def _write(self, line: str) -> None:
        self._shown = True
        try:
            self._stream.write(f"\r\033[K{line}")
            self._stream.flush()
        except (OSError, ValueError):  # the stream is closed
            self._over.set()
