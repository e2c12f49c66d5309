"""Each failure ends in a one-line error or the right answer, without leaks: an allocation, an OpenCL call, a lost
device, small limits, separate memory, no fp64, no platforms."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest
import safetensors.numpy
import safetensors.torch
import torch

from clave.llm import KVCache

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "ci"))
import variants

pytestmark = pytest.mark.by_turn(9)

# Op cases with features that the network below lacks: nested bodies, dynamic sizes, sorting, scattering, LSTM.
CASES = [
    "control/cond_nested",
    "control/while_int",
    "control/scan_many",
    "nonzero/detections",
    "sort/dynamic",
    "scatter/reduce_f32",
    "softmax/in_a_row",
    *("rnn/lstm", "custom/rows"),
]
CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fuzz/corpus"


class Net(torch.nn.Module):
    """A network with convolution, pool, norm, GEMM, attention with a cache, indexing, a fused chain and state."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm, self.linear = torch.nn.LayerNorm(16), torch.nn.Linear(16, 16)
        self.table = torch.nn.Embedding(10, 16)
        self.register_buffer("cache", torch.zeros(4, 16))
        self.rows = KVCache(2, 12, 8)  # sessions choose its size

    def forward(self, image, ids):
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv(image)), 2).flatten(2)  # (1, 8, 16)
        x = self.norm(x + self.table(ids)) * 0.5 + torch.tanh(x)
        self.cache[1:3] = x[0, :2]
        heads = x.unflatten(-1, (2, 8)).transpose(1, 2)
        x = x + self.rows(heads, heads, heads, torch.tensor(0)).transpose(1, 2).flatten(2)
        return torch.softmax(self.linear(torch.cat([x[0], self.cache.sum(0, keepdim=True)], 0)), -1)


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """Returns (program, data file in the format of test/replay.c, inputs file, expected output)."""
    import clave

    folder = tmp_path_factory.mktemp("fault")
    args = (torch.randn(1, 3, 8, 8), torch.tensor([1, 5, 2, 9, 0, 3, 3, 7]))
    with torch.no_grad():
        clave.export(Net().eval(), args).save(str(folder / "net.clv"))
        want = Net().eval()(*args)
    inputs = {f"input_{i}": t for i, t in enumerate(args)}
    safetensors.torch.save_file(
        {f"in.A.{i}": t for i, t in enumerate(args)} | {"out.0.0": want}, folder / "data.safetensors"
    )
    safetensors.torch.save_file(inputs, folder / "in.safetensors")
    return folder / "net.clv", folder / "data.safetensors", folder / "in.safetensors", want.numpy()


def failures(out):
    """Returns the failed lines of a runner, and the number of tests that it ran."""
    closing = re.search(r"^(\d+) passed, (\d+) failed$", out, re.M)
    return [line for line in out.splitlines() if line.startswith("FAIL")], closing and int(closing[1]) + int(closing[2])


def binary(build, name, sanitized=True):
    """Returns the path, in CLAVE_SAN_BUILD if set. The stub excepted, because it would count the sanitizers' calls."""
    san = os.environ.get("CLAVE_SAN_BUILD") if sanitized else None
    return pathlib.Path(san or build) / "test/fault" / name


def run_checked(command, env):
    """Returns a finished process. LeakSanitizer itself can fail if a thread of the driver ends while it inspects it
    (signal 11 in its tracer). It then reports nothing about the program, which runs again."""
    for _ in range(3):
        p = subprocess.run(command, capture_output=True, text=True, env=env, timeout=1500)
        if "LeakSanitizer has encountered a fatal error" not in p.stderr:
            break
    return p


def run_faults(runner, *arguments, env=None, least):
    """Checks that all runs of a runner are good, and that there are at least `least` of them."""
    p = run_checked([str(a) for a in (runner, *arguments)], os.environ | (env or {}))
    bad, ran = failures(p.stdout)
    assert p.returncode == 0 and not bad, f"exit {p.returncode}\n" + "\n".join(bad[:20]) + p.stderr[-4000:]
    assert ran >= least, f"expected at least {least} runs, got {ran}"


def case(build, name):
    """Returns the program and the data of an op case."""
    program = build / "cases" / f"{name}.clv"
    if not program.exists():
        pytest.skip("the op cases are not built")
    return program, program.with_suffix(".safetensors")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Returns a cache, so that kernels are built once for all tests of this file."""
    return {"CLAVE_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}


def test_every_function_is_tried(root):
    """A runner calls every function that returns a status."""
    headers = "".join(h.read_text() for h in sorted((root / "include").glob("*.h")))
    functions = re.findall(r"CLAVE_API\s+clave_status\s+(clave_\w+)\(", headers)
    assert len(functions) >= 52
    runners = "".join(f.read_text() for f in sorted((root / "test/fault").glob("run_*.c")))
    runners += (root / "test/fault/net.h").read_text()
    missing = [f for f in functions if not re.search(rf"\b{f}\(", runners)]
    assert not missing, f"no fault runner calls {', '.join(missing)}"


def test_every_allocation_on_cpu(net, build, tmp_path):
    run_faults(binary(build, "run_faults"), "alloc", *net[:2], "cpu", tmp_path / "out", least=50)


@pytest.mark.parametrize("name", ["group_query", "past"])
def test_every_allocation_of_an_import(build, root, tmp_path, everything, name):
    """A language model in ONNX, of the fuzzers' corpus."""
    shutil.copy(root / f"test/fuzz/corpus/onnx/{name}.onnx", tmp_path / "model.onnx")
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 64}')
    run_faults(binary(build, "run_import_faults"), tmp_path, 0, 1 if everything else 7, least=50)


@pytest.mark.parametrize("name", CASES)
def test_every_allocation_of_a_case(build, tmp_path, name):
    run_faults(binary(build, "run_faults"), "alloc", *case(build, name), "cpu", tmp_path / "out", least=50)


def test_every_allocation_of_every_function(net, build, tmp_path, cache):
    run_faults(binary(build, "run_api_faults"), "alloc", *net[:2], "cpu", tmp_path, env=cache, least=150)


def test_every_allocation_of_a_builder(build):
    run_faults(binary(build, "run_builder_faults"), "alloc", least=30)


def test_allocations_of_tuning(root, build, tmp_path, everything):
    """After an error the stored table is whole, and sessions are right."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    mnist, step = root / "examples/mnist/mnist.clv", 1 if everything else 37
    run_faults(binary(build, "run_tune_faults"), mnist, "cpu", folder, step, least=10)


def test_tokenizers(build):
    """Every allocation from file to text fails once, for the small initial inputs of the fuzz targets."""
    files = [f for k in ("sentencepiece", "tiktoken", "tokenizer_json") for f in sorted(CORPUS.glob(f"{k}/*"))]
    assert files
    run_faults(binary(build, "run_text_faults"), *files, least=50 * len(files) // 2)


def test_templates(root, build):
    """Every allocation from a template's file to text fails once, for the templates with which fuzzing begins."""
    files = sorted((root / "test/jinja/templates").glob("*.jinja"))
    assert files
    run_faults(binary(build, "run_template_faults"), *files, least=80 * len(files))


def test_allocations_on_opencl(net, build, tmp_path, cache, everything):
    run = binary(build, "run_faults")
    run_faults(run, "alloc", *net[:2], "opencl", tmp_path / "out", 0, 1 if everything else 7, env=cache, least=20)


@pytest.mark.parametrize("name", CASES)
def test_allocations_of_a_case_on_opencl(build, tmp_path, cache, everything, name):
    run, step = binary(build, "run_faults"), 1 if everything else 29
    run_faults(run, "alloc", *case(build, name), "opencl", tmp_path / "out", 0, step, env=cache, least=3)


def test_allocations_of_every_function_on_opencl(net, build, tmp_path, cache, everything):
    run, step = binary(build, "run_api_faults"), 1 if everything else 23
    run_faults(run, "alloc", *net[:2], "opencl", tmp_path, 0, step, env=cache, least=10)


def test_allocations_on_a_hosts_opencl(net, build, cache, everything):
    run, step = binary(build, "run_opencl_faults"), 1 if everything else 11
    run_faults(run, "alloc", *net[:2], 0, step, env=cache, least=20)


def test_every_opencl_call(net, build, stub, tmp_path, cache):
    run = binary(build, "run_faults", sanitized=False)
    run_faults(run, "calls", *net[:2], "opencl", tmp_path / "out", env=stub | cache, least=50)


@pytest.mark.parametrize("name", CASES)
def test_opencl_calls_of_a_case(build, stub, tmp_path, cache, everything, name):
    run, step = binary(build, "run_faults", sanitized=False), 1 if everything else 31
    run_faults(run, "calls", *case(build, name), "opencl", tmp_path / "out", 0, step, env=stub | cache, least=5)


def test_opencl_calls_of_every_function(net, build, stub, tmp_path, cache, everything):
    run, step = binary(build, "run_api_faults", sanitized=False), 1 if everything else 13
    run_faults(run, "calls", *net[:2], "opencl", tmp_path, 0, step, env=stub | cache, least=30)


def test_calls_on_a_hosts_opencl(net, build, stub, cache, everything):
    run, step = binary(build, "run_opencl_faults", sanitized=False), 1 if everything else 13
    run_faults(run, "calls", *net[:2], 0, step, env=stub | cache, least=20)


def test_opencl_calls_without_cache(net, build, stub, tmp_path, everything):
    """Each run builds and compares kernels again, so these calls fail, too."""
    run, step = binary(build, "run_faults", sanitized=False), 5 if everything else 41
    none = stub | {"CLAVE_CACHE_DIR": "off", "CLAVE_SELF_CHECK": "strict"}
    run_faults(run, "calls", *net[:2], "opencl", tmp_path / "out", 0, step, env=none, least=5)


def test_allocations_while_the_cpu_backend_answers(net, build, tmp_path, cache, everything):
    run, step = binary(build, "run_warm_up_faults"), 1 if everything else 13
    run_faults(run, "alloc", *net[:2], "opencl", 0, step, env=cache, least=20)


def test_opencl_calls_while_the_cpu_backend_answers(net, build, stub, cache, everything):
    run, step = binary(build, "run_warm_up_faults", sanitized=False), 1 if everything else 5
    run_faults(run, "calls", *net[:2], "opencl", 0, step, env=stub | cache, least=20)


def test_a_device_that_is_lost_while_the_cpu_backend_answers(net, build, stub, tmp_path):
    """All calls fail from call N on. The results are still right, by the CPU backend."""
    out = tmp_path / "out.safetensors"
    for name in ("clBuildProgram", "clCreateKernel", "clCreateBuffer"):
        lost = {"CLAVE_STUB_FAIL_NAME": name, "CLAVE_STUB_LOST_AT": "12", "CLAVE_CACHE_DIR": "off"}
        p = run_net(build, net, stub | lost, out, "--device", "opencl", "--warm-up", "background")
        right_answer(p, net, out)
        assert "the CPU backend computed the result" in p.stderr


def command(build, env, *args):
    """env: variables that change; None removes one."""
    env = {k: v for k, v in (os.environ | {"CLAVE_DEVICE": None} | env).items() if v is not None}
    return subprocess.run([str(build / "clave"), *map(str, args)], capture_output=True, text=True, env=env, timeout=120)


def run_net(build, net, env, out, *args):
    return command(build, env, "run", net[0], "--inputs", net[2], "--outputs", out, *args)


def one_error(p, out):
    errors = [line for line in p.stderr.splitlines() if not line.startswith("clave: note: ")]
    assert p.returncode == 1 and p.stdout == "", (p.returncode, p.stdout, p.stderr)
    assert len(errors) == 1 and errors[0].startswith("clave: "), p.stderr
    assert not out.exists() and not list(out.parent.glob("out*")), list(out.parent.iterdir())
    return errors[0]


def right_answer(p, net, out):
    assert p.returncode == 0, p.stderr
    got = safetensors.numpy.load_file(out)["output_0"]
    assert abs(got - net[3]).max() < 1e-3


def stub_log(path):
    return {k: int(n) for k, n in (line.split() for line in path.read_text().splitlines())}


@pytest.mark.parametrize("fault", ["FAIL_AT", "LOST_AT"])
def test_command_line_survives_every_call(net, build, stub, tmp_path, everything, fault):
    """Each process makes the device list once, so its calls can fail only here."""
    out, log = tmp_path / "out.safetensors", tmp_path / "log"
    cache = {"CLAVE_CACHE_DIR": str(tmp_path / "cache"), "CLAVE_STUB_LOG": str(log)}
    right_answer(run_net(build, net, stub | cache, out, "--device", "opencl"), net, out)
    right_answer(run_net(build, net, stub | cache, out, "--device", "opencl"), net, out)
    total = stub_log(log)["calls"]
    for n in range(0, total, 1 if everything else max(1, total // 25)):
        out.unlink(missing_ok=True)
        p = run_net(build, net, stub | cache | {f"CLAVE_STUB_{fault}": str(n)}, out, "--device", "opencl")
        right_answer(p, net, out) if p.returncode == 0 else one_error(p, out)
        left = {k: v for k, v in stub_log(log).items() if k != "calls" and v > 0}
        assert not left, f"call {n}: still alive: {left}"


REFUSED = {"CLAVE_STUB_FAIL_NAME": "clBuildProgram", "CLAVE_STUB_ERROR": "-11"}  # CL_BUILD_PROGRAM_FAILURE


@pytest.mark.parametrize("first", [0, 1, 4])
def test_kernels_that_do_not_build(net, build, stub, tmp_path, first):
    """From build number `first` on, builds fail: those ops run on the CPU backend, with one note per op."""
    out, log = tmp_path / "out.safetensors", tmp_path / "log"
    env = stub | REFUSED | {"CLAVE_STUB_LOST_AT": str(first), "CLAVE_CACHE_DIR": "off", "CLAVE_STUB_LOG": str(log)}
    p = run_net(build, net, env, out, "--device", "opencl")
    right_answer(p, net, out)
    notes = [line for line in p.stderr.splitlines() if "it runs on the CPU backend" in line]
    ops = [line.split(" cannot run")[0] for line in notes]
    assert len(notes) >= 3 and len(ops) == len(set(ops)), p.stderr
    assert all("CL_BUILD_PROGRAM_FAILURE" in line for line in notes), p.stderr
    left = {k: v for k, v in stub_log(log).items() if k != "calls" and v > 0}
    assert not left, left
    out.unlink()
    for devices in ("opencl", "opencl,cpu"):
        p = run_net(build, net, env, out, "--device", devices, "--no-fallback")
        assert "CL_BUILD_PROGRAM_FAILURE" in one_error(p, out)


@pytest.fixture
def product(build, tmp_path):
    """Returns a function that runs x @ x @ x as a GPU with some variables, checks the result and returns stderr."""
    import clave

    x, out, inputs = torch.randn(160, 160) / 13, tmp_path / "out.safetensors", tmp_path / "in.safetensors"
    products = type("Products", (torch.nn.Module,), {"forward": lambda _, x: (x @ x) @ x})()
    clave.export(products, (x,)).save(str(tmp_path / "p.clv"))
    safetensors.torch.save_file({"input_0": x}, inputs)

    def run(env):
        p = command(build, env, "run", tmp_path / "p.clv", "--inputs", inputs, "--outputs", out, "--device", "opencl")
        assert p.returncode == 0 and "CPU backend" not in p.stderr, p.stderr
        assert abs(safetensors.numpy.load_file(out)["output_0"] - (x @ x @ x).numpy()).max() < 1e-4
        return p.stderr

    return run


def test_clblast_that_fails(build, stub, product):
    """If CLBlast fails on a product, clave's kernel computes it on the device, and later ones without trying it."""
    env = os.environ | stub | {"CLAVE_DEVICE_CLASS": "gpu"}
    with variants.forced(build / "clave", "opencl", [("matmul", "clblast")], env) as env:
        assert product(env | REFUSED | {"CLAVE_STUB_FAIL_AT": "0"}).count("CLBlast fails on") == 1


def test_build_options_that_are_refused(stub, product):
    """A driver may not know an option for its vendor's compilers. The kernel is built without it, with a note."""
    env = {"CLAVE_STUB_EXTENSION": " cl_intel_required_subgroup_size", "CLAVE_DEVICE_CLASS": "gpu"}
    assert product(stub | env | {"CLAVE_CACHE_DIR": "off"}).count("refuses an option for more registers") == 1


def test_kernels_of_small_groups(net, build, stub, tmp_path):
    """A kernel may support only smaller work-groups than its device, because the compiler chooses its registers."""
    out, env = tmp_path / "out.safetensors", stub | {"CLAVE_STUB_KERNEL_GROUP": "32", "CLAVE_DEVICE_CLASS": "gpu"}
    p = run_net(build, net, env, out, "--device", "opencl")
    right_answer(p, net, out)
    assert "the device allows at most 32 work-items in a group" in p.stderr and "it runs on the CPU backend" in p.stderr
    out.unlink()
    error = one_error(run_net(build, net, env, out, "--device", "opencl", "--no-fallback"), out)
    assert "the device allows at most 32 work-items in a group, got 64" in error


PLACES = """
import sys, clave, dataclasses, json, safetensors.numpy
session, inputs = clave.Session(sys.argv[1], device="opencl"), safetensors.numpy.load_file(sys.argv[2])
before = session.placement()
session.run(*(inputs[f"input_{i}"] for i in range(len(inputs))))
print(json.dumps([[dataclasses.asdict(p) for p in places] for places in (before, session.placement())]))
"""


def test_placement_of_moved_ops(net, build, stub):
    """After a run, a session reports for each op that the device cannot run where it ran, and why."""
    env = os.environ | stub | {"CLAVE_STUB_KERNEL_GROUP": "32", "CLAVE_DEVICE_CLASS": "gpu", "CLAVE_CACHE_DIR": "off"}
    p = subprocess.run([sys.executable, "-c", PLACES, net[0], net[2]], capture_output=True, text=True, env=env)
    assert p.returncode == 0, p.stderr
    before, after = json.loads(p.stdout)
    assert len(before) == len(after) and all(n["supported"] and n["reason"] is None for n in before), before
    moved = {n["op"] for n in after if n["where"] == "cpu"}
    assert {"conv", "matmul"} <= moved and "softmax" not in moved, after  # softmax has a kernel without work-groups
    for n in after:
        elsewhere = n["where"] == "cpu" or n["reason"] is not None
        assert n["supported"] != elsewhere, n
        assert not elsewhere or "the device allows at most 32 work-items in a group, got" in n["reason"], n


@pytest.mark.parametrize("name", ["control/while_int", "nonzero/detections", "control/scan_many", "control/cond_item"])
def test_kernels_of_late_parts_that_do_not_build(build, stub, name):
    """If a size depends on data, some kernels are first needed after a part of the run has ended."""
    case(build, name)
    for first in (1, 2, 4):
        env = stub | REFUSED | {"CLAVE_STUB_LOST_AT": str(first), "CLAVE_CACHE_DIR": "off"}
        replay = [build / "test/replay", build / "cases/index.tsv", "--device", "opencl", "--fallback", "--only", name]
        p = subprocess.run([str(a) for a in replay], capture_output=True, text=True, env=os.environ | env, timeout=120)
        assert p.returncode == 0 and "0 failed" in p.stdout, (first, p.stdout, p.stderr)


@pytest.mark.parametrize("fault", ["FAIL_AT", "LOST_AT"])
def test_faults_of_children_that_build(net, build, stub, tmp_path, everything, fault):
    """The same calls fail in the process and in those that build its kernels: an error or the right answer."""
    out, env = tmp_path / "out.safetensors", stub | {"CLAVE_HELPER": ""}
    for i, n in enumerate((3, 12, 30, 45, 60, 80) if not everything else range(100)):
        env |= {"CLAVE_CACHE_DIR": str(tmp_path / f"cache{i}"), f"CLAVE_STUB_{fault}": str(n)}
        out.unlink(missing_ok=True)
        p = run_net(build, net, env, out, "--device", "opencl")
        if p.returncode == 0:
            right_answer(p, net, out)
        else:
            one_error(p, out)


def test_copied_state_leaves_nothing(build, stub, tmp_path):
    """No device objects remain after sessions that read, wrote and copied their state."""
    log = tmp_path / "log"
    command = [str(build / "test/api/test_state")]
    p = subprocess.run(command, capture_output=True, text=True, env=os.environ | stub | {"CLAVE_STUB_LOG": str(log)})
    assert p.returncode == 0, p.stdout + p.stderr
    left = {k: v for k, v in stub_log(log).items() if k != "calls" and v > 0}
    assert not left, left


class Growing(torch.nn.Module):
    """Products whose scratch memory grows during a run: the second is planned when a number is read from the device."""

    def forward(self, x):
        small, n = x[:20, :20] @ x[:20, :20].t(), (x > 10).sum().item()
        return small, (x + n) @ x.t()


def test_scratch_that_grows_leaves_nothing(build, stub, tmp_path):
    import clave

    x, log, out = torch.randn(100, 90), tmp_path / "log", tmp_path / "out.safetensors"
    clave.export(Growing(), (x,)).save(str(tmp_path / "g.clv"))
    safetensors.torch.save_file({"input_0": x}, tmp_path / "in.safetensors")
    env = stub | {"CLAVE_STUB_LOG": str(log), "CLAVE_DEVICE_CLASS": "cpu"}
    args = "run", tmp_path / "g.clv", "--inputs", tmp_path / "in.safetensors", "--outputs", out, "--device", "opencl"
    p = command(build, env, *args, "--no-fallback")
    assert p.returncode == 0, p.stderr
    for name, want in zip(("output_0", "output_1"), Growing()(x), strict=True):
        assert abs(safetensors.numpy.load_file(out)[name] - want.numpy()).max() < 1e-3
    left = {k: v for k, v in stub_log(log).items() if k != "calls" and v > 0}
    assert not left, left


def test_binaries_of_another_driver_are_not_used(build, stub, tmp_path):
    """Each driver version has its own kernels in the cache; the same version finds them again."""
    import clave

    program, inputs, counts = tmp_path / "p.clv", tmp_path / "in.safetensors", []
    clave.export(torch.nn.Softmax(-1), (torch.ones(2, 3),)).save(str(program))
    safetensors.torch.save_file({"input_0": torch.ones(2, 3)}, inputs)
    for driver in ("1.0", "1.0", "2.0"):
        env = stub | {"CLAVE_CACHE_DIR": str(tmp_path / "cache"), "CLAVE_STUB_DRIVER": driver}
        p = command(build, env, "run", program, "--inputs", inputs, "--device", "opencl")
        assert p.returncode == 0, p.stderr
        counts.append(len(list((tmp_path / "cache").rglob("*.clbin"))))
    assert counts == [1, 1, 2]


def test_failing_device_list(build, stub, everything):
    for n in range(60 if everything else 20):
        p = command(build, stub | {"CLAVE_STUB_FAIL_AT": str(n)}, "devices")
        assert p.returncode in (0, 1) and len(p.stderr.splitlines()) <= 1, (n, p.stderr)


def test_a_default_device_that_cannot_be_opened(net, build, stub, tmp_path):
    """The next device by rank runs, and after all GPUs the CPU backend. A device that is named is an error."""
    out, code = tmp_path / "out.safetensors", "clCreateContext: CL_OUT_OF_HOST_MEMORY (-6)"
    env = stub | {"POCL_DEVICES": "pthread basic", "CLAVE_STUB_GPU": "1", "CLAVE_CACHE_DIR": "off"}
    env |= {"CLAVE_STUB_FAIL_NAME": "clCreateContext", "CLAVE_STUB_ERROR": "-6"}
    p = run_net(build, net, env | {"CLAVE_STUB_FAIL_AT": "0"}, out, "--no-fallback")
    right_answer(p, net, out)
    assert p.stderr.count(code) == 1, p.stderr
    out.unlink()
    p = run_net(build, net, env | {"CLAVE_STUB_LOST_AT": "0"}, out)
    right_answer(p, net, out)
    assert p.stderr.count(f" is not used: {code}") == 2, p.stderr
    out.unlink()
    assert code in one_error(run_net(build, net, env | {"CLAVE_STUB_FAIL_AT": "0"}, out, "--device", "opencl"), out)


def test_no_platforms(net, build, stub, tmp_path):
    out, none = tmp_path / "out.safetensors", stub | {"CLAVE_STUB_PLATFORMS": "0"}
    p = command(build, none, "devices")
    assert p.returncode == 0 and "pocl-opencl-icd" in p.stdout + p.stderr
    assert "opencl" in one_error(run_net(build, net, none, out, "--device", "opencl"), out)
    p = run_net(build, net, none, out)
    right_answer(p, net, out)
    assert "clave: note: " in p.stderr


def test_pocl_without_a_cache(build, tmp_path):
    """PoCL hides its device if it cannot create its cache folder; the note names the cause and the remedy."""
    p = command(build, {"POCL_CACHE_DIR": "/dev/null/pocl"}, "devices")
    if "opencl" in p.stdout:
        pytest.skip("another platform has a device")
    assert p.returncode == 0 and "PoCL" in p.stderr and "POCL_CACHE_DIR" in p.stderr, p.stderr
    assert "opencl" in command(build, {"POCL_CACHE_DIR": str(tmp_path)}, "devices").stdout


def test_no_loader(net, build, tmp_path):
    """The first files on the search path are not libraries."""
    (tmp_path / "lib").mkdir()
    for name in ("libOpenCL.so.1", "libOpenCL.so"):
        (tmp_path / "lib" / name).write_text("not a library")
    out = tmp_path / "out.safetensors"
    p = run_net(build, net, {"LD_LIBRARY_PATH": str(tmp_path / "lib")}, out, "--device", "cpu")
    right_answer(p, net, out)


@pytest.mark.parametrize(
    "limits",
    [
        {"SEPARATE": "1"},
        {"NO_FP64": "1"},
        {"NO_FP16": "1"},
        {"SEPARATE": "1", "MAX_ALLOC": "4096"},
        {"MAX_ALLOC": "65536"},
        {"MAX_GROUP": "1", "LOCAL_MEM": "32768"},
        {"MAX_GROUP": "16"},
    ],
    ids=lambda d: "-".join(d).lower(),
)
def test_lesser_devices(net, build, stub, tmp_path, limits):
    """Results are right, perhaps with the CPU backend, which small work-groups do not need. A limit too small is an
    error."""
    out, log = tmp_path / "out.safetensors", tmp_path / "log"
    env = stub | {f"CLAVE_STUB_{k}": v for k, v in limits.items()} | {"CLAVE_STUB_LOG": str(log)}
    alone = ["--no-fallback"] if "MAX_GROUP" in limits else []
    p = run_net(build, net, env, out, "--device", "opencl", *alone)
    if p.returncode == 0 or "MAX_ALLOC" not in limits:
        right_answer(p, net, out)
    else:
        one_error(p, out)
    left = {k: v for k, v in stub_log(log).items() if k != "calls" and v > 0}
    assert not left, left


def test_a_trace_has_one_clock(net, build, stub, tmp_path):
    """The device's clock may start anywhere: its events must be within the process's time."""
    out, trace = tmp_path / "out.safetensors", tmp_path / "trace.json"
    start = time.monotonic()
    env = stub | {"CLAVE_STUB_CLOCK": "100000"}
    right_answer(run_net(build, net, env, out, "--device", "opencl", "--profile", trace), net, out)
    events = [e for e in json.loads(trace.read_text()) if e["ph"] == "X"]
    assert {e["cat"] for e in events} >= {"op"}
    for e in events:
        assert start <= e["ts"] * 1e-6 <= (e["ts"] + e["dur"]) * 1e-6 <= time.monotonic(), e


def test_f64_without_fp64(build, stub, tmp_path):
    """f64 ops run on the CPU backend if the device has no fp64; with --no-fallback they are an error."""
    import clave

    class Double(torch.nn.Module):
        def forward(self, x):
            return (x.double() * 2).sum()

    x, out = torch.randn(5, 5), tmp_path / "out.safetensors"
    clave.export(Double(), (x,)).save(str(tmp_path / "d.clv"))
    safetensors.torch.save_file({"input_0": x}, tmp_path / "in.safetensors")
    env = stub | {"CLAVE_STUB_NO_FP64": "1"}
    args = [
        "run",
        tmp_path / "d.clv",
        "--inputs",
        tmp_path / "in.safetensors",
        "--outputs",
        out,
        "--device",
        "opencl,cpu",
    ]
    p = command(build, env, *args)
    assert p.returncode == 0, p.stderr
    assert abs(safetensors.numpy.load_file(out)["output_0"] - (x.double() * 2).sum().numpy()) < 1e-12
    out.unlink()
    assert "fp64" in one_error(command(build, env, *args, "--no-fallback"), out)
    inspect = "inspect", tmp_path / "d.clv", "--placement", "--json", "--device", "opencl"
    for flags, elsewhere in (((), "cpu"), (("--no-fallback",), "none")):
        p = command(build, env, *inspect, *flags)
        assert p.returncode == 0, p.stderr
        nodes = json.loads(p.stdout)["methods"][0]["nodes"]
        assert len(nodes) == 3 and {n["where"] for n in nodes} <= {elsewhere, "fused"}, nodes
        assert all("fp64" in n["reason"] for n in nodes), nodes
