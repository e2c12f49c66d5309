"""The supported architectures, as differences from Llama, and the hyperparameters in a file.

Keys and tensors are those of gguf-py/gguf/constants.py in llama.cpp. The computation is that of its src/models and of
transformers' modules.
"""

from __future__ import annotations

from dataclasses import dataclass

from clave.errors import Code
from clave.gguf.file import File
from clave.gguf.header import shown

_SCALINGS = ("none", "linear", "yarn", "longrope")
# Keys that do not affect the decoder's results, or belong to a feature that is refused elsewhere.
_IGNORED_KEYS = ("vocab_size", "expert_used_count", "rope.scaling.finetuned", "tensor_data_layout", "pooling_type")


@dataclass(frozen=True)
class Architecture:
    """A decoder of norms, attention and a gated feed-forward network.

    interleaved: RoPE rotates the pairs (2i, 2i + 1), otherwise (i, i + half); llama files store the rows of q and k in
    that order. merged: q, k and v are one tensor, and gate and up are one tensor. normed_heads: q and k have norms.
    post_norms: a norm follows attention and feed-forward. gelu: GELU by tanh in place of SiLU. scaled_embeddings:
    embeddings are multiplied by the square root of their size.

    has_windows: layers have a sliding window of the size in the file, or else of size `window`. pattern: every n-th
    layer has none; 0: all layers have one. attention_cap, logits_cap: soft caps if the file has none. local_base: base
    of RoPE in layers with a window, if it differs. wide: models with these numbers of layers scale scores by embedding
    size / heads instead of the head size.
    """

    interleaved: bool = False
    merged: bool = False
    normed_heads: bool = False
    post_norms: bool = False
    gelu: bool = False
    scaled_embeddings: bool = False
    has_windows: bool = False
    pattern: int = 0
    window: int = 0
    attention_cap: float | None = None
    logits_cap: float | None = None
    local_base: float | None = None
    wide: tuple[int, ...] = ()


_GEMMA = {"post_norms": True, "gelu": True, "scaled_embeddings": True, "has_windows": True}
ARCHITECTURES = {
    "llama": Architecture(interleaved=True, has_windows=True),
    "mistral": Architecture(interleaved=True, has_windows=True),
    "qwen2": Architecture(),
    "qwen3": Architecture(normed_heads=True),
    "gemma2": Architecture(**_GEMMA, pattern=2, window=4096, attention_cap=50.0, logits_cap=30.0, wide=(46,)),
    "gemma3": Architecture(**_GEMMA, pattern=6, normed_heads=True, local_base=10000.0, wide=(62,)),
    "phi3": Architecture(merged=True, has_windows=True),
}


@dataclass(frozen=True)
class Rope:
    """RoPE: the angles per position are base ** (-2 i / dims), then scaled. kind: "none", "linear", "longrope" or
    "yarn".

    original: the context before scaling. magnitude: factor of cos and sin; with YaRN it multiplies YaRN's own factor;
    None: the factor of the kind's formula. beta_fast, beta_slow: parameters of YaRN, in turns.
    """

    dims: int
    base: float
    kind: str = "none"
    factor: float = 1.0
    original: int = 0
    magnitude: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0


@dataclass(frozen=True)
class Numbers:
    """The hyperparameters of one model. windows: window of each layer in tokens, None if it sees all. scale: factor of
    q k^T. rope, local: RoPE of the layers without and with a window."""

    architecture: Architecture
    n_layers: int
    size: int
    n_heads: int
    n_kv: int
    key_size: int
    value_size: int
    n_hidden: int
    context: int
    eps: float
    scale: float
    attention_cap: float | None
    logits_cap: float | None
    windows: tuple[int | None, ...]
    rope: Rope
    local: Rope


def read_numbers(file: File) -> Numbers:
    """Reads the hyperparameters. Raises Error if one is missing or out of range, if the architecture is not supported,
    or if the file has unknown keys of the architecture."""
    name = file.text("general.architecture")
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise file.error(f"architecture: expected one of {known}, got {shown(name)}", Code.UNSUPPORTED)
    numbers = _read(file, name, ARCHITECTURES[name])
    rest = [k for k in file.unread(f"{name}.") if k.removeprefix(f"{name}.") not in _IGNORED_KEYS]
    if rest:
        raise file.error(f"has keys that are not supported: {', '.join(map(shown, rest[:3]))}", Code.UNSUPPORTED)
    return numbers


def _read(file: File, name: str, a: Architecture) -> Numbers:
    if file.integer(f"{name}.expert_count", 0):
        raise file.error("a mixture of experts is not supported", Code.UNSUPPORTED)
    if not file.flag(f"{name}.attention.causal", True):
        raise file.error("attention that also sees later tokens is not supported", Code.UNSUPPORTED)
    n_layers = file.integer(f"{name}.block_count", least=1, most=10_000)
    size = file.integer(f"{name}.embedding_length", least=1, most=2**20)
    n_heads = _same(file, f"{name}.attention.head_count", n_layers)
    n_kv = _same(file, f"{name}.attention.head_count_kv", n_layers, n_heads)
    if n_heads % n_kv:
        raise file.error(f"{n_heads} heads of queries cannot share {n_kv} heads of keys")
    key_size = file.integer(f"{name}.attention.key_length", max(size // n_heads, 1), 1, 2**16)
    value_size = file.integer(f"{name}.attention.value_length", max(size // n_heads, 1), 1, 2**16)
    scaled_by = size / n_heads if n_layers in a.wide else key_size
    rope = _read_rope(file, name, key_size)
    return Numbers(
        architecture=a,
        n_layers=n_layers,
        size=size,
        n_heads=n_heads,
        n_kv=n_kv,
        key_size=key_size,
        value_size=value_size,
        n_hidden=_same(file, f"{name}.feed_forward_length", n_layers),
        context=file.integer(f"{name}.context_length", least=2),
        eps=file.number(f"{name}.attention.layer_norm_rms_epsilon"),
        scale=file.number(f"{name}.attention.scale", scaled_by**-0.5),
        attention_cap=file.number(f"{name}.attn_logit_softcapping", a.attention_cap),
        logits_cap=file.number(f"{name}.final_logit_softcapping", a.logits_cap),
        windows=_read_windows(file, name, a, n_layers),
        rope=rope,
        local=rope if a.local_base is None else _local_rope(file, name, rope, a.local_base),
    )


def _same(file: File, key: str, n_layers: int, default: int | None = None) -> int:
    """Returns a number that holds for all layers. The elements of an array must be equal."""
    if not file.is_array(key):
        args = () if default is None else (default,)
        return int(file.integer(key, *args, least=1, most=2**20))
    values = set(file.items(key, "integer", count=n_layers))
    if len(values) != 1:
        raise file.error(f"key {key!r} differs between layers, which is not supported", Code.UNSUPPORTED)
    value = int(values.pop())
    if not 1 <= value <= 2**20:
        raise file.error(f"key {key!r}: expected 1 to {2**20} for each layer, got {value}")
    return value


def _read_windows(file: File, name: str, a: Architecture, n_layers: int) -> tuple[int | None, ...]:
    key = f"{name}.attention.sliding_window"
    window = file.integer(key, a.window)
    if window and not a.has_windows:
        raise file.error(f"key {key!r} is {window}: a window is not supported for {name}", Code.UNSUPPORTED)
    key = f"{name}.attention.sliding_window_pattern"
    if file.is_array(key):
        has = file.items(key, "flag", count=n_layers)
    else:
        pattern = file.integer(key, a.pattern)
        has = [pattern == 0 or (i + 1) % pattern != 0 for i in range(n_layers)]
    return tuple(window if h and window else None for h in has)


def _read_rope(file: File, name: str, key_size: int) -> Rope:
    prefix = f"{name}.rope"
    dims = file.integer(f"{prefix}.dimension_count", key_size, 2)
    if dims % 2 or dims > key_size:
        raise file.error(f"key '{prefix}.dimension_count': expected an even number up to {key_size}, got {dims}")
    kind = file.text(f"{prefix}.scaling.type", _unnamed_scaling(file, prefix))
    if kind not in _SCALINGS:
        known = ", ".join(_SCALINGS)
        raise file.error(f"rope scaling: expected one of {known}, got {shown(kind)}", Code.UNSUPPORTED)
    base = file.number(f"{prefix}.freq_base", 10000.0)
    if base <= 1:
        raise file.error(f"key '{prefix}.freq_base': expected more than 1, got {base}")
    context = file.integer(f"{name}.context_length", least=2)
    return Rope(
        dims=dims,
        base=base,
        kind=kind,
        factor=file.number(f"{prefix}.scaling.factor", file.number(f"{prefix}.scale_linear", 1.0)),
        original=file.integer(f"{prefix}.scaling.original_context_length", context, 2),
        magnitude=file.number(f"{prefix}.scaling.attn_factor", None),
        beta_fast=file.number(f"{prefix}.scaling.yarn_beta_fast", 32.0),
        beta_slow=file.number(f"{prefix}.scaling.yarn_beta_slow", 1.0),
    )


def _unnamed_scaling(file: File, prefix: str) -> str:
    """Returns the scaling of files without that key. llama.cpp's converter writes no name with Phi-3's factors."""
    if "rope_factors_long.weight" in file.tensors:
        return "longrope"
    return "linear" if f"{prefix}.scale_linear" in file or f"{prefix}.scaling.factor" in file else "none"


def _local_rope(file: File, name: str, rope: Rope, base: float) -> Rope:
    """Returns the RoPE of layers with a window, which is not scaled."""
    return Rope(rope.dims, file.number(f"{name}.rope.freq_base_swa", base))
