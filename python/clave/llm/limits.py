"""Limits the length of a text, and fixes the parts of a model that depend on the length of a call or of the text.

A program runs a text in pieces of any length, and rows stay in the cache as they were written. So the choices that
transformers makes in each call must be the same in all calls. This module fixes them, or refuses the model.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from clave.errors import Code, Error

_KEPT = ("keep_window_size", "index_topk", "index_topk_blocks")  # number of keys that a layer selects by score
_SMALL = 5  # tokens; replaces a window or chunk that the tokens of a comparison would not cross
_CROSSED = re.compile(r"window|chunk|local_attention")


class TooLong(Error):
    """max_context is more than the model's `most` tokens."""

    def __init__(self, kind: str, reason: str, most: int, max_context: int, otherwise: str = "") -> None:
        expected = f"expected max_context (--max-context) at most {most}{otherwise}, got {max_context}"
        super().__init__(f"use_kv_cache: {kind} {reason}; {expected}", Code.UNSUPPORTED)
        self.most = most


def fix_rope(model: Any, max_context: int, long_factors: bool) -> None:
    """Sets the frequencies of RoPE that hold for every text of up to max_context tokens.

    Raises TooLong if they would change with the length of the text, because the keys in the cache are rotated by the
    frequencies of a shorter text, or if a layer selects among more keys than it keeps. long_factors: longrope uses its
    factors for long texts at any length.
    """
    kind = _text_config(model).model_type
    for config in _configs(model):
        for name in _KEPT:
            most = getattr(config, name, None)
            if isinstance(most, int) and max_context > most:
                reason = f"attends to the {most} keys that it scores highest ({name}), and ties have no order"
                raise TooLong(kind, reason, most, max_context)
    ropes = [(m, key, name) for m in model.modules() for key, name in _rope_types(m)]
    for module, key, name in ropes:
        if "dynamic" in name or name == "longrope":
            _fix_rope_of(module, key, name, kind, max_context, long_factors)


class _FixedType(str):
    """A type of RoPE that transformers does not update. was: the module's own type."""

    own_type: str

    def __new__(cls, own_type: str) -> _FixedType:
        made = super().__new__(cls, "settled")
        made.own_type = own_type
        return made


def _rope_types(module: torch.nn.Module) -> list[tuple[str | None, str]]:
    """Returns (kind of layer, type of RoPE) of a module. The kind is None if all layers have one type."""
    kind = getattr(module, "rope_type", None)
    named = kind.items() if isinstance(kind, dict) else [(None, kind)]
    return [(k, v.own_type if isinstance(v, _FixedType) else v) for k, v in named if isinstance(v, str)]


def _fix_rope_of(module: Any, key: str | None, name: str, kind: str, max_context: int, long_factors: bool) -> None:
    prefix = "" if key is None else f"{key}_"
    most = _original(module, key) if name == "longrope" else int(module.original_max_seq_len)
    frequencies = getattr(module, f"{prefix}original_inv_freq").clone()
    if max_context > most:
        reason = f"has rope of type {name}: beyond {most} tokens its frequencies depend on the length of the text"
        if name != "longrope":
            raise TooLong(kind, reason, most, max_context)
        if not long_factors:
            raise TooLong(kind, reason, most, max_context, ", or long_factors (--long-factors)")
        frequencies = _long_frequencies(module, key, most)
    setattr(module, f"{prefix}inv_freq", torch.nn.Buffer(frequencies, persistent=False))
    if key is None and "short_mscale" in (parameters := module.config.rope_parameters):
        _fix_magnitude(module, frequencies, parameters["long_mscale" if max_context > most else "short_mscale"])
    module.rope_type = _FixedType(name) if key is None else module.rope_type | {key: _FixedType(name)}


def _fix_magnitude(module: Any, frequencies: torch.Tensor, magnitude: float) -> None:
    """Fixes frequencies and magnitude of PhiMoE, whose module computes them in each call from the length."""
    module.config = copy.copy(module.config)
    module.config.rope_parameters = module.config.rope_parameters | {"rope_type": "default"}
    module.rope_init_fn = lambda config, *_, **__: (frequencies, magnitude)


def _original(module: Any, key: str | None) -> int:
    """Returns the length beyond which longrope has other factors."""
    parameters = module.config.rope_parameters
    return int((parameters if key is None else parameters[key])["original_max_position_embeddings"])


def _long_frequencies(module: Any, key: str | None, most: int) -> torch.Tensor:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    found: torch.Tensor = ROPE_INIT_FUNCTIONS["longrope"](module.config, None, seq_len=most + 1, layer_type=key)[0]
    return found


# ---------------------------------------------------------------- tables of positions


def check_last(run: Callable[[int], Any], kind: str, known: int, max_context: int) -> None:
    """Raises TooLong if the model has no position max_context - 1, for example because of a table of positions.

    run: runs a token at a position. known: a number of tokens that has run before.
    """
    if _runs(run, max_context - 1):
        return
    least, most = min(known, max_context - 1), max_context  # numbers of tokens: one that runs, one that does not
    while most - least > 1:
        middle = (least + most) // 2
        if _runs(run, middle - 1):
            least = middle
        else:
            most = middle
    raise TooLong(kind, f"has positions for {least} tokens", least, max_context)


def _runs(run: Callable[[int], Any], position: int) -> bool:
    try:
        with torch.no_grad():
            run(position)
    except Exception:  # the model's own, of any kind
        return False
    return True


# ---------------------------------------------------------------- windows and chunks of a comparison


@contextmanager
def small_windows(model: Any, length: int) -> Iterator[bool]:
    """Within the block, makes windows and chunks of `length` tokens or more so small that a text of that length crosses
    them, in configurations and in modules with copies. Yields True if there are any."""
    changed: list[tuple[Any, str, int]] = []
    for name, value in _windows(model, length):
        for holder in (*_configs(model), *model.modules()):
            if vars(holder).get(name) == value:
                changed.append((holder, name, value))
                setattr(holder, name, _SMALL)
    try:
        yield bool(changed)
    finally:
        for holder, name, value in changed:
            setattr(holder, name, value)


def _windows(model: Any, length: int) -> set[tuple[str, int]]:
    """Returns (name, value) of the windows and chunks in configurations. `fix_rope` handles those of _KEPT."""
    numbers = ((n, v) for config in _configs(model) for n, v in vars(config).items() if type(v) is int and v >= length)
    return {(n, v) for n, v in numbers if _CROSSED.search(n) and n not in _KEPT and "layer" not in n}


def _configs(model: Any) -> list[Any]:
    """Returns the configurations of a model: its own, its text's, and the copies in modules."""
    found = {id(c): c for m in model.modules() if (c := getattr(m, "config", None)) is not None}
    return list(found.values())


def _text_config(model: Any) -> Any:
    return model.config.get_text_config()
