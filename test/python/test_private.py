"""The private parts of torch and transformers on which the package depends: one file names them, and each exists."""

import ast
import functools
import re
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from _export import Fn
from torch import nn

import clave.ops
from clave import exporter, private

PACKAGE = Path(clave.__file__).parent
FILES = [f for f in sorted(PACKAGE.rglob("*.py")) if f.name != "private.py" and "_generated" not in f.parts]


def _is_private(module):
    return module.split(".")[0] in ("torch", "transformers") and any(p.startswith("_") for p in module.split("."))


def _is_inner(node):
    """False for torch._check and names of ops, which are public."""
    path = ast.unparse(node)
    is_public = path == "torch._check" or path.startswith("torch.ops.") or node.attr.startswith("__")
    return node.attr in ("py_kernels", "python_key_table") or (node.attr.startswith("_") and not is_public)


@functools.cache
def _own_names():
    """Returns attributes with an underscore that the package itself defines."""
    names = {"_fields", "_fields_"}  # attributes of namedtuple and ctypes
    for f in FILES:
        for node in ast.walk(ast.parse(f.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
    return names


def _private_parts(text, own):
    """Yields the private parts of torch and transformers that a file uses."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{a.name}" for a in node.names if _is_private(f"{node.module}.{a.name}"))
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if _is_private(a.name))
        elif isinstance(node, ast.Attribute) and node.attr not in own and _is_inner(node):
            yield ast.unparse(node)


@pytest.mark.parametrize("f", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_one_file_names_private_parts(f):
    assert list(_private_parts(f.read_text(), _own_names())) == []


def test_the_search_for_private_parts_finds_them():
    text = "import torch._ops\nfrom torch.utils import _pytree\nx = op._schema\ntorch._dynamo.reset()\ntorch._check(x)"
    found = ["torch._ops", "torch.utils._pytree", "op._schema", "torch._dynamo"]
    assert sorted(_private_parts(text, set())) == sorted(found)


# ---- each part, by name


def _op():
    return torch.ops.aten.lstm.input


def _expression(f):
    """Returns the sympy expression of f(a size)."""

    def module(x):
        return x.new_full((1,), f(x.shape[0]))

    program = torch.export.export(Fn(module), (torch.ones(9),), dynamic_shapes=(({0: torch.export.Dim.DYNAMIC},),))
    values = [n.meta["val"] for n in program.graph.nodes if n.op == "call_function"]
    return next(v for v in reversed(values) if isinstance(v, torch.SymInt | torch.SymFloat)).node.expr


def _traced():
    """Returns a call in a module of a module, as torch.export leaves it."""
    graph = torch.export.export(nn.Sequential(nn.Sequential(nn.ReLU())), (torch.ones(2),)).graph
    return next(n for n in graph.nodes if n.op == "call_function")


def _refused(f, *args, **kwargs):
    try:
        torch.export.export(Fn(f), args, **kwargs)
    except Exception as e:
        return private.meaning_of(e)
    raise AssertionError("torch.export took it")


def _flex():
    from torch._higher_order_ops.flex_attention import FlexAttentionHOP

    return type(torch.ops.higher_order.flex_attention) is FlexAttentionHOP


def _layers():
    cache = pytest.importorskip("transformers.cache_utils")
    methods = ("lazy_initialization", "update", "get_mask_sizes", "get_seq_length", "get_max_length")
    return all(
        hasattr(cache.CacheLayerMixin, m) or hasattr(cache.CacheLayerMixin, "get_max_cache_shape") for m in methods
    )


def _attention():
    transformers = pytest.importorskip("transformers")
    return private.attention_of(transformers.LlamaConfig(attn_implementation="eager")) == "eager"


def _states():
    """Checks the methods of a cache for convolutions and recurrences, and the state of its layers."""
    cache = pytest.importorskip("transformers.cache_utils")
    methods = ("get_conv_state", "update_conv_state", "get_recurrent_state", "update_recurrent_state")
    layer = cache.LinearAttentionLayer()
    kept = hasattr(layer, "conv_states") and hasattr(layer, "recurrent_states")
    return kept and all(hasattr(cache.Cache, m) for m in (*methods, "is_recording_past", "has_previous_state"))


def _scans():
    """Checks the functions that scans replace, with the arguments that models pass."""
    pytest.importorskip("transformers")
    from importlib import import_module
    from inspect import signature

    from clave.llm import recurrent, rwkv

    for name, function, ours in (
        ("mamba", "mamba_selective_scan", recurrent._selective_scan),
        ("mamba2", "mamba2_chunk_scan", recurrent._chunk_scan),
        ("rwkv", "rwkv_linear_attention", rwkv._weighted_values),
    ):
        module = import_module(f"transformers.models.{name}.modeling_{name}")
        theirs = signature(getattr(module, function)).parameters
        if not {*signature(ours).parameters} - {"states", "_"} <= {*theirs}:
            return False
    return True


N = ({0: torch.export.Dim("n", min=2, max=99)},)
PARTS = {
    "OpOverload._schema": lambda: private.schema_of(_op()).name == "aten::lstm",
    "OpOverload._overloadname": lambda: private.overload_name(_op()) == "input",
    "OpOverload.py_kernels": lambda: isinstance(_op().py_kernels, dict) and len(_op().py_kernels) > 0,
    "OpOverload._dispatch_cache": lambda: hasattr(_op()._dispatch_cache, "clear"),
    "OpOverloadPacket": lambda: isinstance(torch.ops.aten.lstm, private.OpOverloadPacket),
    "decomposition_table": lambda: all(op in private.decomposition_table for op in private.recurrent_networks()),
    "op_implementations_dict": lambda: any(
        isinstance(op, private.OpOverload) for op in private.op_implementations_dict
    ),
    "custom_op: _opoverload": lambda: private.op_of(clave.ops.rope) is torch.ops.clave.rope.default,
    "custom_op: OPDEFS and _init_fn": lambda: private.function_of(torch.ops.clave.rope.default).__name__ == "rope",
    "OpOverload._op_dk": lambda: (
        private.eager_function(torch.ops.aten.matmul.default)(torch.eye(2), torch.ones(2)).sum() == 2
    ),
    "Tensor._version": lambda: private.version_of(torch.zeros(1).add_(1)) == 1,
    "Module._buffers": lambda: "running_mean" in private.buffers_of(nn.BatchNorm1d(2)),
    "elementwise_dtypes": lambda: (
        private.promoted([torch.ones(1, dtype=torch.int32), torch.ones(1, dtype=torch.half)]) == torch.half
    ),
    "print of torch.export._trace": lambda: "print(" in Path(private.torch_trace.__file__).read_text(),
    "class of flex_attention": _flex,
    "BitwiseFn_bitwise_and": lambda: private.is_bitwise(_expression(lambda n: n & 6)) == "and",
    "BitwiseFn_bitwise_or": lambda: private.is_bitwise(_expression(lambda n: n | 6)) == "or",
    "OpaqueUnaryFn_sqrt": lambda: private.is_sqrt(_expression(torch.sym_sqrt)),
    "names of symbols": lambda: all(
        private.SYMBOL.fullmatch(str(s)) for s in _expression(lambda n: n + 1).free_symbols
    ),
    "nn_module_stack": lambda: private.module_path(_traced()) == "0.0",
    "message: guard on data": lambda: _refused(lambda x: x if x.sum() > 0 else -x, torch.ones(2)).startswith(
        "the model branches on a value"
    ),
    "message: integer from data": lambda: (
        "makes a Python number" in _refused(lambda x: [0][: x.int().sum().item().__index__()], torch.ones(2))
    ),
    "message: constraints": lambda: (
        "Constraints violated" in _refused(lambda x: x + torch.ones(5), torch.ones(5), dynamic_shapes=(N,))
    ),
    "transformers: _attn_implementation": _attention,
    "transformers: CacheLayerMixin": _layers,
    "transformers: LinearAttentionLayer": _states,
    "transformers: functions of scans": _scans,
}


@pytest.mark.parametrize("name", PARTS)
def test_the_part_is_there(name):
    assert PARTS[name](), f"{name} is no longer what clave.private expects"


def test_functions_of_a_model_are_put_back():
    transformers = pytest.importorskip("transformers")
    config = transformers.MambaConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1)
    model = transformers.MambaForCausalLM(config)
    file = sys.modules[type(model).__module__]
    before = file.mamba_selective_scan
    replacements = {"mamba_selective_scan": len, "no_such_function": len}
    with pytest.raises(ValueError), private.replaced_functions(model, replacements):
        assert file.mamba_selective_scan is len and not hasattr(file, "no_such_function")
        raise ValueError
    assert file.mamba_selective_scan is before
    own = type("Own", (type(model),), {"__module__": "of.no.registered.file"})(config)
    with private.replaced_functions(own, {"mamba_selective_scan": len}):
        assert file.mamba_selective_scan is len  # its layers are transformers'
    assert file.mamba_selective_scan is before


def test_what_is_replaced_is_put_back():
    """Replacements are undone, also if they are nested and the inner one fails."""
    hop, op = type(torch.ops.higher_order.flex_attention), _op()
    before = (hop.__call__, dict(op.py_kernels), private.decomposition_table[op])
    with pytest.raises(ValueError), private.export_patches():
        inside = op.py_kernels.copy()
        with private.export_patches(lambda *args: "own"):
            assert torch.ops.higher_order.flex_attention(1) == "own"
        assert op.py_kernels == inside != before[1] and hop.__call__ is before[0]
        raise ValueError
    assert (hop.__call__, dict(op.py_kernels), private.decomposition_table[op]) == before


OLD = [("torch", "2.12.1"), ("torch", "2.6.0+cpu"), ("transformers", "4.57.3"), ("transformers", "5.0.0")]


@pytest.mark.parametrize("package, version", OLD)
def test_older_versions_are_refused(package, version):
    with pytest.raises(clave.Error, match=rf"{package}: expected version [25]\.\d+ or later, got {re.escape(version)}"):
        private.check_version(package, version)


@pytest.mark.parametrize("package, version", [("torch", "2.13.0+cpu"), ("torch", "3.0.0"), ("transformers", "5.23.0")])
def test_others_are_not(package, version):
    private.check_version(package, version)


@pytest.mark.parametrize("package", private.OLDEST)
def test_the_oldest_version_that_is_promised_is_the_one_that_is_tested(root, package):
    """The version is equal in pyproject.toml, in the check at import, and in the packages that tests install."""
    oldest = ".".join(map(str, private.OLDEST[package]))
    assert f'"{package}>={oldest}"' in (root / "python" / "pyproject.toml").read_text()
    assert f"\n{package}=={oldest}." in (root / "ci" / "requirements.txt").read_text()


class Network(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.steps, self.out = nn.LSTM(4, 4, batch_first=True), nn.Linear(4, n)

    def forward(self, x):
        return self.out(self.steps(x)[0]).relu()


def test_exports_in_several_threads():
    wrong = []

    def export(n):
        try:
            module = Network(n).eval()
            for length in (3, 5):
                program = clave.export(
                    module,
                    (torch.randn(2, length, 4),),
                    dynamic_shapes=({1: torch.export.Dim("n", max=64)},),
                    verify=True,
                )
                x = torch.randn(2, 11, 4)
                torch.testing.assert_close(clave.Session(program, "cpu")(x), module(x))
        except BaseException as e:
            wrong.append(e)

    threads = [threading.Thread(target=export, args=(n,)) for n in (2, 3, 4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong


def test_one_thread_exports_at_a_time(monkeypatch):
    met, both, inner = [], threading.Barrier(2), exporter._export

    def export(*args):
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=1)  # until another thread arrives here
            met.append(args)
        return inner(*args)

    monkeypatch.setattr(exporter, "_export", export)
    threads = [threading.Thread(target=clave.export, args=(Fn(torch.exp), (torch.ones(2),))) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not met
