"""Every public function and method of the package, called with a wrong value for each of its parameters: it works, or
raises a clave.Error that names the parameter and the expected value. No exception of Python, ctypes or torch
escapes."""

import copy
import inspect
import itertools
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

import clave
import clave.llm
import clave.reference

LAYER, X = torch.nn.Linear(4, 4).eval(), torch.ones(3, 4)


class Odd:
    """A value that no function expects, whose name does not depend on the run."""

    def __repr__(self):
        return "odd"


def wrong_values(folder):
    """Returns wrong values by name. Functions make values that a call could consume."""
    inf, nan = float("inf"), float("nan")
    return {
        **{repr(x): x for x in (None, True, 0, 1, -1, 2**31, 2**64, -(2**63), 10**40, 0.5, nan, inf, 1j, b"", b"x")},
        **{repr(x): x for x in ("", "x", "a\0b", "\ud800", "no such file", "x" * 5000, [], [None], (), (1, 2), {})},
        "{1: 2}": {1: 2},
        "{'x': None}": {"x": None},
        "an object": Odd(),
        "a class": Odd,
        "a function": lambda *args, **kwargs: Odd(),
        "a folder": folder,
        "a set": {1},
        "an array": np.arange(3),
        "an array of objects": np.array([Odd()], object),
        "an array of texts": np.array(["a"]),
        "a tensor": torch.arange(3),
        "a number's tensor": torch.tensor(1),
        "no elements": torch.ones(0),
        "complex": torch.ones(3, 4, dtype=torch.complex64),
        "sparse": X.to_sparse(),
        "csr": X.to_sparse_csr(),
        "meta": X.to("meta"),
        "quantized": torch.quantize_per_tensor(X, 0.1, 0, torch.quint8),
        "nested": torch.nested.nested_tensor([X]),
        "jagged": torch.nested.nested_tensor([X], layout=torch.jagged),
        "rank 9": torch.ones((1,) * 9),
        "a dtype": torch.float32,
        "a module": LAYER,
    }


class Public:
    """The callables, each with valid arguments."""

    def __init__(self, folder):
        self.program = clave.export(LAYER, (X,))
        self.session = clave.Session(self.program, device="cpu")
        self.device = clave.Device("cpu")
        self.file = folder / "right.clv"
        self.program.save(self.file)
        ranks = b"\n".join(b"%s %d" % (__import__("base64").b64encode(bytes([i])), i) for i in range(256))
        self.tokenizer = clave.Tokenizer(ranks)
        self.tensors = {"x": X}
        self.folder = folder

    def calls(self):
        """Yields (name, function, valid arguments)."""
        p, s, d, t, out = self.program, self.session, self.device, self.tokenizer, self.folder / "out.clv"
        yield "devices", clave.devices, {}
        yield "load", clave.load, {"path": self.file}
        yield "export", clave.export, {"module": LAYER, "args": (X,)}
        yield "from_gguf", clave.from_gguf, {"path": "no such file.gguf"}
        yield "from_onnx", clave.from_onnx, {"model": "no such file.onnx"}
        yield "from_tflite", clave.from_tflite, {"model": "no such file.tflite"}
        yield "register_op", clave.register_op, {"op": "clave_test::none"}
        yield "register_lowering", clave.register_lowering, {"op": "clave_test::none"}
        yield "Kernel", clave.Kernel, {"source": "kernel void f() {}", "grid": 1}
        yield "Program", clave.Program, {"built": p.schema, "constants": []}
        yield "Program.load", clave.Program.load, {"path": self.file}
        yield "Program.save", p.save, {"path": out}
        yield "Program.optimized", p.optimized, {}
        yield "Program.set_tokenizer", p.set_tokenizer, {"source": None}
        yield "Program.stored", p.stored, {}
        yield "Program.check_unchanged", p.check_unchanged, {}
        yield "Program.own_weights", p.own_weights, {}
        yield "Program.metadata", lambda value: setattr(p, "metadata", value), {"value": {}}
        yield "Device", clave.Device, {"spec": "cpu"}
        yield "Device.supported", d.supported, {"program": p}
        yield "Device.pack", d.pack, {"program": clave.load(self.file)}
        yield "Session", clave.Session, {"program": p, "device": "cpu"}
        yield "Session.run", lambda x, method="forward": s.run(x, method=method), {"x": X}
        yield "Session()", lambda x, method="forward": s(x, method=method), {"x": X}
        yield "Session.observe", clave.Session(p, device="cpu").observe, {"see": None}
        yield "Session.resize", s.resize, {"size": "n", "n": 1}
        yield "Session.placement", s.placement, {}
        yield "Session.reset", s.reset, {}
        yield "Session.close", clave.Session(p, device="cpu").close, {}
        yield "Tokenizer", clave.Tokenizer, {"source": b"IQ== 0"}
        yield "Tokenizer.find", t.find, {"token": "a"}
        yield "Tokenizer.encode", t.encode, {"text": "a"}
        yield "Tokenizer.decode", t.decode, {"ids": [1]}
        yield (
            "Tokenizer.stream",
            lambda ids, skip_special=False: list(t.stream(ids, skip_special=skip_special)),
            {"ids": [1]},
        )
        yield "reference", clave.reference.reference, {"module": LAYER, "args": (X,)}
        yield "reference.write", clave.reference.write, {"path": self.folder / "r.safetensors", "tensors": self.tensors}
        yield "llm.LLMExporter", clave.llm.LLMExporter, {"source": "no such folder"}
        yield "llm.use_kv_cache", clave.llm.use_kv_cache, {"model": LAYER, "max_context": 8}


# Parameters whose wrong values are described by other words: their target, or their wrong part.
OTHER_WORDS = {
    "module": "method|torch.export|capture|file|directory",
    "path": "file|folder|no such|saved as|x{60}",
    "source": "file|folder|tokenizer|kernel|rank|bytes|x{60}",
    "value": "metadata",
    "x": "input|inputs",
    "args": "torch.export|capture|input",
    "kwargs": "torch.export|capture|input",
    "dynamic_shapes": "torch.export|capture|dynamic",
    "decompositions": "decompos",
    "quantize": "weight|form|quantise|int8",
    "spec": "device|opencl|cpu",
    "device": "opencl|cpu",
    "program": "file|folder|clv|no such|x{60}",
    "size": "state|size",
    "n": "state|size",
    "built": "built|node|slot|constant",
    "constants": "constant",
    "token": "token",
    "op": "op",
    "model": "model|config|file|no such|x{60}",
    "passes": "pass",
    "tokenizer": "tokenizer|file|gguf|x{60}",
    "tensors": "tensor",
    "input_names": "input",
    "output_names": "output",
    "reference": "reference|op",
}
# Parameters whose function runs a caller's own code, or whose wrong values Python itself refuses.
NOT_TRIED = {("Program", "constants")}


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    return Public(tmp_path_factory.mktemp("right"))


def parameters_of(function):
    kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return [p for p in inspect.signature(function).parameters.values() if p.kind not in kinds]


def outcome(call):
    """Returns None if the call works, else the message of a clave.Error."""
    try:
        call()
    except clave.Error as e:
        return str(e)
    return None


def names_it(parameter, message):
    words = re.escape(parameter).replace("_", "[_ -]") + "|" + OTHER_WORDS.get(parameter, "$^")
    return re.search(words, message, re.IGNORECASE)


def problems_of(name, function, right, wrong):
    own = outcome(lambda: function(**right))  # the error of a missing file, which is read last
    for parameter in parameters_of(function):
        if (name, parameter.name) in NOT_TRIED:
            continue
        for what, value in wrong.items():
            arguments = right | {parameter.name: value}
            positional = []
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional = [arguments.pop(parameter.name)]
            try:
                message = outcome(lambda a=arguments, p=positional: function(*p, **a))
            except Exception as e:
                yield f"{name}({parameter.name}={what}): {type(e).__name__}: {str(e)[:100]}"
                continue
            if message not in (None, own) and ("\n" in message or not names_it(parameter.name, message)):
                yield f"{name}({parameter.name}={what}) is told as {message[:200]!r}"


def test_only_errors_of_clave_come_out_and_name_the_argument(public, tmp_path, monkeypatch, recwarn):
    monkeypatch.chdir(tmp_path)
    wrong = wrong_values(tmp_path)
    found = list(itertools.chain.from_iterable(problems_of(*call, wrong) for call in public.calls()))
    assert not found, "\n".join(found)


def test_the_table_has_all_that_is_public(public):
    covered = {name.split(".")[0] for name, *_ in public.calls()} | {"llm"}
    beside = {"LLM", "Answer", "Conversation", "Sampling", "Stream", "Token"}  # the tests of clave.LLM
    made = {"Cancelled", "Code", "Error", "Origin", "UnsupportedOp"}  # plain data
    assert {n for n in clave.__all__ if callable(getattr(clave, n))} <= covered | beside | made
    methods = {name for name, *_ in public.calls()}
    for kind in (clave.Program, clave.Device, clave.Session, clave.Tokenizer):
        own = [n for n, f in vars(kind).items() if not n.startswith("_") and inspect.isfunction(f)]
        assert {f"{kind.__name__}.{n}" for n in own} <= methods


def test_what_export_is_given_without_a_tuple():
    with pytest.raises(clave.Error, match=r"args: expected a tuple of example inputs, got a torch\.Tensor .*\(x,\)"):
        clave.export(LAYER, X)


def test_a_device_that_is_a_number(public):
    with pytest.raises(clave.Error, match=r"device: expected .*'opencl:N'.*, got 0"):
        clave.Session(public.program, device=0)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range(public, seed):
    """ctypes would pass the lowest 64 bits of any integer."""
    with pytest.raises(clave.Error, match=rf"^seed: expected an integer from 0 to .*, got {seed}"):
        clave.Session(public.program, device="cpu", seed=seed)


def test_an_input_of_another_name():
    class Net(torch.nn.Module):
        def forward(self, image, scale):
            return image * scale

    session = clave.Session(clave.export(Net(), (X, X)), device="cpu")
    with pytest.raises(clave.Error, match=r"expected the inputs 'image', 'scale', got 'imgs'; did you mean 'image'\?"):
        session(imgs=X, scale=X)
    with pytest.raises(clave.Error, match="input 'image': expected once, got by position and by name"):
        session(X, X, image=X)


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda p: pickle.loads(pickle.dumps(p))])
def test_programs_are_copied_and_pickled(public, again):
    made = again(public.program)
    assert torch.equal(clave.Session(made, device="cpu")(X), public.session(X))
    assert made.metadata == public.program.metadata and made.methods == public.program.methods
    assert torch.equal(clave.Session(again(made), device="cpu")(X), public.session(X))


def test_what_lives_in_the_library_is_not_copied(public):
    for thing, again in itertools.product(
        (public.session, public.device, public.tokenizer), (copy.copy, copy.deepcopy, pickle.dumps)
    ):
        with pytest.raises(clave.Error, match="only programs can be copied"):
            again(thing)


def test_a_closed_session_says_so(public):
    with clave.Session(public.program, device="cpu") as session:
        assert repr(session).startswith("<clave.Session forward: ")
    assert repr(session) == "<clave.Session, closed>"


def test_arguments_are_described_as_onnxruntime_does():
    class Net(torch.nn.Module):
        def forward(self, image, scale):
            return image * scale, image.to(torch.complex64)

    batch, rows = torch.export.Dim("batch", min=1, max=9), torch.export.Dim("rows")
    example = torch.ones(2, 3, 4, dtype=torch.bfloat16), 3
    program = clave.export(Net(), example, dynamic_shapes=({0: batch, 1: rows}, None))
    session = clave.Session(program, device="cpu")
    (image,) = session.inputs
    assert (image.name, image.dtype.name, image.shape) == ("image", "bfloat16", ("batch", "rows", 4))
    assert image.bounds == ((1, 9), (0, None), (4, 4)) and not image.is_scalar
    assert [(o.dtype.name, o.shape) for o in session.outputs][1] == ("complex64", ("batch", "rows", 4))
    assert program.methods["forward"].inputs[0] == image
    for thing in (program, session):
        assert "forward: image bfloat16 (batch 1 to 9, rows 0 or more, 4)" in repr(thing)
    assert repr(session).endswith("<clave.Device cpu>>")


def test_the_packages_names():
    shown = {n for n in dir(clave) if not n.startswith("__")}
    assert shown == {*clave.__all__, "executorch", "llm", "quantizer", "reference"}
    code = "import sys, clave; assert 'torch' not in sys.modules; clave.llm.use_kv_cache; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tensors_that_stand_for_others():
    """Fake tensors of a trace, and tensors inside a transform of torch.func, have no memory of their own."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    session = clave.Session(clave.export(LAYER, (X,)), device="cpu")
    with FakeTensorMode():
        fake = torch.randn(3, 4)
    with pytest.raises(clave.Error, match=r"^input 'input': "):
        session(fake)
    with pytest.raises(clave.Error, match=r"^input 'input': "):
        torch.vmap(lambda a: session(a))(torch.randn(2, 3, 4))
