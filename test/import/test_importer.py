"""The importer as users call it: the list of ops, Python's arguments, every command of the tool, large models."""

import ctypes
import itertools
import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import clave

onnx = pytest.importorskip("onnx", reason="no onnx package is installed")
h, T = onnx.helper, onnx.TensorProto
N, F32 = h.make_node, np.float32


def model(nodes, weights=(), shape=("n", 4), opset=17):
    x, y = h.make_tensor_value_info("x", T.FLOAT, shape), onnx.ValueInfoProto(name="y")
    named = [w if isinstance(w, T) else onnx.numpy_helper.from_array(w, n) for n, w in dict(weights).items()]
    graph = h.make_graph(nodes, "g", [x], [y], named)
    imports = [h.make_opsetid("", opset), h.make_opsetid("com.acme", 3)]
    return h.make_model(graph, opset_imports=imports, ir_version=8)


WEIGHT = np.arange(12, dtype=F32).reshape(4, 3) / 8
LINEAR = model([N("MatMul", ["x", "w"], ["p"], name="p"), N("Relu", ["p"], ["y"], name="r")], {"w": WEIGHT})
X = F32([[1, -2, 3, -4], [0.5, 1, -1, 2]])
WANT = np.maximum(X @ WEIGHT, 0)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "m.onnx").write_bytes(LINEAR.SerializeToString())
    return tmp_path / "m.onnx"


@pytest.fixture
def tool(build, tmp_path):
    def run(*args):
        return subprocess.run([build / "clave", *map(str, args)], capture_output=True, text=True, cwd=tmp_path)

    return run


# ---- the list of ops


class ImportOp(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("format", ctypes.c_char_p),
        ("domain", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("since", ctypes.c_int),
    )


def ops_of(library):
    library.clave_import_op_at.restype = ctypes.c_bool
    op = ImportOp(size=ctypes.sizeof(ImportOp))
    for i in itertools.count():
        if not library.clave_import_op_at(ctypes.c_uint32(i), ctypes.byref(op)):
            return
        yield op.format.decode(), op.domain.decode(), op.name.decode(), op.since


def test_list_of_ops(tool, build):
    ops = list(ops_of(ctypes.CDLL(build / "libclave.so")))
    listed = json.loads(tool("inspect", "--formats", "--json").stdout)
    assert [tuple(row[k] for k in ("format", "domain", "op", "since")) for row in listed] == ops
    assert len(tool("inspect", "--formats").stdout.splitlines()) == len(ops)
    assert len(set(ops)) == len(ops) > 300 and all(since > 0 for *_, since in ops)
    for kind, rows in itertools.groupby(ops, lambda op: op[0]):
        names = [(domain, name.upper(), since) for _, domain, name, since in rows]
        assert names == sorted(names), kind
    assert [kind for kind, _ in itertools.groupby(ops, lambda op: op[0])] == ["TFLite", "ONNX"]


# ---- Python


@pytest.mark.parametrize("wrong", [5, None, [1], np.zeros(3)])
def test_arguments_of_wrong_type(wrong):
    for load, kind in ((clave.from_onnx, "ONNX"), (clave.from_tflite, "TFLite")):
        with pytest.raises(clave.Error, match=f"model: expected a path or an {kind} model"):
            load(wrong)


def test_wrong_files(tmp_path):
    for name, data in (("e.onnx", b""), ("e.tflite", b""), ("t.onnx", b"plain text"), ("z.tflite", bytes(64))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(clave.Error, match=name):
            clave.load(tmp_path / name)
    with pytest.raises(clave.Error, match=r"absent\.onnx"):
        clave.from_onnx(tmp_path / "absent.onnx")
    for load, data in itertools.product((clave.from_onnx, clave.from_tflite), (b"", b"\0" * 40, b"plain text")):
        with pytest.raises(clave.Error, match=r"the (ONNX|TFLite) model"):
            load(data)


@pytest.mark.parametrize("ending", ["clv", "json"])
def test_saved_and_loaded(tmp_path, path, ending):
    program = clave.from_onnx(path)
    program.save(tmp_path / f"s.{ending}")
    again = clave.load(tmp_path / f"s.{ending}")
    assert str(again.methods["forward"]) == str(program.methods["forward"])
    for p in (program, again):
        np.testing.assert_allclose(clave.Session(p, device="cpu").run(X)[0], WANT, 1e-6)


def test_two_models_at_once():
    """Tensors of the same names, and one model of which two programs are made."""
    other = model([N("MatMul", ["x", "w"], ["p"]), N("Relu", ["p"], ["y"])], {"w": -WEIGHT})
    sessions = [clave.Session(clave.from_onnx(m), device="cpu") for m in (LINEAR, other, LINEAR)]
    for _ in range(2):
        first, second, third = (s.run(X)[0] for s in sessions)
        np.testing.assert_allclose(first, WANT, 1e-6)
        np.testing.assert_allclose(second, np.maximum(-X @ WEIGHT, 0), 1e-6)
        np.testing.assert_array_equal(first, third)


# ---- the tool


def test_commands(tool, path, tmp_path):
    np.save(tmp_path / "x.npy", X)
    commands = {
        "run": (path, "--input", "x=x.npy", "--outputs", "out.safetensors", "--device", "cpu"),
        "bench": (path, "--dim", "n=2", "--runs", "2", "--warmup", "0", "--json", "--device", "cpu"),
        "verify": (path, "--run", "--device", "cpu"),
        "optimize": (path, "-o", "o.clv"),
        "convert": (path, "c.clv"),
        "inspect": (path, "--json"),
        "tune": (path, "--dim", "n=2", "--dry-run", "--device", "cpu"),
    }
    for command, args in commands.items():
        done = tool(command, *args)
        assert (done.returncode, done.stderr) == (0, ""), command
    raw = (tmp_path / "out.safetensors").read_bytes()
    np.testing.assert_allclose(np.frombuffer(raw[-WANT.nbytes :], F32).reshape(WANT.shape), WANT, 1e-6)
    for name in ("o.clv", "c.clv"):
        np.testing.assert_allclose(clave.Session(tmp_path / name, device="cpu").run(X)[0], WANT, 1e-6)


@pytest.mark.parametrize("command", ["run", "bench", "verify", "optimize", "inspect", "tune", "convert", "compile"])
def test_commands_say_what_is_unsupported(tool, tmp_path, command):
    nodes = [N("Foo", ["x"], ["a"], domain="com.acme", name="first"), N("StringNormalizer", ["x"], ["b"])]
    (tmp_path / "u.onnx").write_bytes(model([*nodes, N("Add", ["a", "b"], ["y"])]).SerializeToString())
    more = {"convert": ["u.clv"], "compile": ["-o", "u"]}.get(command, [])
    done = tool(command, "u.onnx", *more)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and not done.stdout and line.startswith("clave: ")
    assert "u.onnx" in line and "com.acme.Foo (opset 3) (1 node: first)" in line and "StringNormalizer" in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["u.onnx"]


# ---- large models


def seconds_to_load(m):
    data, begin = m.SerializeToString(), time.process_time()
    assert clave.from_onnx(data).methods["forward"].n_nodes > 1000
    return time.process_time() - begin


def chain(first, last, second):
    """Returns 20,000 nodes, each of which also reads second(i)."""
    names = [first, *(f"{last}{i}" for i in range(19_999)), last]
    return [N("Add", [a, second(i)], [b]) for i, (a, b) in enumerate(itertools.pairwise(names))]


def test_20000_nodes():
    assert seconds_to_load(model(chain("x", "y", lambda i: "x"))) < 3


def test_20000_initializers_among_the_inputs():
    weights = {f"w{i}": F32([i]) for i in range(20_000)}
    m = model(chain("x", "y", "w{}".format), weights)
    m.graph.input.extend(h.make_tensor_value_info(w, T.FLOAT, [1]) for w in weights)
    assert seconds_to_load(m) < 3


def test_20000_nodes_in_a_body():
    yes, no = (h.make_graph(nodes, "b", [], [onnx.ValueInfoProto(name="q")])
               for nodes in (chain("c", "q", lambda i: "c"), [N("Neg", ["c"], ["q"])]))  # fmt: skip
    nodes = [N("Relu", ["x"], ["c"]), N("ReduceSum", ["x"], ["s"], keepdims=0), N("Cast", ["s"], ["t"], to=T.BOOL)]
    assert seconds_to_load(model([*nodes, N("If", ["t"], ["y"], then_branch=yes, else_branch=no)])) < 3


def test_functions_that_double():
    """Each function calls the one before it twice, so that the model has 2^30 nodes."""
    m = model([N("F30", ["x"], ["y"], domain="com.acme")])
    for i in range(31):
        calls = [N(f"F{i - 1}", [a], [b], domain="com.acme") for a, b in ("at", "tr")]
        nodes = calls if i else [N("Neg", ["a"], ["r"])]
        m.functions.append(h.make_function("com.acme", f"F{i}", ["a"], ["r"], nodes, list(m.opset_import)))
    with pytest.raises(clave.Error, match="functions and bodies have more than 1048576 nodes"):
        clave.from_onnx(m)


def test_external_data_are_mapped(tmp_path):
    """64 MB of weights are not read before a run."""
    w = T(name="w", data_type=T.FLOAT, dims=[4, 4 << 20], data_location=T.EXTERNAL)
    w.external_data.add(key="location", value="w.bin")
    made = model([N("MatMul", ["x", "w"], ["y"])], {"w": w}, shape=(1, 4))
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(64 << 20)
    code = (
        "import resource, sys, clave; rss = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        f"clave.from_onnx({os.fspath(tmp_path / 'small.onnx')!r}); before = rss(); "
        f"program = clave.from_onnx({os.fspath(tmp_path / 'm.onnx')!r}); print(rss() - before)"
    )
    (tmp_path / "small.onnx").write_bytes(LINEAR.SerializeToString())
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 30 << 10
