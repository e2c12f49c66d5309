"""What torch writes besides its results stays out: logs, warnings about itself, and the graphs that it prints."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from typing import Any

from clave.private import silent_prints

# (category, what issues it): torch's warnings that tell a user nothing about the model.
_WARNINGS: tuple[tuple[type[Warning], str], ...] = (
    (FutureWarning, r"torch\b|clave\b|copyreg"),
    (DeprecationWarning, r"torch\b|clave\b|copyreg"),
    (UserWarning, r"torch\b|clave\b|contextlib"),
)


class _Silence:
    """Keeps torch silent while any thread is inside: it logs and prints whole graphs where it fails, for each of its
    attempts, and the error says it in one line. Not where TORCH_LOGS asks for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._levels: dict[logging.Logger, int] = {}  # as they were before the first thread
        self._warnings: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1 and not os.environ.get("TORCH_LOGS"):
                self._begin()

    def _begin(self) -> None:
        names = [n for n in logging.root.manager.loggerDict if n.partition(".")[0] == "torch"]
        loggers = [logging.getLogger("torch"), *map(logging.getLogger, names)]  # the others have torch's level
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
