"""Helpers of the package's commands: errors of one line, exit statuses, options of KV caches."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from clave._extras import install_command
from clave.errors import Error, UsageError

CACHE_TYPES = ("f32", "f16", "bf16", "int8")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"clave: {message} (see {self.prog} --help)\n")


def check_cache(options: argparse.Namespace) -> None:
    """Raises UsageError for an invalid kv, max_context or prompt_piece. An option that is None is valid."""
    if options.kv is not None and options.kv not in CACHE_TYPES:
        raise UsageError(f"--kv {options.kv}: expected {', '.join(CACHE_TYPES[:-1])} or {CACHE_TYPES[-1]}")
    for option, value, least in (("max-context", options.max_context, 2), ("prompt-piece", options.prompt_piece, 1)):
        if value is not None and not least <= value < 2**31:
            raise UsageError(f"--{option} {value}: expected {least} to {2**31 - 1}")


def check_encoding(option: str, encoding: str | None) -> None:
    """Raises UsageError if `encoding` is not an encoding of weights. None is valid."""
    from clave.encodings import HELP, parse

    if encoding is None:
        return
    try:
        parse(encoding)
    except Error:
        raise UsageError(f"{option} {encoding}: expected {HELP}") from None


def run(command: Callable[[argparse.Namespace], None], options: argparse.Namespace, extra: str) -> int:
    """Runs a command. Returns 0 on success, 1 if it failed, 2 for a malformed command line. extra: the extra that
    installs a missing module."""
    try:
        command(options)
    except UsageError as e:
        return _print_error(str(e), 2)
    except ModuleNotFoundError as e:
        return _print_error(f"export needs {e.name}: {install_command(extra)}", 1)
    except (Error, OSError) as e:
        return _print_error(str(e), 1)
    return 0


def _print_error(message: str, code: int) -> int:
    print(f"clave: {' '.join(message.split())}", file=sys.stderr)
    return code
