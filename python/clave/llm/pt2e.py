"""Applies pt2e of torchao to a model with its cache inside: observes the tensors that quantizers annotate, then rounds
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from clave.errors import Error
from clave.llm.layers import reason_of
from clave.llm.options import tokens_and_position
from clave.private import export_lock
from clave.quiet import quiet

try:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import ComposableQuantizer, Quantizer
except ImportError as e:
    raise Error("pt2e_quantize needs the package torchao: pip install torchao") from e

Ids = Sequence[int]


def check_quantizers(quantizers: Iterable[Any]) -> list[Quantizer]:
    found = list(quantizers)
    wrong = [type(q).__name__ for q in found if not isinstance(q, Quantizer)]
    if wrong or not found:
        given = ", ".join(wrong) or "none"
        raise Error(f"pt2e_quantize: expected torchao quantizers like clave.quantizer.ClaveQuantizer(), got {given}")
    return found


def quantise(model: torch.nn.Module, quantizers: list[Quantizer], calibration: list[Ids], max_context: int) -> Any:
    """Returns the model with rounded weights, and rounded activations if a quantizer annotates them. Its caches and
    states have their initial values.

    calibration: ids of texts, each from position 0, cut to max_context. Raises Error if the rounding of activations
    needs calibration and there is none.
    """
    example, shapes = tokens_and_position(max_context)
    with export_lock, quiet, torch.no_grad():
        first = {name: buffer.clone() for name, buffer in _kept(model)}
        graph = torch.export.export(model, example, dynamic_shapes=shapes).module()
        try:
            prepared = prepare_pt2e(graph, ComposableQuantizer(quantizers))
        except Exception as e:  # any exception of a quantizer
            raise Error(f"pt2e_quantize: {reason_of(e)}") from e
        observers = list(_observers(prepared))
        if not observers:
            raise Error("pt2e_quantize: the quantizers annotate nothing of this model")
        if not calibration and any(observers):
            raise Error("pt2e_quantize: the rounding of activations needs calibration: pass calibration=[texts]")
        for ids in calibration or example[0].tolist():
            prepared(torch.tensor([list(ids)[:max_context]]), torch.tensor(0))
            _restore(prepared, first)
        converted = convert_pt2e(prepared)
        _restore(converted, first)
    return converted


def _kept(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the buffers that the model keeps between calls, see clave.llm.layers.Kept."""
    return ((name, b) for name, b in model.named_buffers() if name.startswith(("caches.", "states.")))


def _restore(model: torch.nn.Module, first: dict[str, torch.Tensor]) -> None:
    for name, buffer in _kept(model):
        buffer.copy_(first[name])


def _observers(prepared: GraphModule) -> Iterator[bool]:
    """Yields True for each observer that must see activations before the model runs, False for others."""
    for node in prepared.graph.nodes:
        observer = prepared.get_submodule(node.target) if node.op == "call_module" else None
        if hasattr(observer, "calculate_qparams"):
            is_weight = all(isinstance(a, torch.fx.Node) and a.op == "get_attr" for a in node.args)
            yield not is_weight and not getattr(observer, "is_dynamic", False)
