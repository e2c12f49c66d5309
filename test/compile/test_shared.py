"""Shared libraries and self-tests of programs that carry the runtime: a session's bits, errors as text, no exported
functions except their own; results that were kept, and messages if the results differ."""

import ctypes as C
import os
import pathlib
import subprocess
import threading

import numpy as np
import pytest
import torch
from compiled import BUILD, bits_of, command, is_scalar, same_bits
from test_carried import ALONE, DEVICES, MNIST, SAID, TARGETS, TINYLM, Read, Shared, Window, call, form_of, images, make
from test_models import Counter, Loop, Nonzero, noise, saved

import clave

NOTE = C.CFUNCTYPE(None, C.c_void_p, C.c_char_p)
PIECE = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_size_t)


class Tensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("dims", C.c_int64 * 8)]


class Choice(C.Structure):
    _fields_ = [
        ("max_new_tokens", C.c_uint32),
        ("top_k", C.c_uint32),
        ("temperature", C.c_float),
        ("top_p", C.c_float),
        ("min_p", C.c_float),
        ("repetition_penalty", C.c_float),
        ("seed", C.c_uint64),
    ]


class Library:
    """The functions of lib<name>.so, with one model."""

    def __init__(self, path: pathlib.Path, n_threads: int = 2):
        self.name = path.name.removeprefix("lib").removesuffix(".so")
        self.of = C.CDLL(str(path))
        self.notes: list[str] = []
        self.note = NOTE(lambda _, line: self.notes.append(line.decode()))
        self.function("create").restype = C.c_void_p
        self.function("error").restype = C.c_char_p
        self.m = C.c_void_p(self.function("create")(n_threads, self.note, None))

    def function(self, what):
        return getattr(self.of, f"{self.name}_{what}")

    def error(self) -> str:
        return self.function("error")(self.m).decode()

    def call(self, what, *args) -> int:
        return self.function(what)(self.m, *args)

    def run(self, method, inputs, n_outputs: int) -> list[tuple[list[int], int]]:
        given = [np.ascontiguousarray(bits_of(number(x))) for x in inputs]
        values = (Tensor * (len(given) + 1))()
        for v, x in zip(values, given, strict=False):
            v.data, v.dims[: x.ndim] = x.ctypes.data, x.shape
        out = (Tensor * n_outputs)()
        name = None if method is None else method.encode()
        assert self.call("run", name, values, out) == 0, self.error()
        return out

    def compare(self, method, inputs, want) -> None:
        want = [np.asarray(w) for w in want]
        for v, w in zip(self.run(method, inputs, len(want)), want, strict=True):
            assert tuple(v.dims[: w.ndim]) == w.shape
            got = np.frombuffer(C.string_at(v.data, w.nbytes), w.dtype).reshape(w.shape)
            assert same_bits(got, w)

    def say(self, prompt: str, choice: Choice | None, most: int = 10**6, what: str = "generate", **more) -> str:
        said = []

        def hear(_, data, n):
            said.append(C.string_at(data, n))
            return len(said) < most

        args = [*more.values(), prompt.encode()]
        r = self.call(what, *args, choice and C.byref(choice), PIECE(hear), None)
        assert r == 0, self.error()
        return b"".join(said).decode()

    def close(self):
        self.function("destroy")(self.m)


def number(x):
    """Returns a scalar in the layout of an input."""
    return (
        np.array(x, bool if isinstance(x, bool) else np.int64 if isinstance(x, int) else float) if is_scalar(x) else x
    )


def build(program, tmp_path, *options, name="mine") -> pathlib.Path:
    make(program, tmp_path / f"lib{name}.so", "--shared", *options)
    return tmp_path / f"lib{name}.so"


@pytest.fixture(scope="module", params=["c", "opencl"])
def mnist(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mnist")
    return request.param, build(MNIST, folder, *form_of(request.param), "--verify", name="digits")


# ---------------------------------------------------------------- tensors

CALLER = """#include <stdio.h>
#include <string.h>
#include "digits.h"
int main(void) {
  static float image[2 * 784];
  digits_model *m = digits_create(1, NULL, NULL);
  digits_tensor x = {.data = image, .dims = {2, 1, 28, 28}}, y = {0};
  if (!m || digits_run(m, "forward", &x, &y)) return puts(digits_error(m));
  printf("%lld %lld %s\\n", (long long)y.dims[0], (long long)y.dims[1], digits_verify(m) ? digits_error(m) : "good");
  digits_destroy(m);
  return 0;
}
"""


def test_a_caller_in_c(mnist, tmp_path):
    """The header also compiles as C++."""
    target, so = mnist
    assert sorted(p.name for p in so.parent.iterdir()) == ["digits.h", "libdigits.so"]
    (tmp_path / "caller.c").write_text(CALLER)
    (tmp_path / "other.cc").write_text('#include "digits.h"\n')
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{so.parent}"]
    subprocess.run(["g++", *strict, "-c", "other.cc"], cwd=tmp_path, check=True)
    line = ["gcc", "-std=c99", *strict, "caller.c", so, f"-Wl,-rpath,{so.parent}", "-o", "caller"]
    subprocess.run(line, cwd=tmp_path, check=True)
    r = call(tmp_path / "caller", env=ALONE[DEVICES[target]])
    assert (r.returncode, r.stdout, r.stderr) == (0, "2 10 good\n", "")


def test_the_header(mnist):
    target, so = mnist
    text = (so.parent / "digits.h").read_text()
    assert " *   forward\n *     inputs[0]: x, F32 (batch, 1, 28, 28)\n" in text
    assert " *     outputs[0]: output_0, F32 (batch, 10)\n *     batch: from 1 to 4096\n" in text
    assert ("CLAVE_DEVICE" in text) == (target == "opencl")
    assert "in one thread at a time" in text


def test_its_functions_alone_are_seen(mnist):
    _, so = mnist
    lines = subprocess.run(["nm", "-D", "--defined-only", so], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in lines.splitlines()}
    assert names == {f"digits_{n}" for n in ("create", "destroy", "error", "reset", "run", "verify")}


def test_all_batches(mnist):
    target, so = mnist
    lib, session = Library(so), clave.Session(str(MNIST), device=DEVICES[target])
    for n in (1, 3, 16):
        lib.compare(None, [images(n)], session.run(images(n)))
    assert lib.error() == "" and lib.call("reset") == 0 and lib.notes == []
    lib.close()


def test_models_in_threads_of_their_own(mnist):
    target, so = mnist
    want = clave.Session(str(MNIST), device=DEVICES[target]).run(images(2))
    wrong = []

    def work():
        lib = Library(so, 1)
        try:
            for _ in range(3):
                lib.compare("forward", [images(2)], want)
        except AssertionError as e:
            wrong.append(e)
        lib.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize(
    "method, dims, says",
    [
        ("write", (1, 1, 28, 28), "unknown method 'write'; the methods are forward"),
        (
            None,
            (1, 1, 28, 27),
            "input 'x': expected F32 (batch, 1, 28, 28), a multiple of 3136 bytes, got (1, 1, 28, 27)",
        ),
        (
            None,
            (-1, 1, 28, 28),
            "input 'x': expected F32 (batch, 1, 28, 28), a multiple of 3136 bytes, got (-1, 1, 28, 28)",
        ),
        (None, (5000, 1, 28, 28), "x: size 'batch': expected 1 to 4096, got 5000"),
        (None, (0, 1, 28, 28), "x: size 'batch': expected 1 to 4096, got 0"),
        (None, (2, 1, 28, 28), "input 'x': the data pointer is NULL"),
    ],
)
def test_wrong_calls(mnist, method, dims, says):
    """Nothing is read or written, and the model stays usable."""
    target, so = mnist
    lib = Library(so)
    value, out = Tensor(None if dims[0] == 2 else 1, (C.c_int64 * 8)(*dims)), Tensor()
    assert lib.call("run", None if method is None else method.encode(), C.byref(value), C.byref(out)) == 1
    assert says in lib.error() and out.data is None
    lib.compare(None, [images(1)], clave.Session(str(MNIST), device=DEVICES[target]).run(images(1)))
    assert lib.error() == ""
    lib.close()


def test_no_opencl_device(mnist, monkeypatch):
    target, so = mnist
    monkeypatch.setenv("CLAVE_DEVICE", "cpu")
    lib = Library(so)
    if target == "opencl":
        assert "CLAVE_DEVICE is 'cpu', and this library runs only on OpenCL devices" in lib.error()
        for what in ("reset", "verify"):
            assert lib.call(what) == 1
        assert lib.call("run", None, None, None) == 1 and "only on OpenCL devices" in lib.error()
    else:
        assert lib.error() == ""
    lib.close()


@pytest.mark.parametrize("target", TARGETS)
def test_methods_and_state(tmp_path, target):
    of = Shared()
    methods = {"add": (of, (noise(4),)), "read": (Read(of), (torch.tensor([1, 2]),))}
    clave.export(methods).save(tmp_path / "m.clv")
    lib = Library(build(tmp_path / "m.clv", tmp_path, "--target", target, "--method", "all", "--verify"))
    session = clave.Session(str(tmp_path / "m.clv"), device=DEVICES[target])
    for method in ("add", "read", "add", "read"):
        lib.compare(method, methods[method][1], session.run(*methods[method][1], method=method))
    assert lib.call("verify") == 0, lib.error()  # by another model
    lib.compare("read", methods["read"][1], session.run(*methods["read"][1], method="read"))
    session.reset()
    assert lib.call("reset") == 0
    lib.compare("read", methods["read"][1], session.run(*methods["read"][1], method="read"))
    lib.close()


def test_numbers_and_sizes_of_data(tmp_path):
    dim = torch.export.Dim.DYNAMIC
    program = saved(tmp_path, Window(), noise(10, 2), 4, dynamic_shapes={"x": {0: dim}, "n": dim})
    so = build(program, tmp_path, name="window")
    assert "inputs[1]: n, I64 ()" in (tmp_path / "window.h").read_text()
    lib = Library(so)
    for n in (4, 7, 10):
        lib.compare(None, [noise(10, 2), n], clave.Session(str(program), device="cpu").run(noise(10, 2), n))
    lib.close()
    lib = Library(build(program, tmp_path, "--method", "all", "--dim", "n=1", "--verify", name="one"))
    lib.compare(None, [noise(10, 2)], clave.Session(str(program), device="cpu").run(noise(10, 2), 1))
    assert lib.call("verify") == 0, lib.error()
    lib.close()
    program = saved(tmp_path, Nonzero(), noise(6))
    so = build(program, tmp_path, name="places")
    assert "outputs[0]: output_0, I64 (?, 1)" in (tmp_path / "places.h").read_text()
    lib = Library(so)
    for x in (noise(6).relu(), torch.zeros(6)):
        lib.compare(None, [x], clave.Session(str(program), device="cpu").run(x))
    lib.close()


# ---------------------------------------------------------------- text


@pytest.mark.parametrize("target", TARGETS)
def test_a_story(tmp_path, target):
    so = build(TINYLM, tmp_path, "--target", target, "--verify", name="story")
    want = command("generate", TINYLM, "--device", DEVICES[target], *SAID).stdout.removesuffix("\n")
    lib = Library(so)
    choice = Choice(max_new_tokens=60, temperature=0.8, seed=3)
    said = lib.say("ROMEO:", choice)
    assert said == want.removeprefix("ROMEO:") and len(said) > 50
    more = lib.say("", Choice(max_new_tokens=5))  # it continues
    assert more and lib.call("reset") == 0
    begun = lib.say("ROMEO:", choice, most=3)
    assert said.startswith(begun) and len(begun) < len(said) and lib.call("reset") == 0
    assert lib.say("ROMEO:", choice) == said
    assert lib.call("verify") == 0, lib.error()
    wrong = Choice(temperature=-1)
    assert lib.call("generate", b"x", C.byref(wrong), PIECE(lambda *_: 1), None) == 1 and "temperature" in lib.error()
    assert lib.call("chat", b"user", b"x", None, PIECE(lambda *_: 1), None) == 1
    assert "no chat template" in lib.error()
    lib.close()


def test_a_chat(tmp_path):
    """A chat, turn by turn."""
    program = clave.load(TINYLM)
    program.metadata = {
        "llm": {
            **program.metadata["llm"],
            "chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
        }
    }
    program.save(tmp_path / "m.clv")
    lib = Library(build(tmp_path / "m.clv", tmp_path, name="talk"))
    model, messages = clave.LLM(str(tmp_path / "m.clv"), device="cpu"), []
    for said in ("Who is there?", "Go on."):
        messages.append({"role": "user", "content": said})
        want = model.chat(messages, max_new_tokens=12, sampling="greedy")
        assert lib.say(said, Choice(max_new_tokens=12), what="chat", role=b"user") == want
        messages.append({"role": "assistant", "content": str(want)})
    assert lib.call("reset") == 0
    assert lib.say("Who is there?", Choice(max_new_tokens=12), what="chat", role=b"user") == messages[1]["content"]
    lib.close()


def test_a_system_message(tmp_path):
    """A system message takes effect with the next message; the last one counts, and a reset removes it."""
    program = clave.load(TINYLM)
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    program.metadata = {"llm": {**program.metadata["llm"], "chat_template": template}}
    program.save(tmp_path / "m.clv")
    lib = Library(build(tmp_path / "m.clv", tmp_path, name="talk"))
    model, user = clave.LLM(str(tmp_path / "m.clv"), device="cpu"), {"role": "user", "content": "Who is there?"}
    for said in (b"Shout.", b"Speak of the king."):
        assert lib.call("chat", b"system", said, None, PIECE(lambda *_: 1), None) == 0, lib.error()
    want = model.chat([{"role": "system", "content": "Speak of the king."}, user], max_new_tokens=12, sampling="greedy")
    plain = model.chat([user], max_new_tokens=12, sampling="greedy")
    assert want != plain
    ask = lambda: lib.say(user["content"], Choice(max_new_tokens=12), what="chat", role=b"user")
    assert ask() == want
    assert lib.call("reset") == 0
    assert ask() == plain
    assert lib.call("reset") == 0
    assert lib.call("chat", b"system", b"Speak of the king.", None, PIECE(lambda *_: 1), None) == 0
    assert lib.call("reset") == 0
    assert ask() == plain
    lib.close()


# ---------------------------------------------------------------- stored results

PROGRAMS = {
    "state": (Counter, (noise(3),)),
    "loop": (Loop, (noise(4, 5), torch.tensor(5))),
    "sizes of data": (Nonzero, (noise(6),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", TARGETS)
def test_results_that_were_kept(tmp_path, name, target):
    module, args = PROGRAMS[name]
    program = saved(tmp_path, module(), *args)
    make(program, tmp_path / "m", "--target", target, "--method", "all", "--verify")
    r = call(tmp_path / "m", "--verify", env=ALONE[DEVICES[target]])
    assert (r.returncode, r.stderr) == (0, "") and r.stdout.startswith("verified: "), r.stderr
    assert ("within rounding" in r.stdout) == (target == "opencl")


@pytest.mark.parametrize("target", TARGETS)
def test_a_language_model_with_results(tmp_path, target):
    make(TINYLM, tmp_path / "m", "--target", target, "--verify")
    r = call(tmp_path / "m", "--verify", env=ALONE[DEVICES[target]])
    assert (r.returncode, r.stderr) == (0, "") and r.stdout.startswith("verified: 1 outputs"), r.stderr
    assert "--verify, without other options" in call(tmp_path / "m", "--help", env={}).stdout


def test_none_were_kept(tmp_path):
    make(MNIST, tmp_path / "m", *form_of("c"))
    r = call(tmp_path / "m", "--verify", env={})
    assert (r.returncode, r.stderr) == (
        1,
        "m: --verify: this program was compiled without --verify, so it has no results to compare\n",
    )


def test_other_results(tmp_path):
    """If there are several methods, the one that differs is named; other devices may differ by rounding."""
    made = command("compile", MNIST, "--emit-c", tmp_path / "c", "--verify", *form_of("c"))
    assert made.returncode == 0, made.stderr
    main = tmp_path / "c/main.c"
    text = main.read_text()
    digest = text.split('digests_0[] = {\n  "')[1][:64]
    main.write_text(text.replace(digest, "0" * 64))
    assert verified(tmp_path / "c") == (
        1,
        "model: output 'output_0' differs from the result on the processor that compiled it (",
    )


@pytest.mark.by_turn(6)
@pytest.mark.parametrize(
    "factor, good", [(1, True), (1 + 5e-4, True), (1 + 4e-3, False), (-1, False), (float("nan"), False)]
)
def test_other_results_on_opencl(tmp_path, factor, good):
    made = command("compile", MNIST, "--emit-c", tmp_path / "c", "--verify", "--target", "opencl")
    assert made.returncode == 0, made.stderr
    kept = np.fromfile(tmp_path / "c/expected.bin", np.float32)
    assert kept.size == 16 and not kept[10:].any()
    kept[:10][np.abs(kept[:10]).argmax()] *= factor
    kept.tofile(tmp_path / "c/expected.bin")
    code, said = verified(tmp_path / "c", "opencl")
    assert code == (not good)
    assert good or said == "model: output 'output_0' differs from the result of the CPU backend by more than rounding\n"


def verified(folder, device="cpu"):
    subprocess.run(["make", "-s", f"CLAVE_LIBDIR={BUILD}"], cwd=folder, check=True)
    r = call(folder / "model", "--verify", env=ALONE[device])
    return r.returncode, r.stderr.split("(")[0] + "(" * ("(" in r.stderr)


# ---------------------------------------------------------------- kernel binaries

NO_CACHE = {"CLAVE_CACHE_DIR": "off"}
NO_SOURCES = {"CLAVE_STUB_FAIL_NAME": "clCreateProgramWithSource", "CLAVE_STUB_LOST_AT": "0"}


@pytest.mark.by_turn(11)
def test_executables_with_binaries(tmp_path, stub):
    """No source is compiled any more: a call that compiles is an error. Executables without binaries compile theirs."""
    driver = ALONE["opencl"] | stub | NO_CACHE
    images(1).tofile(tmp_path / "in.bin")
    want = clave.Session(str(MNIST), device="opencl").run(images(1))[0]
    for options, good in (((), False), (("--binaries",), True)):
        r = command("compile", MNIST, "-o", tmp_path / "m", "--target", "opencl", *options, env=os.environ | stub)
        assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
        r = call(tmp_path / "m", tmp_path / "in.bin", tmp_path / "out.bin", env=driver | NO_SOURCES)
        assert (r.returncode == 0) == good, r.stderr
        assert good or "clCreateProgramWithSource" in r.stderr
    assert (tmp_path / "out.bin").read_bytes() == want.tobytes()
    r = call(tmp_path / "m", tmp_path / "in.bin", tmp_path / "o", env=driver | {"CLAVE_STUB_DRIVER": "another "})
    assert r.returncode == 0 and (tmp_path / "o").read_bytes() == want.tobytes()
    assert "note: the kernel binaries are for " in r.stderr and "built from their sources" in r.stderr


@pytest.mark.by_turn(11)
def test_a_story_with_binaries(tmp_path, stub):
    args = ("-o", tmp_path / "m", "--target", "opencl", "--binaries")
    r = command("compile", TINYLM, *args, env=os.environ | stub)
    assert (r.returncode, r.stderr) == (0, "")
    want = command("generate", TINYLM, "--device", "opencl", *SAID)
    r = call(tmp_path / "m", *SAID, env=ALONE["opencl"] | stub | NO_CACHE | NO_SOURCES)
    assert (r.returncode, r.stdout) == (0, want.stdout), r.stderr


def test_binaries_are_of_opencl_devices(tmp_path):
    for args, code, says in (
        ((), 2, "--binaries needs --target opencl"),
        (("--target", "opencl"), 1, '--target opencl needs an OpenCL device, and CLAVE_DEVICE selects "cpu"'),
    ):
        env = os.environ | {"CLAVE_DEVICE": "cpu"}
        r = command("compile", MNIST, "-o", tmp_path / "m", "--binaries", *args, env=env)
        assert r.returncode == code and says in r.stderr and not (tmp_path / "m").exists()
