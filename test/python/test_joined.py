"""Small ops that follow each other are one launch on OpenCL devices, with the bits that they give apart."""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

import clave

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "ci"))
import variants

# Three runs on each of the inputs, in turns: the launches and the results of each run.
COUNT = """
import ctypes, sys, numpy, clave
stub = ctypes.CDLL("libOpenCL.so.1")
session = clave.Session(sys.argv[1], device="opencl")
inputs = [list(numpy.load(path).values()) for path in sys.argv[3:]]
results = {}
for turn in range(3):
    for k, given in enumerate(inputs):
        stub.stub_arm(ctypes.c_long(2**40), 0)
        results |= {f"{turn}_{k}_{i}": r.copy() for i, r in enumerate(session.run(*given))}
        print(stub.stub_calls())
numpy.savez(sys.argv[2], **results)
"""


class Mixed(torch.nn.Module):
    """Ops of many families and dtypes, few of which fuse."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(5)
        self.table = torch.nn.Parameter(torch.randn(9, 5))

    def forward(self, x, at):
        y = torch.softmax(x, -1).cumsum(0)
        y = self.norm(y) + self.table[at]
        z = torch.log_softmax(y.double(), 0).cumsum(1).float()
        s = y.sum(0, keepdim=True) / 3 + y.amax(1, keepdim=True)
        order = torch.argsort(s, dim=-1, stable=True)
        k = s.gather(1, order).flip(1).roll(1, 0)
        n = (at * 3 // 2).cumsum(0).half().cumsum(0)
        c = torch.cat([k, z, s.triu(1)], 0).cumsum(0)
        p = torch.nn.functional.pad(c, (1, 2)).cumsum(1).index_select(0, at)
        return p, n, (y > 0).sum(1), torch.cdist(y, z), c.mean(1)


class Chain(torch.nn.Module):
    """Along one axis and then the other: work-items read what others wrote."""

    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        for i in range(self.n):
            x = torch.softmax(x, i % 2)
        return x


def mixed_inputs(seed=0, rows=6):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 5, generator=g), torch.randint(0, 9, (rows,), generator=g)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    torch.manual_seed(0)
    model = Mixed().eval()
    rows = torch.export.Dim("rows", min=2, max=9)
    path = tmp_path_factory.mktemp("mixed") / "mixed.clv"
    clave.export(model, mixed_inputs(), dynamic_shapes=({0: rows}, {0: rows})).save(path)
    return model, path


ON_CPU = {"CLAVE_DEVICE_CLASS": "cpu"}  # GPUs join fewer


def run_counted(path, all_inputs, env, tmp_path):
    """(launches of each run, by turn; its results), both by turn and inputs."""
    for k, inputs in enumerate(all_inputs):
        np.savez(tmp_path / f"{k}.npz", *[x.numpy() for x in inputs])
    files = [tmp_path / f"{k}.npz" for k in range(len(all_inputs))]
    more = {"CLAVE_STUB_FAIL_NAME": "clEnqueueNDRangeKernel", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", COUNT, path, tmp_path / "out.npz", *files]
    p = subprocess.run(command, env=os.environ | ON_CPU | more | env, capture_output=True, text=True, check=True)
    counts = [int(n) for n in p.stdout.split()]
    out = np.load(tmp_path / "out.npz")
    of = lambda turn, k: [out[n] for n in out.files if n.startswith(f"{turn}_{k}_")]
    results = [[of(turn, k) for k in range(len(files))] for turn in range(3)]
    return [counts[i : i + len(files)] for i in range(0, len(counts), len(files))], results


def assert_same(one, other):
    for x, y in zip(one, other, strict=True):
        for a, b in zip(x, y, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.by_turn(10)
def test_few_launches_same_bits(build, stub, mixed, tmp_path):
    """The first run has each op's kernels compared alone, the second both ways; from then on it is a launch or a few.
    Sizes and data change from run to run."""
    model, path = mixed
    all_inputs = [mixed_inputs(rows, rows) for rows in (6, 3)]
    checked = stub | {"CLAVE_SELF_CHECK": "on", "CLAVE_CACHE_DIR": "off"}
    turns, results = run_counted(path, all_inputs, checked, tmp_path)
    for alone, both, joined in zip(*turns, strict=True):
        assert both > alone > 20 > 6 >= joined
    with variants.forced(build / "clave", "opencl", [("joined launches", "apart")], os.environ | ON_CPU) as env:
        turns, apart = run_counted(path, all_inputs, env | stub | {"CLAVE_SELF_CHECK": "off"}, tmp_path)
    assert all(n > 20 for n in turns[2])
    for turn in range(3):
        assert_same(results[turn], apart[turn])
    for inputs, got in zip(all_inputs, results[2], strict=True):
        for g, want in zip(got, model(*inputs), strict=True):
            torch.testing.assert_close(torch.from_numpy(g), want)


@pytest.mark.by_turn(10)
def test_groups(stub, tmp_path):
    """As on a GPU, where work-items wait for each other between launches."""
    x = torch.randn(3, 4)
    path = tmp_path / "chain.clv"
    clave.export(Chain(40), (x,)).save(path)
    env = stub | {"CLAVE_SELF_CHECK": "on", "CLAVE_CACHE_DIR": "off", "CLAVE_DEVICE_CLASS": "gpu"}
    turns, results = run_counted(path, [(x,)], env, tmp_path)
    assert turns == [[40], [41], [1]]
    torch.testing.assert_close(torch.from_numpy(results[2][0][0]), Chain(40)(x))


@pytest.mark.by_turn(10)
@pytest.mark.parametrize("teams", ["norm", "softmax"])
def test_shared_rows_stay_apart(build, stub, tmp_path, teams):
    """Kernels whose work-items share a row are none of one whose work-items do not."""

    class Norms(torch.nn.Module):
        def forward(self, x):
            for _ in range(20):
                x = torch.nn.functional.layer_norm(x, (40,)) if teams == "norm" else torch.softmax(x, 1)
            return x

    x = torch.randn(2, 40)
    clave.export(Norms(), (x,)).save(tmp_path / "norms.clv")
    with variants.forced(build / "clave", "opencl", [(teams, "team 16")], os.environ) as env:
        env |= stub | {"CLAVE_SELF_CHECK": "off", "CLAVE_DEVICE_CLASS": "gpu"}
        turns, results = run_counted(tmp_path / "norms.clv", [(x,)], env, tmp_path)
    assert turns == [[20], [20], [20]]
    torch.testing.assert_close(torch.from_numpy(results[2][0][0]), Norms()(x))


@pytest.mark.by_turn(10)
def test_sizes_of_values(stub, tmp_path):
    """What follows a size that is read at run time is joined anew for each."""

    class Chosen(Chain):
        def forward(self, x):
            return super().forward(x[x[:, 0] > 0])

    g = torch.Generator().manual_seed(0)
    all_inputs = [(torch.randn(8, 4, generator=g),) for _ in range(3)]
    for i, (x,) in enumerate(all_inputs):
        x[:, 0] = torch.where(torch.arange(8) < 3 + i, 1.0, -1.0)  # GPUs join ops of few terms
    clave.export(Chosen(20), all_inputs[0]).save(tmp_path / "chosen.clv")
    turns, results = run_counted(tmp_path / "chosen.clv", all_inputs, stub | {"CLAVE_SELF_CHECK": "off"}, tmp_path)
    assert max(turns[2]) < 20
    for turn in results:
        for (x,), got in zip(all_inputs, turn, strict=True):
            torch.testing.assert_close(torch.from_numpy(got[0]), Chosen(20)(x))


@pytest.mark.by_turn(10)
def test_many_buffers(stub, tmp_path):
    """More constants than a launch takes: there are a few launches."""

    class Many(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.all = torch.nn.ParameterList([torch.randn(3, 4) for _ in range(40)])

        def forward(self, x):
            for p in self.all:
                x = torch.softmax(x + p, -1)
            return x

    x, model = torch.randn(3, 4), Many().eval()
    clave.export(model, (x,)).save(tmp_path / "many.clv")
    turns, results = run_counted(tmp_path / "many.clv", [(x,)], stub | {"CLAVE_SELF_CHECK": "off"}, tmp_path)
    assert turns[2][0] <= 4
    torch.testing.assert_close(torch.from_numpy(results[2][0][0]), model(x))


@pytest.mark.by_turn(10)
@pytest.mark.parametrize(("as_part", "first"), [("(v) / (total) * 0.5f", 21), ("this_is_no_name", 20)])
def test_wrong_parts_stay_apart(root, stub, tmp_path, as_part, first):
    """A kernel that gives other numbers as a part of the joined one alone, or that is not built as such."""
    kernels = shutil.copytree(root / "kernels_cl", tmp_path / "kernels")
    right = "#define RESULT(v, m, total) (v) / (total)\n"
    text = (kernels / "softmax.cl").read_text()
    assert right in text
    wrong = f"#ifdef joined_get_global_id\n#define RESULT(v, m, total) {as_part}\n#else\n{right}#endif\n"
    (kernels / "softmax.cl").write_text(text.replace(right, wrong))
    x = torch.randn(3, 4)
    clave.export(Chain(20), (x,)).save(tmp_path / "chain.clv")
    for check, counts in (("on", [[20, first], [20, 20], [20, 20]]), ("off", [[20, 20]] * 3)):
        if check == "off" and first > 20:
            continue  # nobody compares
        env = stub | {"CLAVE_SELF_CHECK": check, "CLAVE_CACHE_DIR": "off", "CLAVE_KERNEL_DIR": str(kernels)}
        turns, results = run_counted(tmp_path / "chain.clv", [(x,)] * 2, env, tmp_path)
        assert turns == counts
        for got in results[0] + results[1] + results[2]:
            torch.testing.assert_close(torch.from_numpy(got[0]), Chain(20)(x))


@pytest.mark.by_turn(10)
def test_larger_sizes_keep_the_program(build, stub, tmp_path):
    """Where ops are no longer small the others run by the program that was built for all of them."""

    class Wide(Chain):
        def forward(self, x):
            y = super().forward(x)
            return y, (y[:, :1] + torch.arange(64)).cumsum(0).cumsum(1)

    rows, model = torch.export.Dim("rows", min=2, max=400), Wide(10)
    all_inputs = [(torch.randn(n, 4),) for n in (3, 50)]
    clave.export(model, all_inputs[0], dynamic_shapes=({0: rows},)).save(tmp_path / "wide.clv")
    env = stub | {"CLAVE_SELF_CHECK": "off", "CLAVE_CACHE_DIR": str(tmp_path / "cache")}
    turns, results = run_counted(tmp_path / "wide.clv", all_inputs, env, tmp_path)
    for (x,), got in zip(all_inputs, results[2], strict=True):
        for g, want in zip(got, model(x), strict=True):
            torch.testing.assert_close(torch.from_numpy(g), want)
    assert turns[2][0] == 1 < turns[2][1] <= 4
    assert sum(b"joined" in path.read_bytes() for path in (tmp_path / "cache").glob("*.clbin")) == 1


@pytest.mark.by_turn(10)
def test_faults_name_their_op(stub, tmp_path):
    class Faulty(Chain):
        def forward(self, x, at):
            return super().forward(super().forward(x)[at])

    x, at = torch.randn(3, 4), torch.tensor([1, 0, 2])
    clave.export(Faulty(6), (x, at)).save(tmp_path / "faulty.clv")
    turns, _ = run_counted(tmp_path / "faulty.clv", [(x, at)], stub | {"CLAVE_SELF_CHECK": "off"}, tmp_path)
    assert turns == [[1], [1], [1]]
    session = clave.Session(tmp_path / "faulty.clv", device="opencl")
    good = [session.run(x, at)[0].copy()]
    with pytest.raises(clave.Error, match=r"index 3 out of range \[-3, 2\]; node 6 \(index, index\)"):
        session.run(x, at + 1)
    assert_same([session.run(x, at)], [good])
