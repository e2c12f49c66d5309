"""`ClaveQuantizer` selects the tensors of a model that pt2e (torchao) rounds to 8 bits, so that `clave.export` makes
integer convolutions and products of it. Needs the package torchao."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from clave import arguments

try:
    from torchao.quantization.pt2e.observer import HistogramObserver, PerChannelMinMaxObserver
    from torchao.quantization.pt2e.quantizer import (
        QuantizationAnnotation,
        QuantizationSpec,
        Quantizer,
        SharedQuantizationSpec,
    )
except ImportError as e:
    raise ImportError("clave.quantizer needs the package torchao: pip install torchao") from e

_ACTIVATION = QuantizationSpec(
    dtype=torch.uint8,
    quant_min=0,
    quant_max=255,
    qscheme=torch.per_tensor_affine,
    observer_or_fake_quant_ctr=HistogramObserver,
)
_WEIGHT = QuantizationSpec(
    dtype=torch.int8,
    quant_min=-127,
    quant_max=127,
    qscheme=torch.per_channel_symmetric,
    ch_axis=0,
    observer_or_fake_quant_ctr=PerChannelMinMaxObserver,
)

aten = torch.ops.aten
_WEIGHTED = {aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, aten.linear.default}
_SUMS = {aten.add.Tensor, aten.add_.Tensor}
_CLAMPS = {aten.relu.default, aten.relu_.default, aten.relu6.default, aten.relu6_.default}
_CLAMPS |= {aten.hardtanh.default, aten.hardtanh_.default, aten.clamp.default}
_NORMS = {aten.batch_norm.default}  # pt2e folds them into the convolution before them
_AVERAGES = {aten.adaptive_avg_pool2d.default, aten.avg_pool2d.default, aten.mean.dim}
# Ops that select among their input's elements, so their result has the input's codes.
_CHOICES = {
    *(aten.max_pool1d.default, aten.max_pool2d.default, aten.max_pool3d.default, aten.flatten.using_ints),
    *(aten.view.default, aten.reshape.default, aten.permute.default, aten.transpose.int, aten.slice.Tensor),
    *(aten.pad.default, aten.constant_pad_nd.default, aten.unsqueeze.default, aten.squeeze.dim, aten.dropout.default),
}


class ClaveQuantizer(Quantizer):
    """Annotates activations for 8 bits with one scale and zero point per tensor, from a histogram of the calibration
    data, and weights of convolutions and linear layers for 8 bits with a scale per output channel. Biases are kept.

    Sums with a residual, averages and clamps read and write 8 bits. Pooling, reshapes, slices and padding with zeros
    keep the codes. Everything else stays in its own dtype.

    activations: "all"; "inputs": only those that convolutions and linear layers read, for language models, whose
    residuals and keys do not tolerate rounding; "none": only weights are rounded, including those of embeddings. skip:
    names of modules (as in `named_modules()`) that are left unchanged, with all their submodules.

        prepared = prepare_pt2e(torch.export.export(model, (x,)).module(), ClaveQuantizer())
        for batch in calibration:
            prepared(batch)
        program = clave.export(convert_pt2e(prepared), (x,))
    """

    def __init__(self, skip: Iterable[str] = (), activations: str = "all") -> None:
        arguments.choice("activations", activations, _ANNOTATE)
        self.skip = frozenset(arguments.names("skip", skip, "a list of names of modules"))
        self.activations = activations

    def annotate(self, model: GraphModule) -> GraphModule:
        for node in model.graph.nodes:
            if node.op == "call_function" and not self._is_left(node):
                _ANNOTATE[self.activations](node)
        return model

    def validate(self, model: GraphModule) -> None:
        """Accepts every annotation."""

    def _is_left(self, node: Node) -> bool:
        modules = (path for path, _ in node.meta.get("nn_module_stack", {}).values())
        return any(path.removeprefix("L['self'].") in self.skip for path in modules)


def _annotate(node: Node) -> None:
    if node.target in _WEIGHTED:
        _write(node, {node.args[0]: _ACTIVATION, node.args[1]: _WEIGHT}, _is_last(node))
    elif node.target in _SUMS and all(isinstance(x, Node) and _is_f32(x) for x in node.args[:2]):
        _write(node, {x: _ACTIVATION for x in node.args[:2] if not _is_fused(x)}, _is_last(node))
    elif node.target in _AVERAGES:
        _write(node, {node.args[0]: _ACTIVATION}, True)
    elif node.target in _CLAMPS | _NORMS and _is_fused(node.args[0]):
        _write(node, {}, _is_last(node))
    elif node.target in _CHOICES and _has_codes(node.args[0]) and _pads_zeros(node):
        shared = SharedQuantizationSpec(node.args[0])
        annotation = QuantizationAnnotation({node.args[0]: shared}, shared, _annotated=True)
        node.meta["quantization_annotation"] = annotation


def _annotate_inputs(node: Node) -> None:
    if node.target in _WEIGHTED:
        _write(node, {node.args[0]: _ACTIVATION, node.args[1]: _WEIGHT}, False)


def _annotate_weights(node: Node) -> None:
    if node.target in _WEIGHTED or node.target is aten.embedding.default:
        _write(node, {node.args[0 if node.target is aten.embedding.default else 1]: _WEIGHT}, False)


_ANNOTATE = {"all": _annotate, "inputs": _annotate_inputs, "none": _annotate_weights}


def _write(node: Node, inputs: dict[Any, QuantizationSpec], rounds: bool) -> None:
    """Annotates a node. rounds: its result is rounded to codes."""
    output = _ACTIVATION if rounds else None
    node.meta["quantization_annotation"] = QuantizationAnnotation(inputs, output, _annotated=True)


def _is_f32(x: Node) -> bool:
    val = x.meta.get("val")
    return isinstance(val, torch.Tensor) and val.dtype is torch.float32


def _is_fused(x: Any) -> bool:
    """True if x is annotated and its result is not rounded."""
    annotation = x.meta.get("quantization_annotation") if isinstance(x, Node) else None
    return annotation is not None and annotation.output_qspec is None


def _has_codes(x: Any) -> bool:
    annotation = x.meta.get("quantization_annotation") if isinstance(x, Node) else None
    return annotation is not None and annotation.output_qspec is not None


def _is_last(node: Node) -> bool:
    """True if no sum, clamp or norm reads the result before it is rounded."""
    if len(node.users) != 1:
        return True
    (user,) = node.users
    if user.target in _NORMS:
        return False
    return user.target not in _CLAMPS and not (user.target in _SUMS and node.target not in _SUMS)


def _pads_zeros(node: Node) -> bool:
    if node.target is aten.pad.default:
        return node.args[2:3] in ((), ("constant",)) and not any(node.args[3:4])
    return node.target is not aten.constant_pad_nd.default or not any(node.args[2:3])
