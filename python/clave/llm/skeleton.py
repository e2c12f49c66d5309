"""Builds a model of transformers without its weights: parameters on the meta device, buffers as modules compute them.

`fill` sets weights that use almost no memory: strided views of short random vectors. They suffice to find out how the
model can use a cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from clave.errors import Code, Error
from clave.llm.folder import Folder
from clave.llm.layers import reason_of
from clave.llm.multimodal import check_decoder, has_more_than_text, text_model, without_weights
from clave.private import check_version, class_in, export_lock, model_of_class

# The model types that the tests export; transformers has about two hundred.
TESTED = (
    "bamba bloom cohere2 exaone4 falcon falcon_h1 falcon_mamba gemma2 gemma3_text gpt2 gpt_neox gpt_oss granite "
    "granitemoehybrid jamba lfm2 llama mamba mamba2 ministral mistral mixtral nemotron_h olmo2 opt phi3 qwen2 "
    "qwen2_moe qwen3 qwen3_moe rwkv smollm3 stablelm"
).split()


_SHIFT = 16  # elements between the matrices of a stack, which keeps them aligned for kernels


def build(folder: Folder, dtype: torch.dtype | None) -> tuple[Any, Any]:
    """Returns the text model of the folder's config.json, and the whole model, which may be larger.

    dtype: None for the config's own. Raises Error if transformers does not have the model or it is not a decoder.
    """
    check_version("transformers", transformers.__version__)
    kind = folder.config.get("model_type")
    if not isinstance(kind, str) or kind not in transformers.CONFIG_MAPPING:
        raise _unknown(folder, kind)
    if folder.quantised_by not in (None, "mxfp4"):
        how = f"expected plain weights, or experts in mxfp4, got weights quantised by {folder.quantised_by!r}"
        raise folder.error(how, Code.UNSUPPORTED)
    try:
        with silent(), export_lock:
            return _build(folder, kind, dtype)
    except Error as e:
        raise e if str(folder.path) in str(e) else folder.error(str(e), e.code) from e
    except Exception as e:
        raise folder.error(f"transformers cannot build a model of config.json: {reason_of(e)}", Code.UNSUPPORTED) from e


def _build(folder: Folder, kind: str, dtype: torch.dtype | None) -> tuple[Any, Any]:
    config = transformers.AutoConfig.from_pretrained(folder.path, local_files_only=True)
    check_decoder(config)
    if folder.quantised_by:
        del config.quantization_config
    dtype = dtype or _dtype_of(config)
    if has_more_than_text(config):
        with without_weights():
            whole = model_of_class(_class_of(folder, config), config, dtype).eval()
        return text_model(whole), whole
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise _unknown(folder, kind)
    with without_weights():
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    return model, model


def _class_of(folder: Folder, config: Any) -> Any:
    """Returns the class of a model that accepts more than text."""
    for name in config.architectures or ():
        found = getattr(transformers, name, None) if isinstance(name, str) else None
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    for auto in (transformers.AutoModelForImageTextToText, transformers.AutoModelForMultimodalLM):
        found = class_in(auto, config)
        if found is not None:
            return found
    raise _unknown(folder, config.model_type)


def _unknown(folder: Folder, kind: Any) -> Error:
    known = ", ".join(TESTED)
    return folder.error(f"architecture: expected one of {known}, ..., got {kind!r}", Code.UNSUPPORTED)


def _dtype_of(config: Any) -> torch.dtype:
    return config.dtype if isinstance(config.dtype, torch.dtype) else torch.float32


@contextmanager
def silent() -> Iterator[None]:
    """Within the block, hides transformers' messages except errors."""
    logging = transformers.utils.logging
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def put_all(model: torch.nn.Module, data: dict[str, torch.Tensor]) -> None:
    """Sets parameters by the first of their names. Shared parameters stay shared."""
    made = {id(p): torch.nn.Parameter(data[n], requires_grad=False) for n, p in model.named_parameters() if n in data}
    for module in model.modules():
        for key, p in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            if id(p) in made:
                setattr(module, key, made[id(p)])


class _Numbers:
    """Random numbers of about the magnitude of trained parameters, in little memory. Matrices are Hankel matrices,
    which are views of one vector. Stacks of matrices are shifted views of shared buffers."""

    def __init__(self, longest: int) -> None:
        self._random = torch.Generator().manual_seed(1)
        self._shared = self._new(longest)
        self._scaled: dict[tuple[torch.dtype, float], torch.Tensor] = {}

    def _new(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self._random)

    def like(self, name: str, p: torch.Tensor) -> torch.Tensor:
        if p.dim() < 2:
            numbers = self._new(*p.shape) * 0.1
            return (numbers + 1 if name.endswith("weight") else numbers).to(p.dtype)
        small = 1 / math.sqrt(p.shape[-1])
        if p.dim() == 2:
            return (self._new(sum(p.shape) - 1) * small).to(p.dtype).as_strided(p.shape, (1, 1))
        key = (p.dtype, small)
        if key not in self._scaled:
            self._scaled[key] = (self._shared * small).to(p.dtype)
        strides = (*(_SHIFT,) * (p.dim() - 2), p.shape[-1], 1)
        return self._scaled[key].as_strided(p.shape, strides)


def fill(model: torch.nn.Module) -> None:
    """Sets each parameter to random numbers."""
    longest = [p.shape[-2] * p.shape[-1] + _SHIFT * sum(p.shape[:-2]) for p in model.parameters() if p.dim() > 2]
    numbers = _Numbers(max(longest, default=0))
    put_all(model, {n: numbers.like(n, p) for n, p in model.named_parameters()})
