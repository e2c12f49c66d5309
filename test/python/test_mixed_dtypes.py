"""Result dtypes of operands with different dtypes, against eager mode. Every op of torch with two tensors or more that
clave lowers or decomposes is called by its schema, so that a new lowering is tested automatically. It may refuse."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from _export import Fn

import clave
from clave.lowering import LOWERINGS
from clave.private import OpOverload, overload_name, schema_of
from clave.trace import _torchs_table

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
I8, U8, I32, I64, BOOL = torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool
PAIRS = [(BF16, F32), (F32, BF16), (F16, BF16), (I64, F16), (F16, I64), (I32, F32), (BOOL, I32), (U8, I8), (F64, F16)]
SHAPES = [((4,), (4,)), ((4,), ()), ((), (4,)), ((2, 3, 3), (3, 3))]
LEFT_OUT = "random|rand|normal|bernoulli|dropout|empty|nextafter|_assert|_backward|rrelu|multinomial|geometric"


def operator(name):
    space, name, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, space), name, None), overload, None)


def is_tensor(argument):
    return str(argument.type) in ("Tensor", "Optional[Tensor]")


def candidates():
    """Returns functional ops of aten with two required tensors or more, and no other argument without a default."""
    ops = {operator(n) for n in LOWERINGS if n.startswith("aten.")} | {
        o for o in _torchs_table() if isinstance(o, OpOverload)
    }
    found = []
    for op in ops - {None}:
        schema = schema_of(op)
        required = [a for a in schema.arguments if not a.has_default_value()]
        tensors = [a for a in required if str(a.type) == "Tensor"]
        views = any(r.alias_info is not None for r in schema.returns)
        if schema.is_mutable or views or len(tensors) < 2 or len(tensors) != len(required):
            continue
        if schema.name.startswith("aten::") and not any(w in schema.name for w in LEFT_OUT.split("|")):
            found.append(op)
    return sorted(found, key=str)


def functions():
    """Returns functions of two tensors by name. An op of three reads the first one again."""
    made = {}
    for op in candidates():
        n = sum(not a.has_default_value() for a in schema_of(op).arguments)
        name = f"{schema_of(op).name}.{overload_name(op)}"
        made[name] = lambda a, b, op=op, n=n: op(*([a, b, a, a, a][:n]))
    losses = [f for n, f in vars(F).items() if n.endswith(("_loss", "_entropy")) and not n.startswith("_")]
    for f in [f for f in losses if inspect.isfunction(f)] + [F.pairwise_distance, F.cosine_similarity]:
        made[f"functional.{f.__name__}"] = f
    made["functional.binary_cross_entropy weight"] = lambda a, b: F.binary_cross_entropy(
        a.sigmoid(), a.sigmoid(), weight=b.abs()
    )
    made["chain"] = lambda a, b: (F.huber_loss(a, b, reduction="none") * 2) + b
    for name in ("add", "sub", "mul", "div", "pow", "floor_divide", "remainder", "fmod", "maximum", "atan2", "where"):
        f = getattr(torch, name)
        made[f"{name} number"] = (lambda a, b, f=f: f(a > 0, a, 2.5)) if name == "where" else lambda a, b, f=f: f(a, 3)
    return made


def tensor(shape, dtype, seed):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 2
    if dtype == BOOL:
        return x > 0
    return (x.abs().round() % 3).to(dtype) if not dtype.is_floating_point else x.to(dtype)


def eager(f, args):
    try:
        result = f(*args)
    except Exception:
        return None
    return result if isinstance(result, torch.Tensor) and not result.is_complex() else None


def sessions(fs, args):
    """Returns (names, results) of as few exports as possible: refused ones are removed, alone or by halves."""
    if not fs:
        return {}
    names = list(fs)
    try:
        program = clave.export(Fn(lambda *args: tuple(fs[n](*args) for n in names)).eval(), args, verify=False)
        return dict(zip(names, clave.Session(program, "cpu")(*args), strict=True))
    except clave.Error:
        if len(names) == 1:
            return {}
    half = len(names) // 2
    return sessions({n: fs[n] for n in names[:half]}, args) | sessions({n: fs[n] for n in names[half:]}, args)


def complaints(fs, args):
    wanted = {n: w for n, f in fs.items() if (w := eager(f, args)) is not None}
    for name, got in sessions({n: fs[n] for n in wanted}, args).items():
        want = wanted[name]
        if got.dtype != want.dtype:
            yield f"{name}: expected {want.dtype}, got {got.dtype}"
        elif want.dtype.is_floating_point:
            eps = max(torch.finfo(t.dtype).eps for t in (*args, want) if t.is_floating_point())
            scale = want.double().abs().nan_to_num(0, 0, 0).max() if want.numel() else 1
            if not torch.allclose(
                got.double(), want.double(), rtol=16 * eps, atol=float(16 * eps * scale), equal_nan=True
            ):
                yield f"{name}: expected {want.tolist()}, got {got.tolist()}"
        elif not torch.equal(got, want):
            yield f"{name}: expected {want.tolist()}, got {got.tolist()}"


def test_there_are_many_ops():
    assert len(candidates()) > 100


@pytest.mark.by_turn(12)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: "-".join(str(t).removeprefix("torch.") for t in p))
@pytest.mark.parametrize("shapes", SHAPES, ids=lambda s: "x".join(str(len(d)) for d in s))
def test_dtypes_are_those_of_eager_mode(pair, shapes):
    args = tuple(tensor(s, t, i) for i, (s, t) in enumerate(zip(shapes, pair, strict=True)))
    assert not list(complaints(functions(), args))


@pytest.mark.by_turn(2)
@pytest.mark.parametrize("pair", PAIRS[:4], ids=lambda p: "-".join(str(t).removeprefix("torch.") for t in p))
def test_losses_have_the_dtype_of_eager_mode(pair):
    fs = {n: f for n, f in functions().items() if "functional" in n or n in ("chain", "aten::ldexp.Tensor")}
    args = tuple(tensor((4,), t, i) for i, t in enumerate(pair))
    assert not list(complaints(fs, args))


@pytest.mark.parametrize("name", ["input", "list", "x"])
def test_programs_with_such_an_op_keep_their_names(name):
    """torch renames nodes with names of Python's builtins when it copies a graph."""
    made = {}
    exec(f"def forward(self, {name}, mask):\n  return {name}[mask] * {name}.sum()", made)
    module = type("Module", (torch.nn.Module,), {"forward": made["forward"]})()
    x = torch.randn(6)
    program = clave.export(module, (x, x > 0))
    assert [a.name for a in program.methods["forward"].inputs] == [name, "mask"]
    for wanted in (x > 0, x > 9):  # a size that depends on data
        torch.testing.assert_close(clave.Session(program, device="cpu")(x, wanted), module(x, wanted))
