"""How the packages that a part of clave needs are installed: the extras of python/pyproject.toml."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def install_command(extra: str) -> str:
    """The command that installs an extra. A checkout is named by its path, as no index has it."""
    is_checkout = (_PACKAGE.parent / "pyproject.toml").exists()
    return f"pip install '{_PACKAGE.parent if is_checkout else 'clave'}[{extra}]'"
