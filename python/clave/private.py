"""Holds every private part of torch and transformers that this package imports, patches or parses; no other file names
one.

The names match the torch version in ci/requirements.txt. test/python/test_private.py lists names that have moved.
"""

from __future__ import annotations

import builtins
import functools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sympy
import torch

from clave.errors import Code, Error

OLDEST = {"torch": (2, 13), "transformers": (5, 23)}  # older ones are not tested


def check_version(package: str, version: str) -> None:
    """Raises Error if this version of torch or transformers is older than the oldest that is tested."""
    oldest = OLDEST[package]
    if tuple(int(n) for n in re.findall(r"\d+", version)[:2]) < oldest:
        raise Error(f"{package}: expected version {oldest[0]}.{oldest[1]} or later, got {version}", Code.UNSUPPORTED)


check_version("torch", torch.__version__)
try:
    import torch.export._trace as torch_trace
    from torch._C import DispatchKey
    from torch._C._functorch import (
        get_dynamic_layer_stack_depth,
        is_functorch_wrapped_tensor,
        pop_dynamic_layer_stack_and_undo_to_depth,
    )
    from torch._decomp import decomposition_table
    from torch._higher_order_ops.flex_attention import FlexAttentionHOP
    from torch._library.custom_ops import OPDEFS
    from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
    from torch._subclasses.fake_impls import op_implementations_dict
    from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode
    from torch.autograd import forward_ad
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv as over_all_scores
    from torch.utils import _pytree as pytree
    from torch.utils._sympy import functions as sympy_functions
    from torch.utils._sympy.printers import PythonPrinter
    from torch.utils._sympy.value_ranges import ValueRanges
except ImportError as e:
    raise Error(f"torch {torch.__version__} has moved a part that clave.export uses: {e.msg}", Code.UNSUPPORTED) from e

__all__ = [
    "OLDEST",
    "SYMBOL",
    "DataDependentOutputException",
    "FakeTensorMode",
    "HigherOrderOperator",
    "OpOverload",
    "OpOverloadPacket",
    "ValueRanges",
    "as_python",
    "attention_of",
    "buffers_of",
    "check_version",
    "class_in",
    "conditions_of",
    "eager_function",
    "export_lock",
    "export_patches",
    "function_of",
    "is_bitwise",
    "is_fake",
    "is_sqrt",
    "meaning_of",
    "model_of_class",
    "module_path",
    "of_edge_op",
    "op_of",
    "over_all_scores",
    "overload_name",
    "promoted",
    "pytree",
    "recurrent_networks",
    "replaced_functions",
    "schema_of",
    "silent_prints",
    "sympy_functions",
    "version_of",
]

# ---------------------------------------------------------------- read


def schema_of(op: OpOverload) -> Any:
    """Returns the schema of an op: its arguments and results, and for each the argument that it aliases or changes."""
    return op._schema


def of_edge_op(op: Any) -> OpOverload:
    """Returns the torch op of an op in ExecuTorch's edge dialect."""
    return op._op


def overload_name(op: OpOverload) -> str:
    return str(op._overloadname)


def op_of(function: Any) -> Any:
    """Returns the op of a function that torch.library.custom_op decorates. Anything else is returned unchanged."""
    return getattr(function, "_opoverload", function)


def function_of(op: OpOverload) -> Callable[..., Any] | None:
    """Returns the function from which torch.library.custom_op made the op, or None if the op was registered
    differently."""
    made = OPDEFS.get(schema_of(op).name)
    return None if made is None else made._init_fn


def eager_function(op: OpOverload) -> Callable[..., Any] | None:
    """Returns the op's eager-mode function if it consists of other ops and runs on every device, otherwise None."""
    keys = (DispatchKey.CompositeExplicitAutograd, DispatchKey.CompositeImplicitAutograd)
    key = next((k for k in keys if op.has_kernel_for_dispatch_key(k)), None)
    return None if key is None else functools.partial(op._op_dk, key)


def version_of(data: torch.Tensor) -> int:
    """Returns how often torch changed a tensor in place, 0 for a tensor of inference mode, which is not counted."""
    return 0 if data.is_inference() else data._version


def is_fake(data: torch.Tensor) -> bool:
    """True for a tensor that torch traces with, which has a shape and no elements: a fake tensor, or a wrapper in a
    transform of torch.func."""
    return isinstance(data, FakeTensor) or is_functorch_wrapped_tensor(data)


def buffers_of(module: torch.nn.Module) -> dict[str, Any]:
    return module._buffers


def conditions_of(program: Any) -> list[Any]:
    """Returns the conditions on sizes of inputs that torch assumed when it captured the program, such as the branch of
    an `if`, as sympy conditions. Returns [] for a program that was read from a file.

    Equations and inequations that torch's own code assumed are left out, because they depend only on the layout of
    memory; equations of a remainder are kept.
    """
    values = (n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder")
    sizes = (n for v in values if isinstance(v, torch.Tensor) for n in v.shape if isinstance(n, torch.SymInt))
    size = next(sizes, None)
    env = None if size is None else size.node.shape_env
    guards = [] if env is None else env.guards
    return [env.simplify(g.expr) for g in guards if not (_is_of_equality(g.expr) and _is_torchs(g.sloc))]


def _is_of_equality(e: Any) -> bool:
    return isinstance(e, sympy.Ne) or (isinstance(e, sympy.Eq) and not e.has(sympy_functions.Mod))


def _is_torchs(place: Any) -> bool:
    file = getattr(place.framework_loc, "filename", "")
    return Path(file).is_relative_to(Path(torch.__file__).parent)


def as_python(e: Any) -> str:
    """Returns a sympy expression in Python's syntax."""
    return str(PythonPrinter().doprint(e))


def ignored_on_load(model: Any) -> tuple[str, ...]:
    """Returns patterns of tensors that the files of a transformers model may have but the model does not read."""
    return tuple(model._keys_to_ignore_on_load_unexpected or ())


def attention_of(config: Any) -> str:
    """Returns the attention implementation that a model of transformers uses."""
    return str(config._attn_implementation)


def class_in(auto: Any, config: Any) -> Any:
    """Returns the model class that one of transformers' auto classes has for a configuration, or None."""
    return auto._model_mapping.get(type(config), None)


def model_of_class(kind: Any, config: Any, dtype: torch.dtype) -> Any:
    """Makes a model of one of transformers' classes, in a dtype."""
    return kind._from_config(config, dtype=dtype)


def promoted(operands: list[Any]) -> torch.dtype:
    """Returns the dtype in which torch computes an elementwise op of these operands."""
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.NO_OPMATH
    return elementwise_dtypes(*operands, type_promotion_kind=kind)[1]  # type: ignore[no-any-return]


# ---------------------------------------------------------------- parsed

SYMBOL = re.compile(r"\b[su]\d+\b")  # sizes in torch's texts

# Messages of torch for models that it cannot capture, and their meaning for the model.
_MEANINGS = (
    (
        "Could not guard on data-dependent expression",
        "the model branches on a value that is known only at run time ({}): "
        "torch.where or torch.cond keep both branches",
    ),
    (
        "Could not extract specialized integer from data-dependent expression",
        "the model makes a Python number of a tensor that is known only at run time ({}): keep it a tensor",
    ),
    (
        "We found a fake tensor in the exported program constant's list",
        "the model has a transform of torch.func or a backward pass, whose values torch does not trace here: "
        "strict=True traces some of them",
    ),
    (
        "'Tensor' object has no attribute 'constant'",
        "the model has a transform of torch.func that torch.export cannot trace",
    ),
)


def meaning_of(e: Exception) -> str:
    """Returns torch's message, or its meaning, in one line."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    first = lines[0] if lines else ""
    for phrase, meaning in _MEANINGS:
        if phrase in first:
            return meaning.format(first.partition(phrase)[2].partition("(unhinted")[0].strip())
    if first.startswith("Constraints violated"):
        first = _violations(lines)
    elif "but export 0/1 specialized due to hint of" in str(e):
        first = f"{first} {_of_small_examples(re.findall(_HINTED, ' '.join(lines)))}"
    elif first.endswith(":") and len(lines) > 1:
        first = f"{first} {lines[1]}"
    return f"{type(e).__name__}: {first}" if first else type(e).__name__


_FIXED = re.compile(r"You marked (.+?) as dynamic but your code specialized it to be a constant \((\d+)\)")
_HINTED = re.compile(r"specialized due to hint of ()(\d) for dimension ([^ ]+\])")


def _violations(lines: list[str]) -> str:
    """Returns how the model restricts sizes that are marked as dynamic, and torch's suggestions."""
    reasons = [line[2:].partition(". ")[0].removesuffix(".") for line in lines if line.startswith("- ")]
    small = [found for line in reasons if (found := _FIXED.match(line)) and _is_of_small_example(*found.groups())]
    reasons = [line for line in reasons if line not in {found[0] for found in small}]
    names = {found[1] for found in small}
    after = lines[lines.index("Suggested fixes:") + 1 :] if "Suggested fixes:" in lines else []
    fixes = [line for line in after if re.match(r"\w+ = ", line) and line.partition(" ")[0] not in names]
    size_reasons = [_of_small_examples([("", found[2], found[1]) for found in map(_of_dim, small)])] if small else []
    suggested = [f"torch suggests {', '.join(fixes)}"] if fixes else []
    return "; ".join([lines[0].partition("!")[0], *size_reasons, *reasons, *suggested])


def _is_of_small_example(name: str, size: str) -> bool:
    """True if torch fixed an open size because its example is 0 or 1, or because it is a multiple of a Dim whose
    example is 0 or 1."""
    factor = re.match(r"(\d+)\*\w+$", name)
    return int(size) in ((0, int(factor[1])) if factor else (0, 1) if name.isidentifier() else ())


def _of_dim(found: re.Match[str]) -> tuple[str, str, str]:
    """Returns the text, name and size of a fixed size. For a multiple of a Dim, these are the name and size of the
    Dim."""
    factor, _, name = found[1].rpartition("*")
    return found[0], name.strip(), str(int(found[2]) // int(factor or 1))


def _of_small_examples(found: list[Any]) -> str:
    """Returns a message. found: (_, size, name) of each open size that torch fixed at its example."""
    sizes = " and ".join(dict.fromkeys(size for _, size, _ in found)) or "1"
    names = ", ".join(dict.fromkeys(name for _, _, name in found))
    return f"expected an example of size 2 or more for the open size {names}, got {sizes}, which torch treats as fixed"


def module_path(node: torch.fx.Node) -> str:
    """Returns the path of the module from which a node comes, "" for the outermost."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = re.sub(r"@\d+", "", str(stack[-1][0])) if stack else ""
    return path.removeprefix("L['self']").lstrip(".")


def is_bitwise(e: Any) -> str:
    """Returns "and" or "or" for such an expression of two sizes, "" for another expression."""
    return {"BitwiseFn_bitwise_and": "and", "BitwiseFn_bitwise_or": "or"}.get(type(e).__name__, "")


def is_sqrt(e: Any) -> bool:
    return type(e).__name__ == "OpaqueUnaryFn_sqrt"


# ---------------------------------------------------------------- patched

# torch.export runs in one thread at a time, because its modes, and its tracers' patches of torch.nn.Module, affect the
# whole process. Code that captures, or runs a module for comparison, holds this lock.
export_lock = threading.RLock()


def recurrent_networks() -> list[OpOverload]:
    return [getattr(torch.ops.aten, name).input for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")]


def _network_shapes(x: Any, hx: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
    """Returns results of a recurrent network for their shapes. rest ends in train, bidirectional, batch_first."""
    states = hx if isinstance(hx, list | tuple) else [hx]
    out = x.new_empty((x.shape[0], x.shape[1], states[0].shape[2] * (2 if rest[-2] else 1)))
    return (out, *(torch.empty_like(s) for s in states))


def _ctc_shapes(_: Any, __: Any, log_probs: Any, targets: Any, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns empty losses and the tensor for their gradient, sized for the largest possible number of labels."""
    steps, n = log_probs.shape[:2]
    return log_probs.new_empty((n,)), log_probs.new_empty((n, steps, 2 * targets.shape[-1] + 1))


@contextmanager
def _any_number_of_steps() -> Iterator[None]:
    """Within the block, recurrent networks and CTC losses are traced for any length. torch finds the shapes of the
    former by running the loop, which fixes the length, and has no shape rule for the latter."""
    ops = recurrent_networks()
    losses = {torch.ops.aten._ctc_loss.default, torch.ops.aten._ctc_loss.Tensor}
    rules = {op: op_implementations_dict[op] for op in losses if op in op_implementations_dict}
    kept = [(dict(op.py_kernels), decomposition_table[op]) for op in ops]
    try:
        for op in ops:
            op.py_kernels.update(dict.fromkeys(op.py_kernels, _network_shapes))
            op._dispatch_cache.clear()
            decomposition_table[op] = _network_shapes
        op_implementations_dict.update(dict.fromkeys(losses, _ctc_shapes))
        yield
    finally:
        for op, (kernels, decomposition) in zip(ops, kept, strict=True):
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()
            decomposition_table[op] = decomposition
        op_implementations_dict.update(rules)
        for op in losses - rules.keys():
            op_implementations_dict.pop(op)


@contextmanager
def _transforms_ended() -> Iterator[None]:
    """Closes the transforms of torch.func, such as torch.vmap, that an exception in the block left open."""
    depth, level = get_dynamic_layer_stack_depth(), forward_ad._current_level
    try:
        yield
    finally:
        if get_dynamic_layer_stack_depth() > depth:
            pop_dynamic_layer_stack_and_undo_to_depth(depth)
        while forward_ad._current_level > level:
            forward_ad.exit_dual_level()
        with suppress(RuntimeError):  # Dynamo enters a level that forward_ad does not count
            torch._C._exit_dual_level(level=level + 1)


@contextmanager
def export_patches(flex_attention: Callable[..., Any] | None = None) -> Iterator[None]:
    """Within the block, recurrent networks have any length, and torch.nn.attention's flex_attention calls the function
    that is given, if any. Blocks nest; one thread at a time."""
    with export_lock, _transforms_ended(), _any_number_of_steps():
        own = FlexAttentionHOP.__call__
        try:
            if flex_attention is not None:
                FlexAttentionHOP.__call__ = lambda self, *args, **kwargs: flex_attention(*args, **kwargs)
            yield
        finally:
            FlexAttentionHOP.__call__ = own


@contextmanager
def replaced_functions(model: torch.nn.Module, functions: dict[str, Callable[..., Any]]) -> Iterator[None]:
    """Within the block, replaces functions by name in the files of a transformers model, whose layers call them. Skips
    classes whose file is not a registered module."""
    files = {f for m in model.modules() if (f := sys.modules.get(type(m).__module__))}
    with export_lock:
        kept = [(f, name, getattr(f, name)) for f in files for name in functions if hasattr(f, name)]
        try:
            for file, name, _ in kept:
                setattr(file, name, functions[name])
            yield
        finally:
            for file, name, own in kept:
                setattr(file, name, own)


def _print(*args: Any, file: Any = None, **kwargs: Any) -> None:
    """Replaces `print` of torch_trace, which writes graphs to stderr."""
    if file is not sys.stderr:
        builtins.print(*args, file=file, **kwargs)


def silent_prints(silent: bool) -> None:
    """Sets whether torch.export prints a graph that it could not finish: not if `silent`."""
    if silent:
        torch_trace.print = _print  # type: ignore[attr-defined]
    else:
        del torch_trace.print  # type: ignore[attr-defined]
