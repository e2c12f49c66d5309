"""clave verify against torch's results (clave.reference), the CPU backend, the program without its passes, and an
executable: planted faults are found, and the faulty node is named."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest
import torch
from _export import Fn
from safetensors.torch import load_file, save_file
from torch import nn

import clave
from clave import reference

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Net(nn.Module):
    """Convolutions with weights of one shape, a norm that is folded, attention, a sort, and two results."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.third = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.apart = nn.Conv2d(8, 8, 3, stride=3)
        self.join, self.scale, self.out = nn.Linear(8, 24), nn.LayerNorm(8), nn.Linear(8, 5)
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for p in (*self.parameters(), *self.norm.buffers()):
                if p.is_floating_point():
                    p.copy_(torch.randn(p.shape, generator=generator) / 4 + (p.dim() == 1))
            self.norm.running_var.abs_().add_(0.5)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = self.third(x + torch.relu(self.second(x)))
        far = self.apart(x).sum((1, 2, 3))
        x = x.flatten(2).transpose(1, 2)
        q, k, v = self.join(self.scale(x)).chunk(3, -1)
        x = x + torch.softmax(q @ k.transpose(1, 2) / 8**0.5, -1) @ v
        return self.out(x.mean(1)), x.topk(2, 1).indices, far


def example():
    return (torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1)),)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, build):
    """Writes raw.json (without passes), m.json (with all passes) and r.safetensors (torch's results)."""
    folder = tmp_path_factory.mktemp("verify")
    net = Net().eval()
    (folder / "raw").mkdir()
    clave.export(net, example(), passes=(), verify=False).save(folder / "raw/m.json")
    clave.export(net, example(), verify=False).save(folder / "m.json")
    reference.write(folder / "r.safetensors", reference.reference(net, example()))
    return folder


@pytest.fixture(scope="module")
def verify(build):
    """Returns (exit status, output, the error line) of a run on the CPU backend, or on the device in env."""

    def run(*args, **env):
        p = subprocess.run(
            [str(build / "clave"), "verify", *map(str, args)],
            capture_output=True,
            text=True,
            env=os.environ | {"CLAVE_DEVICE": "cpu"} | env,
        )
        lines = [x for x in p.stderr.splitlines() if not x.startswith("clave: note: ")]
        assert len(lines) == (p.returncode != 0), p.stderr
        return p.returncode, p.stdout, "".join(lines).removeprefix("clave: ")

    return run


def changed(folder, change, raw=False):
    """Returns the program with its JSON changed by change(constants, instructions by name); constants are the same."""
    source = folder / "raw" if raw else folder
    program = json.loads((source / "m.json").read_text())
    instructions = {}
    for i in program["chains"][0]["instructions"]:
        instructions.setdefault(i["name"], i["op"])
    change(program, instructions)
    made = folder / f"changed{len(list(folder.iterdir()))}"
    made.mkdir()
    (made / "m.json").write_text(json.dumps(program))
    shutil.copy(source / "consts.safetensors", made)
    return made / "m.json"


def found(error):
    """Returns (op, name, the other side of the comparison, where the error was made) of an error line."""
    m = re.match(
        r"node \d+ \((\S+) (\S+)\) is the first that differs from (.+?): .*?; (the error arises there|amplified)", error
    )
    assert m, error
    return m.groups()


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("name", ["m.json", "raw/m.json"])
def test_what_is_right(verify, folder, name, device):
    code, out, error = verify(folder / name, "--reference", folder / "r.safetensors", CLAVE_DEVICE=device)
    assert code == 0, error
    assert re.search(r"^nodes    (16|20) results equal to the reference$", out, re.M), out
    assert "outputs  3 equal to the reference" in out and ("ops " in out) == (device != "cpu")
    assert ("fusion   3 outputs equal" in out) == (device == "cpu")
    if name == "m.json":
        assert "passes   nothing to rewrite" in out
    else:
        assert re.search(r"passes   1\d results equal after \d rewrites", out), out


def test_without_a_reference(verify, folder):
    code, out, _ = verify(folder / "raw/m.json", "--run")
    assert code == 0 and "passes   1" in out
    assert verify(folder / "raw/m.json")[1] == "program  good: structure, shapes, dtypes, hashes\n"
    x = folder / "x.safetensors"
    save_file({"x": example()[0]}, x)
    assert verify(folder / "raw/m.json", "--inputs", x)[0] == 0
    code, _, error = verify(folder / "m.json", "--inputs", x, "--reference", folder / "r.safetensors")
    assert code == 1 and "--reference and --inputs exclude each other" in error


# ---------------------------------------------------------------- planted faults


def test_a_swapped_weight(verify, folder):
    def swap(_, by):
        a, b = by["second"], by["third"]
        a["weight"], b["weight"] = b["weight"], a["weight"]

    code, _, error = verify(changed(folder, swap), "--reference", folder / "r.safetensors")
    assert code == 1 and found(error) == ("conv", "second", "the reference", "the error arises there")
    assert "third.weight F32 [8, 8, 3, 3] in [" in error  # its operands


def test_a_wrong_stride(verify, folder):
    def widen(_, by):
        assert by["apart"]["stride"] == [3, 3]
        by["apart"]["stride"] = [3, 4]

    code, _, error = verify(changed(folder, widen), "--reference", folder / "r.safetensors")
    assert code == 1 and found(error) == ("conv", "apart", "the reference", "the error arises there")


def test_a_wrong_axis(verify, folder):
    def turn(_, by):
        assert by["softmax"]["axis"] == 2
        by["softmax"]["axis"] = 1

    code, _, error = verify(changed(folder, turn, raw=True), "--reference", folder / "r.safetensors")
    assert code == 1 and found(error) == ("softmax", "softmax", "the reference", "the error arises there")


def test_a_wrong_fold(verify, folder):
    """A constant that a pass computed is off by a thousandth."""
    program = clave.Program.load(folder / "m.json").schema
    tensors = load_file(folder / "consts.safetensors")
    constants = [tensors[c.name].clone() for c in program.constants]
    at = next(i for i, c in enumerate(program.constants) if ".folded" in c.name)
    constants[at] *= 1.001
    path = folder / "fold.clv"
    clave.Program(program, constants).save(path)
    code, _, error = verify(path, "--reference", folder / "r.safetensors")
    name = "norm"
    assert code == 1 and found(error) == ("conv", name, "the reference", "the error arises there")
    assert ".folded" in error


@pytest.mark.by_turn(9)
def test_a_wrong_kernel(verify, folder):
    """A kernel of the device is wrong; without a reference, it is compared with the CPU backend."""
    kernels = folder / "kernels"
    shutil.copytree(ROOT / "kernels_cl", kernels)
    source = kernels / "softmax.cl"
    right = source.read_text()
    assert right.count("/ (total)") == 2
    source.write_text(right.replace("/ (total)", "/ (1.0001f * (total))"))
    env = {"CLAVE_KERNEL_DIR": str(kernels), "CLAVE_CACHE_DIR": "off", "CLAVE_DEVICE": "opencl"}
    code, out, error = verify(folder / "raw/m.json", "--run", "--json", **env)
    assert code == 1 and found(error) == ("softmax", "softmax", "the CPU backend", "the error arises there")
    stage = next(s for s in json.loads(out)["stages"] if s["stage"] == "device")
    verdicts = {n["name"]: n["verdict"] for n in stage["nodes"]}
    assert verdicts["softmax"] == "wrong" and verdicts["third"] == "good"
    assert verdicts["matmul_1"] == "amplified"  # its own products are right
    wrong = next(n for n in stage["nodes"] if n["name"] == "softmax")
    assert wrong["own"]["largest"] > wrong["own"]["allowed"] > 0 and stage["differs"] == error


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_fast_precision(verify, tmp_path, device_class):
    """The CPU backend's kernels round operands to BF16 if the processor has an instruction for it; GPU kernels without
    such an instruction do not. Neither is wrong; a result that is off by a hundredth is."""
    torch.manual_seed(2)
    net = torch.nn.Sequential(torch.nn.Conv2d(20, 40, 3, 2), torch.nn.Flatten(2), torch.nn.Linear(49, 70))
    clave.export(net.eval(), (torch.randn(2, 20, 15, 15),), verify=False).save(tmp_path / "m.clv")
    env = {"CLAVE_PRECISION": "fast", "CLAVE_DEVICE": "opencl", "CLAVE_DEVICE_CLASS": device_class}
    code, out, error = verify(tmp_path / "m.clv", "--run", **env)
    assert code == 0 and re.search("^ops +[0-9]+ results equal", out, re.M), error
    wrong = tmp_path / "kernels"
    shutil.copytree(ROOT / "kernels_cl", wrong)
    for source in ("conv/conv.cl", "conv/conv_groups.cl", "gemm/matmul.h"):
        text = (wrong / source).read_text()
        (wrong / source).write_text(text.replace("HAS_BIAS ?", "HAS_BIAS && 0 ?").replace("#if HAS_BIAS", "#if 0"))
    env |= {"CLAVE_KERNEL_DIR": str(wrong), "CLAVE_CACHE_DIR": "off", "CLAVE_SELF_CHECK": "off"}
    code, _, error = verify(tmp_path / "m.clv", "--run", **env)
    assert code == 1 and found(error)[2:] == ("the CPU backend", "the error arises there")


def test_a_reference_of_other_weights(verify, folder):
    other = Net().eval()
    with torch.no_grad():
        other.join.weight[3] *= 1.01
    path = folder / "other.safetensors"
    reference.write(path, reference.reference(other, example()))
    code, _, error = verify(folder / "m.json", "--reference", path)
    assert code == 1 and found(error) == ("matmul", "join", "the reference", "the error arises there")


def test_outputs_alone(verify, folder):
    """If the file has no nodes, the error names the output."""
    tensors = {k: x for k, x in load_file(folder / "r.safetensors").items() if not k.startswith("node.")}
    path = folder / "outputs.safetensors"
    save_file(tensors, path)
    code, out, _ = verify(folder / "m.json", "--reference", path)
    assert code == 0 and "nodes " not in out
    tensors["output_1"][1, 0, 2] += 1
    save_file(tensors, path)
    code, _, error = verify(folder / "m.json", "--reference", path)
    assert code == 1 and error.startswith(
        "output_1 (output_1) differs from the reference: I64 [2, 2, 8] at element 18:"
    )


@pytest.mark.by_turn(22)
def test_an_executable(verify, build, tmp_path):
    clave.export(Fn(lambda x: (x + 1, x * 2)), (torch.ones(5),)).save(tmp_path / "m.clv")
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    subprocess.run([str(build / "clave"), "compile", str(tmp_path / "m.clv"), "-o", str(right), "--debug"], check=True)
    wrong.write_text(f'#!/bin/sh\n{right} "$@" && printf "\\1" | dd of="$3" seek=8 bs=1 conv=notrunc\n')
    wrong.chmod(0o755)
    code, out, error = verify(tmp_path / "m.clv", "--executable", right)
    assert code == 0 and "2 outputs of" in out and "bit for bit" in out, error
    code, _, error = verify(tmp_path / "m.clv", "--executable", wrong)
    assert code == 1 and error.startswith(
        f"output_1 (output_1) of {wrong} differs from the CPU backend: at element 2: "
    )


@pytest.mark.by_turn(22)
def test_an_executable_for_opencl(verify, build, tmp_path):
    """The executable is compared with a session on the device on which it runs."""
    weight = torch.nn.Linear(40, 30)
    clave.export(Fn(lambda x: weight(x.exp()).softmax(1)), (torch.ones(5, 40),)).save(tmp_path / "m.clv")
    words = [build / "clave", "compile", tmp_path / "m.clv", "-o", tmp_path / "right", "--target", "opencl"]
    subprocess.run(words, check=True)
    code, out, error = verify(tmp_path / "m.clv", "--executable", tmp_path / "right", CLAVE_DEVICE="opencl")
    assert code == 0 and "equal to this machine's device, bit for bit" in out, error
    wrong = tmp_path / "wrong"
    wrong.write_text(f'#!/bin/sh\n{tmp_path}/right "$@" && printf "\\1" | dd of="$2" seek=8 bs=1 conv=notrunc\n')
    wrong.chmod(0o755)
    code, _, error = verify(tmp_path / "m.clv", "--executable", wrong, CLAVE_DEVICE="opencl")
    assert code == 1 and "differs from this machine's device: at element 2: " in error
    code, _, error = verify(tmp_path / "m.clv", "--executable", tmp_path / "right")
    assert code == 1 and 'needs an OpenCL device, and CLAVE_DEVICE selects "cpu"' in error


def test_an_executable_is_interrupted(build, folder, tmp_path):
    """Ctrl-C ends it, too, and leaves no files."""
    slow, temporary = tmp_path / "slow", tmp_path / "temporary"
    temporary.mkdir()
    slow.write_text("#!/bin/sh\necho begun\nexec sleep 60\n")
    slow.chmod(0o755)
    words = [build / "clave", "verify", folder / "m.json", "--executable", slow]
    p = subprocess.Popen(words, env=os.environ | {"TMPDIR": str(temporary)}, stderr=subprocess.PIPE, text=True)
    while not any(log.stat().st_size for log in temporary.glob("clave-verify-*/log_*")):
        assert p.poll() is None, p.stderr.read()
        time.sleep(0.01)
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=30)
    assert p.returncode == 130
    assert list(temporary.iterdir()) == []


def test_no_executable(verify, folder):
    for path, what in (("nowhere", "No such file"), (folder / "m.json", ""), ("/bin/false", "exit status 1")):
        code, out, error = verify(folder / "m.json", "--executable", path)
        assert (code, out) == (1, "") and str(path) in error and what in error


# ---------------------------------------------------------------- reports


def test_the_table(verify, folder):
    code, out, _ = verify(folder / "m.json", "--reference", folder / "r.safetensors", "--all")
    rows = [line.split() for line in out.splitlines()]
    row = next(r for r in rows if r[1:3] == ["matmul", "join"])
    error, bound, own, own_bound = map(float, row[3:7])
    assert code == 0 and row[-1] == "good" and 0 <= error <= bound < 1e-3 and 0 <= own <= own_bound < 1e-3


def test_the_page_escapes_names(verify, folder):
    name = "<script>&\"'"

    def rename(program, by):
        next(i for i in program["chains"][0]["instructions"] if i["name"] == "relu")["name"] = name

    page = folder / "page.html"
    code, _, _ = verify(changed(folder, rename), "--run", "--html", page, CLAVE_DEVICE="opencl")
    text = page.read_text()
    assert code == 0 and text.count("<script") == 1 and text.index("<script") > text.rindex("</svg>")  # the page's own
    assert text.count("&#60;script&#62;&#38;&#34;&#39;") >= 2  # in the drawing, and in the table
    assert "<svg" in text and "within the bound" in text and not re.search(r"(src|href)=", text)


# ---------------------------------------------------------------- the reference


def test_the_file(folder):
    net, tensors = Net().eval(), load_file(folder / "r.safetensors")
    for i, want in enumerate(net(*example())):
        torch.testing.assert_close(tensors[f"output_{i}"], want, rtol=0, atol=0)
    assert torch.equal(tensors["input_0"], example()[0])
    torch.testing.assert_close(tensors["node.first"], net.first(*example()))
    assert tensors["node.topk.1"].dtype == torch.int64 and "node.transpose" not in tensors  # a view


class Others(nn.Module):
    """A number, names, complex numbers, a branch, an input that is changed, and one that is not used."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x, n: int, z, none=None):
        self.seen.add_(x.sum(0))
        big = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        x.mul_(2)
        return {"big": big, "n": n + 1, "turned": z * 1j, "seen": self.seen * n}


def test_other_kinds_of_inputs_and_results(tmp_path, verify):
    args = (torch.randn(4, 3), 3, torch.randn(2, dtype=torch.complex64))
    module = Others().eval()
    clave.export(module, (args[0].clone(), *args[1:]), verify=False).save(tmp_path / "m.clv")
    tensors = reference.reference(module, (args[0].clone(), *args[1:]))
    assert tensors["input_1"].shape == (2, 2) and "input_2" not in tensors  # torch fixed the number
    reference.write(tmp_path / "r.safetensors", tensors)
    code, out, error = verify(tmp_path / "m.clv", "--reference", tmp_path / "r.safetensors")
    assert code == 0, error
    assert "equal to the reference" in out


def test_what_has_no_reference(tmp_path):
    with pytest.raises(clave.Error, match="draws random numbers"):
        reference.reference(Noisy(), example())


class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


def test_the_command(tmp_path, capsys, monkeypatch, verify):
    (tmp_path / "some.py").write_text(
        "import torch\ndef net():\n    torch.manual_seed(0)\n    return torch.nn.Linear(4, 3)\n"
    )
    source, out = f"{tmp_path}/some.py:net", tmp_path / "r.safetensors"
    assert reference.main([source, "--args", "f32[2,4]", "-o", str(out)]) == 0
    assert set(load_file(out)) == {"input_0", "node.linear", "output_0"}
    ep = torch.export.export(torch.nn.Linear(4, 3).eval(), (torch.ones(2, 4),))
    torch.export.save(ep, tmp_path / "m.pt2")
    assert reference.main([f"{tmp_path}/m.pt2", "-o", str(out)]) == 0
    clave.export(str(tmp_path / "m.pt2")).save(tmp_path / "m.clv")
    assert verify(tmp_path / "m.clv", "--reference", out)[0] == 0
    assert reference.main([f"{tmp_path}/none.pt2", "-o", str(tmp_path / "n.safetensors")]) == 1
    assert "there is no such file" in capsys.readouterr().err and not (tmp_path / "n.safetensors").exists()
    assert reference.main([source, "--args", "f32[2,5]", "-o", str(tmp_path / "n.safetensors")]) == 1
    assert "cannot capture" in capsys.readouterr().err


class Ties(nn.Module):
    def forward(self, x):
        values, indices = x.sort(-1)
        return values, indices, x.topk(3, -1, sorted=True).indices


def test_a_reference_may_order_equal_elements_otherwise(tmp_path, verify):
    """torch's sort is not stable; the sorted values have the same bits, so another order is not an error."""
    x = torch.randint(-2, 3, (4, 300), generator=torch.Generator().manual_seed(0)).bfloat16()
    program, tensors = tmp_path / "m.clv", reference.reference(Ties(), (x,))
    clave.export(Ties(), (x,), verify=False).save(program)
    for key in ("node.sort.1", "output_1"):
        tensors[key] = torch.stack([_other_order(row) for row in x])
    reference.write(tmp_path / "r.safetensors", tensors)
    code, _, error = verify(program, "--reference", tmp_path / "r.safetensors")
    assert code == 0, error
    tensors["node.sort"][1, 7] *= 1 + 2**-7  # within the bound, but the sorted values differ
    reference.write(tmp_path / "r.safetensors", tensors)
    assert verify(program, "--reference", tmp_path / "r.safetensors")[0] == 1


def _other_order(row):
    """Returns indices that sort it, equal elements from the last to the first."""
    return (len(row) - 1 - row.flip(0).sort(stable=True).indices).to(torch.int64)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_norm_without_eps_in_16_bits(tmp_path, verify, dtype):
    """torch uses the eps of f32, in which it computes; clave verify found this."""
    module, x = (
        nn.RMSNorm(64).to(dtype),
        (torch.randn(3, 64, generator=torch.Generator().manual_seed(0)) / 10).to(dtype),
    )
    clave.export(module, (x,), verify=False).save(tmp_path / "m.clv")
    reference.write(tmp_path / "r.safetensors", reference.reference(module, (x,)))
    code, out, error = verify(tmp_path / "m.clv", "--reference", tmp_path / "r.safetensors")
    assert code == 0 and "nodes    1 results" in out, error
