"""Custom ops that cannot be registered or exported, and programs with malformed ones: one clear error each."""

import json
import re

import numpy as np
import pytest
import torch
from _custom import (
    COUNT,
    WAVE,
    WAVE_SOURCE,
    custom_op,
    elementwise,
    expected_wave,
    register_wave,
    session,
    wave_program,
)
from _export import Fn

import clave

pytestmark = pytest.mark.by_turn(17)

# ---------------------------------------------------------------- ops that cannot be registered or exported

BODY = "{ out[0] = 0; }"


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("void f(global float *out) {}", "expected one function `kernel void"),
        (f"kernel void f(global float *out) {BODY} kernel void g(global float *out) {BODY}", "in the source, got 2"),
        (f"kernel void f(global float out) {BODY}", "cannot read the kernel's parameter 'global float out'"),
        (f"kernel void f(global const float *y, global float *out) {BODY}", "y is not among the op's tensors: x, out"),
        (f"kernel void f(int n, global float *out) {BODY}", "n is not among the op's numbers: a"),
        (f"kernel void f(local int *n, global float *out) {BODY}", "not among the op's local memories: it has none"),
        (f"kernel void f(global float *x, global float *out) {BODY}", "x must be `global const`"),
        (f"kernel void f(global const float *out) {BODY}", "out must not be const"),
        (f"kernel void f(uint a, global float *out) {BODY}", "a: expected int, long, float, double, got uint"),
        (f"kernel void f(float a) {BODY}", "no parameter for result out"),
        (f'#include "common.h"\nkernel void f(global float *out) {BODY}', "must not include files"),
    ],
)
def test_kernels_are_held_against_the_op(kernel, said):
    with pytest.raises(clave.Error, match=re.escape(said)) as e:
        clave.register_op(WAVE, clave.Kernel(kernel, grid=1))
    assert "check::wave" in str(e.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"grid": 1, "local": 512}, "local: expected positive numbers of product 256 or less, got 512"),
        ({"grid": 1, "device": "fpga"}, "device: expected any, cpu, gpu, got 'fpga'"),
    ],
)
def test_options_of_a_kernel(more, said):
    with pytest.raises(clave.Error, match=re.escape(said)):
        clave.register_op(WAVE, clave.Kernel(WAVE_SOURCE, values=COUNT, **more))


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (clave.Kernel(WAVE_SOURCE, grid=lambda y: 1, values=COUNT), "of grid: expected some of x, a, out, got 'y'"),
        (
            clave.Kernel(WAVE_SOURCE, grid=(1, 1, 1, 1), values=COUNT),
            "grid and local: expected 1 to 3 numbers in both, got 4 and 4",
        ),
        (elementwise(WAVE_SOURCE.replace("const float *x", "const int *x")), "x is int, the tensor is F32 (float)"),
        (elementwise(WAVE_SOURCE.replace("float a", "int a")), "a is int, the call has 2.0"),
        (elementwise("/*" + "-" * 300_000 + "*/" + WAVE_SOURCE), "a text of 3"),
    ],
)
def test_calls_that_a_kernel_does_not_take(kernel, said):
    clave.register_op(WAVE, kernel)
    with pytest.raises(clave.Error, match=re.escape(said)):
        wave_program()


def test_the_fake_kernel_must_be_right():
    op = custom_op("check::liar", lambda x: x * 1, lambda x: x.new_empty(x.shape[0], 1 + x.shape[1]))
    clave.register_op(op, elementwise("kernel void f(global float *out, long n) {}"))
    said = r"check::liar: out is float32 \(3, 5\) by its fake kernel, float32 \(3, 4\) by its reference"
    with pytest.raises(clave.Error, match=said):
        clave.export(Fn(op), (torch.ones(3, 4),))


def test_references_that_cannot_be_traced():
    op = custom_op("check::numpy", lambda x: torch.from_numpy(np.sqrt(x.numpy())), lambda x: x.new_empty(x.shape))
    clave.register_op(op)
    with pytest.raises(clave.Error, match="torch cannot trace its reference"):
        clave.export(Fn(op), (torch.ones(3, 4),))
    clave.register_op(op, reference=lambda x: x.sqrt())
    assert clave.Session(clave.export(Fn(op), (torch.ones(2),)), "opencl")(torch.full((2,), 9.0)).tolist() == [3, 3]


def test_ops_that_are_no_custom_ops():
    with pytest.raises(clave.Error, match="has a lowering already"):
        clave.register_op("aten::relu", reference=torch.relu)
    with pytest.raises(clave.Error, match=r"op: expected torch\.ops"):
        clave.register_op("check::absent")
    torch.library.define("check::bare", "(Tensor x) -> Tensor")
    with pytest.raises(clave.Error, match="has no reference"):
        clave.register_op("check::bare")
    torch.library.custom_op("check::mutates", lambda x: None, mutates_args=("x",), schema="(Tensor(a!) x) -> ()")
    with pytest.raises(clave.Error, match="changes or returns its arguments"):
        clave.register_op("check::mutates")


# ---------------------------------------------------------------- hostile programs


def edited(tmp_path, change):
    """Returns a program whose custom op was changed in its file."""
    register_wave()
    wave_program(passes=()).save(tmp_path / "m.json")
    file = json.loads((tmp_path / "m.json").read_text())
    (op,) = [i["op"] for c in file["chains"] for i in c["instructions"] if i["op_type"] == "Custom"]
    change(op, file)
    (tmp_path / "m.json").write_text(json.dumps(file))
    return tmp_path / "m.json"


def on_kernel(**fields):
    return lambda op, _: op["kernels"][0].update(fields)


def on_parameter(number, /, **fields):
    return lambda op, _: op["kernels"][0]["parameters"][number].update(fields)


def chain_of(op, file):
    return file["chains"][op["reference_chain"]]


def read_an_input(op, file):
    chain_of(op, file)["instructions"][0]["op"]["inputs"] = [{"idx": len(file.get("constants", ()))}]


def call_itself(op, file):
    chain_of(op, file)["instructions"][0] |= {"op_type": "Custom", "op": json.loads(json.dumps(op))}


def give_an_arg(op, file):
    chain_of(op, file)["results"] = chain_of(op, file)["args"] * 2


LITERAL = {"literal": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (on_parameter(0, index=2), "parameter 0; kernel 0"),
        (on_parameter(0, name="x; evil("), "expected a C name"),
        (on_parameter(0, name="out"), "two parameters are named 'out'"),
        (on_parameter(0, name="_" * 65), "expected a C name"),
        (on_parameter(2, index=0), "result 0: expected one parameter that writes it, got 0"),
        (on_parameter(0, index=1), "result 0: expected one parameter that writes it, got 2"),
        (on_parameter(1, f=None), "expected a value in f"),
        (on_parameter(3, i=None), "expected a value in i"),
        (on_parameter(3, kind="local", i={"literal": 0}), "local memory: expected 1 to 268435456 elements, got 0"),
        (
            on_parameter(3, kind="local", i={"literal": 1 << 40}),
            "local memory: expected 1 to 268435456 elements, got 1099511627776",
        ),
        (on_kernel(local=[]), "grid and groups: expected 1 to 3 dimensions of both, got 1 and 0"),
        (
            on_kernel(**{"global": [LITERAL] * 4, "local": [1] * 4}),
            "grid and groups: expected 1 to 3 dimensions of both, got 4 and 4",
        ),
        (on_kernel(local=[0]), "in a dimension and at most 256 in all, got 0 in dimension 0"),
        (on_kernel(local=[257]), "in a dimension and at most 256 in all, got 257 in dimension 0"),
        (on_kernel(**{"global": [{"literal": -1}]}), "in a dimension and at most 2^40 in all, got -1 in dimension 0"),
        (
            on_kernel(**{"global": [{"literal": "9007199254740993"}]}),
            "at most 2^40 in all, got 9007199254740993 in dimension 0",
        ),
        (on_kernel(body='#include "common.h"\n}'), "the text includes a file"),
        (on_kernel(body=" " * (256 << 10)), "at most 262144 are allowed"),
        (lambda op, _: op.update(kernels=op["kernels"] * 9), "9 kernels, at most 8"),
        (lambda op, _: op.update(target=""), "name: expected 1 to 256 letters, got 0"),
        (lambda op, _: op.update(target="x" * 257), "name: expected 1 to 256 letters, got 257"),
        (lambda op, _: op.update(reference_chain=99), "reference_chain is 99"),
        (lambda op, _: op.update(results=[]), "has no results"),
        (read_an_input, "reads: expected an arg, a constant or an earlier result, got tensor 0"),
        (call_itself, "a reference has no custom"),
        (give_an_arg, "the chain's results: expected 1, got 2"),
    ],
)
def test_hostile_programs(tmp_path, change, said):
    def without_nulls(op, file):
        change(op, file)
        for k in op["kernels"]:
            k["parameters"] = [{n: v for n, v in p.items() if v is not None} for p in k["parameters"]]

    with pytest.raises(clave.Error, match=re.escape(said)) as e:
        clave.load(edited(tmp_path, without_nulls))
    assert e.value.code == clave.Code.INVALID


@pytest.mark.parametrize(
    "change",
    [
        on_kernel(body="}"),
        on_kernel(body="kernel"),
        on_kernel(prelude="__kernel void custom() {\n"),
        on_parameter(0, name="numbers"),
        on_parameter(0, name="for"),
    ],
)
def test_texts_that_a_compiler_refuses_run_their_reference(tmp_path, monkeypatch, change):
    monkeypatch.setenv("CLAVE_SELF_CHECK", "on")
    s = session(clave.load(edited(tmp_path, change)))
    x = torch.randn(3, 4)
    torch.testing.assert_close(s(x), expected_wave(x))


def test_a_grid_is_checked_when_sizes_are_known():
    clave.register_op(WAVE, clave.Kernel(WAVE_SOURCE, grid=lambda x: x.shape[0] - 5, values=COUNT))
    s = session(wave_program(verify=False))
    with pytest.raises(
        clave.Error,
        match=r"grid: .* at most 2\^40 in all, got -2 in dimension 0.*check::wave; node \d+ \(custom",
    ):
        s(torch.ones(3, 4))
