"""Language models: `LLMExporter` makes a program of a Hugging Face folder, and `use_kv_cache` puts a KV cache into a
causal model, so that clave runs it token by token."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from clave._extras import install_command
from clave.errors import Code, Error

if TYPE_CHECKING:
    from clave.llm.exporter import LLMExporter
    from clave.llm.kv_cache import CachedCausalLM, use_kv_cache
    from clave.llm.layers import KVCache

__all__ = ["CachedCausalLM", "KVCache", "LLMExporter", "use_kv_cache"]

_MODULES = {"CachedCausalLM": "kv_cache", "KVCache": "layers", "LLMExporter": "exporter", "use_kv_cache": "kv_cache"}


def __getattr__(name: str) -> Any:
    """Imports torch when a name is first used, so that the commands can report a missing package."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"clave.llm.{_MODULES[name]}"), name)
    except ModuleNotFoundError as e:
        raise Error(f"clave.llm needs {e.name}: {install_command('llm')}", Code.UNSUPPORTED) from e
