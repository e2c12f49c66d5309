"""Hides what torch writes: logs, warnings about itself, and the graphs that it prints."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from typing import Any

from clave.private import silent_prints

# (category, pattern of the issuing module) of torch's warnings that say nothing about the model.
_WARNINGS: tuple[tuple[type[Warning], str], ...] = (
    (FutureWarning, r"torch\b|clave\b|copyreg"),
    (DeprecationWarning, r"torch\b|clave\b|copyreg"),
    (UserWarning, r"torch\b|clave\b|contextlib"),
)


class _Silence:
    """Silences torch while any thread is inside. If torch fails, it logs and prints whole graphs for each attempt, but
    the error says the same in one line. Does nothing if TORCH_LOGS is set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._levels: dict[logging.Logger, int] = {}  # levels before the first thread entered
        self._warnings: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1 and not os.environ.get("TORCH_LOGS"):
                self._begin()

    def _begin(self) -> None:
        names = [n for n in logging.root.manager.loggerDict if n.partition(".")[0] == "torch"]
        loggers = [logging.getLogger("torch"), *map(logging.getLogger, names)]  # other loggers inherit torch's level
        self._levels = {logger: logger.level for logger in loggers if logger.level or logger.name == "torch"}
        for logger in self._levels:
            logger.setLevel(logging.CRITICAL + 1)
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        for category, module in _WARNINGS:
            warnings.filterwarnings("ignore", category=category, module=module)
        silent_prints(True)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._warnings is not None:
                self._end()

    def _end(self) -> None:
        for logger, level in self._levels.items():
            logger.setLevel(level)
        self._warnings.__exit__(None, None, None)
        self._warnings = None
        silent_prints(False)


quiet = _Silence()
