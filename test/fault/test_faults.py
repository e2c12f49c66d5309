"""Nth allocation, Nth OpenCL call, lost devices, small limits, separate memory, no fp64, no platforms: an error of one
line or the right answer, and nothing left behind."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import safetensors.numpy
import safetensors.torch
import torch

SAN_BUILD = pathlib.Path("build/san")  # make check builds it first
CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fuzz/corpus"


class Net(torch.nn.Module):
    """A little of everything: convolution, pool, norm, GEMM, attention, indexing, a fused chain, state in place."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm, self.linear = torch.nn.LayerNorm(16), torch.nn.Linear(16, 16)
        self.table = torch.nn.Embedding(10, 16)
        self.register_buffer("cache", torch.zeros(4, 16))

    def forward(self, image, ids):
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv(image)), 2).flatten(2)  # (1, 8, 16)
        x = self.norm(x + self.table(ids)) * 0.5 + torch.tanh(x)
        self.cache[1:3] = x[0, :2]
        x = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        return torch.softmax(self.linear(torch.cat([x[0], self.cache.sum(0, keepdim=True)], 0)), -1)


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """(program, data file as test/replay.c reads it, inputs file, expected output)"""
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


@pytest.fixture(scope="module")
def stub(build, real_opencl):
    folder = build / "stub"
    if not (folder / "libOpenCL.so.1").exists():
        pytest.skip("the stub OpenCL is not built")
    return {"LD_LIBRARY_PATH": str(folder), "CLAVE_STUB_REAL": real_opencl, "CLAVE_DEVICE": ""}


def failures(out):
    """The failed lines of a runner, and how many tests it ran."""
    closing = re.search(r"^(\d+) passed, (\d+) failed$", out, re.M)
    return [line for line in out.splitlines() if line.startswith("FAIL")], closing and int(closing[1]) + int(closing[2])


def run_faults(runner, kind, net, device, tmp_path, env, first=0, step=1):
    command = [
        str(runner),
        kind,
        str(net[0]),
        str(net[1]),
        device,
        str(tmp_path / "out.safetensors"),
        str(first),
        str(step),
    ]
    p = subprocess.run(command, capture_output=True, text=True, env=os.environ | env, timeout=1500)
    bad, ran = failures(p.stdout)
    assert p.returncode == 0 and not bad, f"exit {p.returncode}\n" + "\n".join(bad[:20]) + p.stderr[-4000:]
    return ran


def test_every_allocation_on_cpu(net, build, tmp_path):
    runner = SAN_BUILD / "test/fault/run_faults"
    runner = runner if runner.exists() else build / "test/fault/run_faults"
    assert run_faults(runner, "alloc", net, "cpu", tmp_path, {}) > 50


def test_tokenizers(build):
    """Every allocation from file to text, with the small files that fuzzing begins with."""
    runner = SAN_BUILD / "test/fault/run_text_faults"
    runner = runner if runner.exists() else build / "test/fault/run_text_faults"
    files = [f for k in ("sentencepiece", "tiktoken", "tokenizer_json") for f in sorted(CORPUS.glob(f"{k}/*"))]
    assert files
    p = subprocess.run([str(runner), *map(str, files)], capture_output=True, text=True, timeout=600)
    bad, ran = failures(p.stdout)
    assert p.returncode == 0 and not bad, f"exit {p.returncode}\n" + "\n".join(bad[:20]) + p.stderr[-4000:]
    assert ran > 50 * len(files) / 2


def test_conversations(build, tmp_path):
    """Every allocation of a conversation, its fork and its file."""
    sys.path.insert(0, str(CORPUS.parents[1] / "llm"))
    import _models

    runner = SAN_BUILD / "test/fault/run_talk_faults"
    runner = runner if runner.exists() else build / "test/fault/run_talk_faults"
    program = _models.export(tmp_path / "m.clv", context=256)
    tokenizer = _models.byte_ranks(tmp_path / "bytes.tiktoken")
    command = [str(runner), str(program), str(tokenizer), str(tmp_path / "talk")]
    p = subprocess.run(command, capture_output=True, text=True, timeout=600)
    bad, ran = failures(p.stdout)
    assert p.returncode == 0 and not bad, f"exit {p.returncode}\n" + "\n".join(bad[:20]) + p.stderr[-4000:]
    assert ran > 200


def test_allocations_on_opencl(net, build, tmp_path, tmp_path_factory, everything):
    runner = SAN_BUILD / "test/fault/run_faults"
    runner = runner if runner.exists() else build / "test/fault/run_faults"
    cache = {"CLAVE_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}
    step = 1 if everything else 7
    assert run_faults(runner, "alloc", net, "opencl", tmp_path, cache, step=step) > 20


def test_every_opencl_call(net, build, stub, tmp_path, tmp_path_factory):
    cache = {"CLAVE_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}
    assert run_faults(build / "test/fault/run_faults", "calls", net, "opencl", tmp_path, stub | cache) > 50


def test_opencl_calls_without_cache(net, build, stub, tmp_path, everything):
    """Kernels are built and compared anew in each life: the calls that do so fail too."""
    step = 5 if everything else 41
    assert (
        run_faults(
            build / "test/fault/run_faults",
            "calls",
            net,
            "opencl",
            tmp_path,
            stub | {"CLAVE_CACHE_DIR": "off", "CLAVE_SELF_CHECK": "strict"},
            step=step,
        )
        > 5
    )


def command(build, env, *args):
    clean = {k: v for k, v in os.environ.items() if k != "CLAVE_DEVICE"}
    return subprocess.run(
        [str(build / "clave"), *map(str, args)], capture_output=True, text=True, env=clean | env, timeout=120
    )


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
    return {name: int(n) for name, n in (line.split() for line in path.read_text().splitlines())}


@pytest.mark.parametrize("fault", ["FAIL_AT", "LOST_AT"])
def test_command_line_survives_every_call(net, build, stub, tmp_path, everything, fault):
    """Whole processes: the device list is made once in each, so its calls can fail here only."""
    out, log = tmp_path / "out.safetensors", tmp_path / "log"
    cache = {"CLAVE_CACHE_DIR": str(tmp_path / "cache"), "CLAVE_STUB_LOG": str(log)}
    right_answer(run_net(build, net, stub | cache, out, "--device", "opencl"), net, out)
    right_answer(run_net(build, net, stub | cache, out, "--device", "opencl"), net, out)
    total = stub_log(log)["calls"]
    for n in range(0, total, 1 if everything else max(1, total // 25)):
        out.unlink(missing_ok=True)
        p = run_net(build, net, stub | cache | {f"CLAVE_STUB_{fault}": str(n)}, out, "--device", "opencl")
        if p.returncode == 0:
            right_answer(p, net, out)
        else:
            one_error(p, out)
        left = {k: v for k, v in stub_log(log).items() if k != "calls" and v > 0}
        assert not left, f"call {n}: still alive: {left}"


def test_copied_state_leaves_nothing(build, stub, tmp_path):
    """Device objects after sessions that read, wrote and copied their state."""
    log = tmp_path / "log"
    command = [str(build / "test/api/test_state")]
    p = subprocess.run(command, capture_output=True, text=True, env=os.environ | stub | {"CLAVE_STUB_LOG": str(log)})
    assert p.returncode == 0, p.stdout + p.stderr
    left = {k: v for k, v in stub_log(log).items() if k != "calls" and v > 0}
    assert not left, left


def test_binaries_of_another_driver_are_not_used(build, stub, tmp_path):
    """Each driver's version has its own kernels in the cache; the same one finds them again."""
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


def test_no_platforms(net, build, stub, tmp_path):
    out, none = tmp_path / "out.safetensors", stub | {"CLAVE_STUB_PLATFORMS": "0"}
    p = command(build, none, "devices")
    assert p.returncode == 0 and "pocl-opencl-icd" in p.stdout + p.stderr
    assert "opencl" in one_error(run_net(build, net, none, out, "--device", "opencl"), out)
    p = run_net(build, net, none, out)
    right_answer(p, net, out)
    assert "clave: note: " in p.stderr


def test_no_loader(net, build, tmp_path):
    """A file that is no library stands where the loader is searched for first."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libOpenCL.so.1").write_text("not a library")
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
    """The answer is right, perhaps by the CPU backend's help, which small work-groups do not need; a limit that is too
    small is an error."""
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


def test_f64_without_fp64(build, stub, tmp_path):
    """f64 ops go to the CPU backend where the device has none, or say so with --no-fallback."""
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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q"]))
