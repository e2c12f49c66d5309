"""The commands that install the packages of an extra of python/pyproject.toml."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def install_command(extra: str) -> str:
    """Returns the command that installs an extra. It names a checkout by its path, because no index has it."""
    is_checkout = (_PACKAGE.parent / "pyproject.toml").exists()
    return f"pip install '{_PACKAGE.parent if is_checkout else 'clave'}[{extra}]'"
