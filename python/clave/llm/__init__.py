"""Language models: `LLMExporter` makes a program of a Hugging Face folder; `use_kv_cache` makes a causal model one that
clave runs token by token."""

from clave.llm.exporter import LLMExporter
from clave.llm.kv_cache import CachedCausalLM, use_kv_cache
from clave.llm.layers import KVCache

__all__ = ["CachedCausalLM", "KVCache", "LLMExporter", "use_kv_cache"]
