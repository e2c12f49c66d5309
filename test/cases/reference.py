"""The reference results of op cases: each torch op in f64, with results rounded once to the dtypes that it returns.

These results define the op, without the errors of torch's own kernels. Later ops read the rounded numbers, as in torch.
An op that depends on its dtype's own numbers returns torch's result.
"""

import contextlib
import copy

import torch
import torch.nn.functional as fn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from clave.ops import sdpa_with_kv_cache, sdpa_with_pages

WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}
# Ops that depend on the dtype itself: its next number, its largest; a conversion rounds once.
OF_DTYPE = {"nextafter", "nan_to_num", "_to_copy", "copy_", "clone", "empty", "empty_like", "empty_strided"}
# Functions that are one op in clave and several aten ops in torch.
WHOLE = {fn.scaled_dot_product_attention, torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu}


def widen(x):
    """Returns a dtype or tensor as f64 (a tensor is copied), and anything else unchanged."""
    if isinstance(x, torch.dtype):
        return WIDE.get(x, x)
    if isinstance(x, torch.Tensor):
        return x.to(WIDE[x.dtype], copy=True) if x.dtype in WIDE else x.clone()
    return x


def is_narrow(x):
    return isinstance(x, torch.Tensor) and x.dtype in WIDE


@contextlib.contextmanager
def f64_by_default():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def compute_wide(func, args, kwargs):
    """Returns the leaves of func's result in f64, and its arguments after the call."""
    args, kwargs = tree_map(widen, (args, kwargs))
    if func in (torch.ops.aten._softmax.default, torch.ops.aten._log_softmax.default):
        args = (*args[:2], False)  # half_to_float means f16 to f32
    try:
        with f64_by_default():
            results = func(*args, **kwargs)
    except (RuntimeError, NotImplementedError) as error:
        raise NotImplementedError(f"{func} in f64: {error}") from error
    return [*tree_leaves(results), *tree_leaves((args, kwargs))]


def rounded(func, args, kwargs, writes):
    """Returns func's own results with the f64 values; also updates its arguments, if it writes to them."""
    before = tree_map(widen, (args, kwargs)) if writes else (args, kwargs)
    results = func(*args, **kwargs)
    own = tree_leaves(results)
    if not any(map(is_narrow, own)) and not writes:
        return results
    wide = compute_wide(func, *before)
    for x, w in zip([*own, *tree_leaves((args, kwargs))], wide, strict=True):
        if is_narrow(x) and (writes or any(x is o for o in own)):
            x.copy_(w)
    return results


class EachOp(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for own in (sdpa_with_kv_cache, sdpa_with_pages):
            if func is own._opoverload:
                with self:
                    return own._init_fn(*args, **kwargs)
        views = any(r.alias_info and not r.alias_info.is_write for r in func._schema.returns)
        random = torch.Tag.nondeterministic_seeded in func.tags
        if views or random or func._schema.name.split("::")[1] in OF_DTYPE:
            return func(*args, **kwargs)
        return rounded(func, args, kwargs, func._schema.is_mutable)


class WholeOps(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in WHOLE:
            with torch.utils._python_dispatch._disable_current_modes():
                return rounded(func, args, kwargs, False)
        return func(*args, **kwargs)


def evaluate(module, args):
    with WholeOps(), EachOp():
        return module(*args)


def evaluate_whole(module, args):
    """Computes the module in f64 from end to end."""
    with f64_by_default():
        return copy.deepcopy(module).double()(*map(widen, args))


# Limit of the distance of torch's own results from those in f64, in parts of their root mean square.
NEAR = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 2**-6, torch.bfloat16: 2**-3}


def difference(own, precise):
    """Describes a difference between torch's result and the precise one beyond rounding, or returns ""."""
    if own.dtype != precise.dtype or own.shape != precise.shape:
        return f"{precise.dtype} {tuple(precise.shape)}, not {own.dtype} {tuple(own.shape)}"
    if own.dtype.is_floating_point and own.itemsize == 1:  # only the target of casts: torch's own results
        own, precise = own.reshape(-1).view(torch.uint8), precise.reshape(-1).view(torch.uint8)
    if not own.dtype.is_floating_point:
        return "" if torch.equal(own, precise) else "other integers"
    finite = own.isfinite()
    if not torch.equal(own.where(~finite, 0).nan_to_num(7), precise.where(~precise.isfinite(), 0).nan_to_num(7)):
        return "other infinities or NaN"
    a, b = own[finite].double(), precise[finite].double()
    size = b.square().mean().sqrt() if b.numel() else 1
    far = ((a - b).abs() / size.clamp(min=1e-300)).max().item() if b.numel() else 0
    return f"{far:.3g} of the results' root mean square away" if far > NEAR[own.dtype] else ""
