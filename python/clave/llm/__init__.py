"""Language models: `use_kv_cache` makes a Hugging Face causal model one that clave runs token by token."""

from clave.llm.kv_cache import CachedCausalLM, use_kv_cache
from clave.llm.layers import KVCache

__all__ = ["CachedCausalLM", "KVCache", "use_kv_cache"]
