"""Finds the text model of a model that also accepts images or sounds, and refuses encoder-decoders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from clave.errors import Code, Error
from clave.llm.layers import unsupported

# Model types whose prompts see later tokens of the prompt, which a text model that runs token by token cannot do.
_SEES_AHEAD = ("paligemma",)
_FACTORS = ("logit_scale", "logits_scaling")  # attributes of text models


def check_decoder(config: Any) -> None:
    """Raises Error for an encoder-decoder, with its name and a hint."""
    if getattr(config, "is_encoder_decoder", False) or getattr(config.get_text_config(), "is_encoder_decoder", False):
        name = (getattr(config, "architectures", None) or [config.model_type])[0]
        hint = "clave.export accepts an encoder and a decoder as two methods"
        raise Error(f"{name}: expected a decoder alone, got an encoder-decoder; {hint}", Code.UNSUPPORTED)


def has_more_than_text(config: Any) -> bool:
    return config.get_text_config() is not config


def text_model(whole: Any) -> Any:
    """Returns a causal model of transformers that shares the text modules of `whole`.

    Raises Error, with the model's name, if transformers has no causal model of that kind, or if `whole` computes text
    differently.
    """
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    name, config = type(whole).__name__, whole.config.get_text_config()
    if config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise unsupported(
            f"{name}: transformers has no causal language model for its text part ({config.model_type!r})"
        )
    if whole.config.model_type in _SEES_AHEAD:
        raise unsupported(f"{name}: tokens of a prompt see later ones, so it cannot be written in pieces")
    with without_weights():
        made = AutoModelForCausalLM.from_config(config)
    for module in whole.modules():
        if type(module) is type(made):
            return module.eval()
    decoder = next((m for m in whole.modules() if type(m) is type(made.base_model)), None)
    head = whole.get_output_embeddings()
    if decoder is None or head is None:
        raise unsupported(f"{name}: has no {type(made.base_model).__name__} with a head for tokens")
    setattr(made, made.base_model_prefix, decoder)
    made.set_output_embeddings(head)
    made.config = decoder.config
    own = {id(p) for p in whole.parameters()}
    if left := [n for n, p in made.named_parameters() if id(p) not in own]:
        raise unsupported(f"{name}: has no weights for {left[0]!r} of {type(made).__name__}")
    return made.eval()


def match(whole: Any, text: Any, tokens: torch.Tensor) -> None:
    """Adapts the text model so that its logits are those of `whole` for text alone, if `whole` runs with text alone.
    Raises Error if this is not possible.

    Some models that accept images leave out a factor by which their text model multiplies logits.
    """
    try:
        with torch.no_grad():
            want = whole(input_ids=tokens, use_cache=False).logits.double()
    except Exception:  # whatever the model raises, it does not accept text alone
        return
    if _is_near(text, tokens, want):
        return
    for name in _FACTORS:
        if isinstance(getattr(text, name, None), int | float):
            setattr(text, name, 1.0)
    if not _is_near(text, tokens, want):
        raise unsupported(f"{type(whole).__name__} computes text differently from {type(text).__name__}")


def _is_near(text: Any, tokens: torch.Tensor, want: torch.Tensor) -> bool:
    with torch.no_grad():
        got = text(input_ids=tokens, use_cache=False).logits.double()
    return bool((got - want).abs().max() <= 1e-2 * want.abs().max())


@contextmanager
def without_weights() -> Iterator[None]:
    """Within the block, puts each parameter that a module registers on the meta device."""
    own = torch.nn.Module.register_parameter

    def register(module: torch.nn.Module, name: str, param: torch.nn.Parameter | None) -> None:
        if param is not None and param.device.type != "meta":
            param = torch.nn.Parameter(torch.empty_like(param, device="meta"), requires_grad=False)
        own(module, name, param)

    torch.nn.Module.register_parameter = register  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = own  # type: ignore[method-assign]
