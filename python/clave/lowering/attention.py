"""Scaled dot product attention, also over a cache."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Slot
from clave.errors import Unsupported
from clave.lowering.registry import Context, Scalar, Tensor, lower
from clave.lowering.reshape import expand, insert, reshape
from clave.lowering.steps import slot_as


def attention(
    c: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: Scalar | None,
    index: int | None = None,
) -> Tensor:
    """Returns (*, H, Lq, Dv). q: (*, H, Lq, D), k: (*, H or fewer, Lk, D), v: (*, same as k, Lk, Dv)."""
    if scale is not None and not isinstance(scale, int | float):
        raise Unsupported("a scale known only at run time")
    shape, dtype = c.shape(index), c.dtype(index)
    full = shape if len(shape) > 2 else (1, *shape)
    lead = full[:-3]
    slots = [_operand(c, t, lead, len(full), dtype) for t in (q, k, v)]
    if mask is not None:
        mask = c.tensor(mask) if mask.dtype == schema.DType.BOOL else slot_as(c, mask, dtype)
    scale = None if scale is None else float(scale)
    fields = {
        "q": slots[0],
        "k": slots[1],
        "v": slots[2],
        "mask": mask,
        "causal": causal,
        "scale": scale,
    }
    return reshape(c, c.emit("Attention", **fields, shape=full, dtype=dtype), shape)


def _operand(c: Context, x: Tensor, lead: tuple[Any, ...], rank: int, dtype: schema.DType) -> Slot:
    """Returns x with the rank of the result, expanded to its leading dimensions."""
    while x.rank < rank:
        x = insert(c, x, 0)
    return c.tensor(expand(c, slot_as(c, x, dtype), (*lead, *x.shape[-3:])))


@lower("aten.scaled_dot_product_attention.default")
def sdpa(
    c: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout: float,
    causal: bool,
    scale: Scalar | None,
    gqa: bool,
) -> Tensor:
    shared = k.rank > 2 and v.rank > 2 and k.shape[-3] == 1 == v.shape[-3]
    if not gqa and not shared and q.rank > 2:  # heads broadcast like other leading dimensions
        heads = c.shape()[-3]
        q, k, v = (expand(c, t, (*t.shape[:-3], heads, *t.shape[-2:])) if t.rank > 2 else t for t in (q, k, v))
    return attention(c, q, k, v, mask, causal, scale)


@lower("aten._scaled_dot_product_flash_attention_for_cpu.default")
def flash_for_cpu(
    c: Context, q: Tensor, k: Tensor, v: Tensor, dropout: float, causal: bool, mask: Tensor | None, scale: Scalar | None
) -> list[Tensor | None]:
    return [attention(c, q, k, v, mask, causal, scale, 0), None]


@lower("clave.sdpa_with_kv_cache.default")
def cached(
    c: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    position: Tensor,
    key_scale: Tensor | None,
    value_scale: Tensor | None,
    window: int | None,
    scale: Scalar | None,
    softcap: Scalar | None,
    sinks: Tensor | None = None,
) -> list[Tensor | None]:
    """Lowers clave.ops.sdpa_with_kv_cache. Returns its result, then the new values of the caches and their scales."""
    fields = {"position": slot_as(c, position, schema.DType.I64), "window": window, "scale": scale, "softcap": softcap}
    fields["sinks"] = _sinks(c, sinks)
    return _with_caches(c, "AttentionCached", (q, k, v), (key_cache, value_cache, key_scale, value_scale), fields)


@lower("clave.sdpa_with_pages.default")
def paged(
    c: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    position: Tensor,
    sequence: Tensor,
    page_table: Tensor,
    key_scale: Tensor | None,
    value_scale: Tensor | None,
    window: int | None,
    scale: Scalar | None,
    softcap: Scalar | None,
    sinks: Tensor | None = None,
) -> list[Tensor | None]:
    """Lowers clave.ops.sdpa_with_pages. Returns its result, then the new values of the caches and their scales."""
    fields = {
        "position": slot_as(c, position, schema.DType.I64),
        "sequence": slot_as(c, sequence, schema.DType.I32),
        "page_table": slot_as(c, page_table, schema.DType.I32),
        "window": window,
        "scale": scale,
        "softcap": softcap,
        "sinks": _sinks(c, sinks),
    }
    return _with_caches(c, "AttentionPaged", (q, k, v), (key_cache, value_cache, key_scale, value_scale), fields)


def _sinks(c: Context, sinks: Tensor | None) -> Slot | None:
    return None if sinks is None else c.tensor(slot_as(c, sinks, schema.DType.F32))


def _with_caches(
    c: Context, op: str, qkv: tuple[Tensor, ...], caches: tuple[Tensor | None, ...], fields: dict[str, Any]
) -> list[Tensor | None]:
    """Emits the op. Returns its result, then the new values of the caches and their scales."""
    q, _, v = qkv
    fields |= {name: slot_as(c, t, q.dtype) for name, t in zip("qkv", qkv, strict=True)}
    written: list[Slot | None] = []
    for name, t in zip(("key_cache", "value_cache", "key_scale", "value_scale"), caches, strict=True):
        slot = None if t is None else c.tensor(t)
        written.append(slot and c.builder.temp(slot.dtype, slot.shape))
        fields |= {name: slot, f"{name}_out": written[-1]}
    return [c.emit(op, shape=(*q.shape[:3], v.shape[3]), dtype=q.dtype, **fields), *written]
