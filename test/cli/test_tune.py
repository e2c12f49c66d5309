"""clave tune: measuring, storing, using and sharing choices."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from conftest import make_program
from safetensors.numpy import load_file, save_file

import clave

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "ci"))
import variants


@pytest.fixture
def cache(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def tune(tool, root, cache):
    """Runs clave with a separate cache folder; tune("cpu", ...) runs clave tune MNIST --device cpu --json ..."""

    def run(device, *args, program=True, check=None):
        words = ["tune", *([root / "examples/mnist/mnist.clv"] if program else []), "--device", device, *args]
        env = {"CLAVE_CACHE_DIR": str(cache)}
        if check is not None:
            return tool.bad(check, *words, env=env)
        return json.loads(tool.good(*words, "--json", env=env))

    return run


def table(cache):
    files = list(cache.glob("tuning-*.txt"))
    assert len(files) == 1
    return files[0]


def rows(tune, device="cpu"):
    return tune(device, "--list", program=False)["rows"]


def share(path, device, *items):
    """Writes a table in the format of --export."""
    content = {
        "clave_tuning": 1,
        "device": device,
        "rows": [dict(zip(("family", "key", "variant"), r, strict=True)) for r in items],
    }
    path.write_text(json.dumps(content))
    return path


def test_measured_once(tune, cache):
    first = tune("cpu")
    assert first["total"] == first["done"] == first["rows"] == len(first["choices"]) > 5
    assert {c["how"] for c in first["choices"]} == {"measured"}
    for c in first["choices"]:
        assert (c["variant"] == c["by_rule"]) == (c["ratio"] == 1)
        assert c["ratio"] < 0.97 or c["ratio"] == 1
    again = tune("cpu")
    assert {c["how"] for c in again["choices"]} == {"known"}
    assert [c["variant"] for c in again["choices"]] == [c["variant"] for c in first["choices"]]
    assert {c["how"] for c in tune("cpu", "--again")["choices"]} == {"measured"}
    assert len(rows(tune)) == first["rows"]


def test_dry_run(tune, cache):
    dry = tune("cpu", "--dry-run")
    assert {c["how"] for c in dry["choices"]} == {"rule"}
    assert dry["rows"] == 0 and not list(cache.glob("tuning-*"))


def test_table_decides(tune, tmp_path, cache):
    """The variant of the table is recorded, if it exists and can run."""
    device = tune("cpu", "--dry-run")["device"]
    plain = {(c["family"], c["key"]): c for c in tune("cpu", "--dry-run")["choices"]}
    cut = next(k for k in plain if k[0] == "gemm cut")
    given = share(
        tmp_path / "t.json", device, [*cut, "columns 64"], ["threads", "*", "1"], ["gemm cut", "*", "no such"]
    )
    dry = tune("cpu", "--dry-run", "--import", given)
    assert dry["imported"] == 3
    for c in dry["choices"]:
        wanted = "1" if c["family"] == "threads" else "columns 64" if (c["family"], c["key"]) == cut else c["by_rule"]
        assert c["variant"] == wanted and c["how"] == ("known" if (c["family"], c["key"]) == cut else "rule")
    assert not list(cache.glob("tuning-*"))  # a dry run keeps nothing
    tune("cpu", "--import", given, program=False)
    assert sorted(r["variant"] for r in rows(tune)) == ["1", "columns 64", "no such"]


@pytest.mark.by_turn(9)
def test_same_bits(tool, tune, tmp_path, cache):
    """Variants of the CPU backend do not change results. Tests a product with more rows and columns than every cut, and
    one whose columns are fewer than a cut and not whole panels."""
    torch.manual_seed(0)
    net, x = torch.nn.Sequential(torch.nn.Linear(300, 2100), torch.nn.Linear(2100, 100)), torch.randn(200, 300)
    program, env = tmp_path / "p.clv", {"CLAVE_CACHE_DIR": str(cache)}
    clave.export(net, (x,), verify=False).save(program)
    save_file({"input_0": x.numpy()}, tmp_path / "in.safetensors")

    def outputs():
        words = ("--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors")
        tool.good("run", program, "--device", "cpu", *words, env=env)
        return load_file(tmp_path / "out.safetensors")["output_0"]

    want = outputs()
    np.testing.assert_allclose(want, net(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    for variant in [v for v in variants.CPU["gemm cut"][0] if v != "rule"]:
        given = share(tmp_path / "t.json", "any", ["gemm cut", "*", variant], ["threads", "*", "1"])
        tune("cpu", "--import", given, "--force", program=False)
        dry = json.loads(tool.good("tune", program, "--device", "cpu", "--dry-run", "--json", env=env))
        cuts = {c["key"]: c["variant"] for c in dry["choices"] if c["family"] == "gemm cut"}
        assert [v for key, v in cuts.items() if "n=2100" in key] == [variant]
        assert (outputs() == want).all(), variant


@pytest.mark.by_turn(6)
def test_who_says_so(tool, root, tune, cache):
    env, program = {"CLAVE_CACHE_DIR": str(cache)}, root / "examples/mnist/mnist.clv"
    n = tune("cpu")["rows"]
    listed = json.loads(tool.good("devices", "--json", env=env))
    assert [d["tuned"] for d in listed if d["kind"] == "cpu"] == [n]
    assert json.loads(tool.good("bench", program, "--runs", 1, "--json", env=env))["tuned"] == n
    assert f"tuned    {n} rows" in tool.good("inspect", program, "--placement", env=env)
    assert json.loads(tool.good("cache", "--json", env=env))["tables"] == 1
    assert "of clave tune" in tool.good("cache", env=env)
    tool.good("cache", "--max-mb", 1, env=env)  # they have no limit
    assert rows(tune)
    tool.good("cache", "--clear", env=env)
    assert not rows(tune)


@pytest.mark.by_turn(9)
def test_convolutions(tool, tmp_path, cache):
    """Variants that round differently are compared within the self-check's bound, and run if a table names them."""
    torch.manual_seed(0)
    program, x = tmp_path / "c.clv", torch.randn(1, 64, 9, 10)
    model = torch.nn.Conv2d(64, 24, 3, padding=1)
    clave.export(model, (x,)).save(program)
    save_file({"input_0": x.numpy()}, tmp_path / "in.safetensors")
    env, results = {"CLAVE_CACHE_DIR": str(cache)}, {}
    tuned = json.loads(tool.good("tune", program, "--device", "cpu", "--json", env=env))
    (conv,) = [c for c in tuned["choices"] if c["family"] == "conv"]
    assert conv["variants"] == 4 and conv["by_rule"] == "winograd 2" and conv["how"] == "measured"
    for variant in ("direct", "winograd 2", "winograd 4", "product"):
        table = share(tmp_path / "table.json", "any", ("conv", conv["key"], variant))
        tool.good("tune", "--device", "cpu", "--import", table, "--force", env=env)
        words = ("--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors")
        tool.good("run", program, "--device", "cpu", *words, env=env)
        results[variant] = load_file(tmp_path / "out.safetensors")["output_0"]
        np.testing.assert_allclose(results[variant], model(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    assert len({results[v].tobytes() for v in ("direct", "winograd 2", "winograd 4")}) == 3


@pytest.mark.by_turn(6)
def test_winograd_rule(tool, tmp_path, cache):
    """Tiles are chosen by the area of an image. An image of one row is summed directly."""
    by_rule = {}
    for size in ((1, 40), (2, 40), (14, 14), (14, 40)):
        program = tmp_path / "c.clv"
        clave.export(torch.nn.Conv2d(64, 16, 3, padding=1), (torch.randn(1, 64, *size),), verify=False).save(program)
        tuned = tool.good("tune", program, "--device", "cpu", "--json", env={"CLAVE_CACHE_DIR": str(cache)})
        by_rule[size] = [c["by_rule"] for c in json.loads(tuned)["choices"] if c["family"] == "conv"]
    assert by_rule == {
        (1, 40): ["direct"],
        (2, 40): ["winograd 2"],
        (14, 14): ["winograd 2"],
        (14, 40): ["winograd 4"],
    }


def test_export_import(tune, tool, tmp_path, cache):
    exported = tmp_path / "table.json"
    first = tune("cpu", "--export", exported)
    table_ = json.loads(exported.read_text())
    assert len(table_["rows"]) == first["rows"]
    tune("cpu", "--clear", program=False)
    assert not rows(tune)
    assert tune("cpu", "--import", exported, program=False)["imported"] == first["rows"]
    assert rows(tune) == table_["rows"]
    table_["device"] += " of another machine"
    exported.write_text(json.dumps(table_))
    tune("cpu", "--clear", program=False)
    assert "was measured on another device" in tune("cpu", "--import", exported, program=False, check=1)
    assert not rows(tune)
    assert tune("cpu", "--import", exported, "--force", program=False)["imported"] == first["rows"]


@pytest.mark.by_turn(11)
@pytest.mark.parametrize(
    "content, says",
    [
        ("", "line 1"),
        ("[]", "is not a tuning table"),
        ('{"clave_tuning": 1}', "is not a tuning table"),
        ('{"clave_tuning": 2, "device": "DEVICE", "rows": []}', "version 2"),
        ('{"clave_tuning": 1, "device": "DEVICE", "rows": [5]}', "row 0: expected an object"),
        (
            '{"clave_tuning": 1, "device": "DEVICE", "rows": [{"family": "a", "key": 3, "variant": "b"}]}',
            "row 0: expected an object",
        ),
        ('{"clave_tuning": 1, "device": "DEVICE", "rows": [{"family": "a", "key": "\\n", "variant": "b"}]}', "row 0: "),
        (
            '{"clave_tuning": 1, "device": "DEVICE", "rows": [{"family": "LONG", "key": "k", "variant": "b"}]}',
            "row 0: ",
        ),
    ],
)
def test_hostile_import(tune, tmp_path, cache, content, says):
    device = tune("cpu", "--dry-run")["device"]
    given = tmp_path / "t.json"
    given.write_text(content.replace("DEVICE", device).replace("LONG", "x" * 5000))
    message = tune("cpu", "--import", given, program=False, check=1)
    assert says in message or (not content and "t.json" in message)
    assert not list(cache.glob("tuning-*"))


def test_damaged(tool, tune, cache):
    """A damaged table is ignored as a whole: a note reports it, and everything is measured again."""
    tune("cpu")
    path = table(cache)
    text = path.read_bytes()
    path.write_bytes(text.replace(b"all", b"one", 1))
    r = tool.run("tune", "--list", "--device", "cpu", env={"CLAVE_CACHE_DIR": str(cache)})
    assert r.returncode == 0 and "is ignored: the file is damaged" in r.stderr and "rows    0" in r.stdout
    assert {c["how"] for c in tune("cpu")["choices"]} == {"measured"}
    assert rows(tune)


@pytest.mark.by_turn(9)
def test_of_another_device(tool, tune, cache):
    """A table of another device, version or number of threads is ignored, though its file has this device's name."""
    tune("cpu")
    r = tool.run("tune", "--list", "--device", "cpu", env={"CLAVE_CACHE_DIR": str(cache), "CLAVE_THREADS": "1"})
    assert "rows    0" in r.stdout


@pytest.mark.by_turn(6)
def test_nowhere_to_keep(tool, tune, root, tmp_path, cache):
    program = root / "examples/mnist/mnist.clv"
    off = {"CLAVE_CACHE_DIR": "off"}
    assert "no cache folder" in tool.bad(1, "tune", program, "--device", "cpu", env=off)
    tool.good("tune", program, "--device", "cpu", "--export", "t.json", env=off)
    assert json.loads((tmp_path / "t.json").read_text())["rows"]
    cache.chmod(0o777)
    assert "can be written by others" in tune("cpu", check=1)


def test_dim_of_a_scalar(tool, tmp_path):
    """The values of an integer input must be integers of its dtype."""
    content = make_program()
    content["values"].append({"name": "flag", "type": "bool_"})
    content["methods"][0]["inputs"].append({"name": "flag", "value": {"idx": 2}})
    (tmp_path / "p.json").write_text(json.dumps(content))
    words = ("tune", "p.json", "--device", "cpu", "--dry-run")
    says = tool.bad(1, *words, "--dim", "scale=3")
    assert says == "--dim scale=3: expected an integer scalar, but input scale has dtype F64"
    assert (
        tool.bad(1, *words, "--dim", "flag=300")
        == "--dim flag=300: input flag has dtype BOOL, whose range does not include 300"
    )
    tool.good(*words, "--dim", "flag=1")


def test_usage(tool, tune):
    assert "tune needs PROG" in tool.bad(2, "tune")
    assert "strict or fast" in tune("cpu", "--precision", "some", check=2)
    assert "excludes --inputs" in tune("cpu", "--dim", "batch=3", "--input", "x=0", check=2)
    assert "no open size and no scalar input has this name" in tune("cpu", "--dim", "zzz=3", check=1)
    assert "expected NAME=N" in tune("cpu", "--dim", "batch", check=2)


@pytest.mark.by_turn(6)
def test_sizes(tune, monkeypatch):
    """Each size has its own rows, and so has each precision."""
    one, many = tune("cpu", "--dry-run"), tune("cpu", "--dry-run", "--dim", "batch=16")
    assert {c["key"] for c in one["choices"]} != {c["key"] for c in many["choices"]}
    assert all("F32(16, " in c["key"] for c in many["choices"] if c["family"] == "threads")
    fast = tune("cpu", "--dry-run", "--precision", "fast")
    assert all(c["key"].startswith("fast=1 ") for c in fast["choices"])
    monkeypatch.setenv("CLAVE_PRECISION", "fast")  # the flag takes precedence
    assert tune("cpu", "--dry-run", "--precision", "strict")["choices"] == one["choices"]


@pytest.mark.by_turn(6)
def test_budget(tune):
    some = tune("cpu", "--budget", 0.001)
    assert some["done"] < some["total"]
    rest = tune("cpu")
    assert rest["done"] == rest["total"] == some["total"]


@pytest.mark.by_turn(11)
def test_interrupt(tool, root, cache):
    """Ctrl-C keeps the choices found; the next tune continues."""
    words = [tool.exe, "tune", root / "examples/mnist/mnist.clv", "--device", "cpu", "--dim", "batch=64", "--json"]
    env = os.environ | {"CLAVE_CACHE_DIR": str(cache)}
    p = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(2000):
        time.sleep(0.01)
        if list(cache.glob("tuning-*")) and table(cache).read_text().count("\t") >= 4:
            break
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0, err
    found = json.loads(out)
    assert found["done"] < found["total"] and "interrupted" in err
    assert found["rows"] >= 2
    rest = json.loads(tool.good(*words[1:], env={"CLAVE_CACHE_DIR": str(cache)}))
    assert [c["how"] for c in rest["choices"]].count("known") == found["rows"]
    assert rest["done"] == rest["total"]


@pytest.mark.by_turn(11)
def test_two_at_once(tool, root, cache):
    """Two processes that tune for different sizes lose nothing."""
    env = os.environ | {"CLAVE_CACHE_DIR": str(cache)}
    words = [tool.exe, "tune", root / "examples/mnist/mnist.clv", "--device", "cpu", "--json"]
    both = [
        subprocess.Popen([*words, "--dim", f"batch={n}"], env=env, stdout=subprocess.PIPE, text=True) for n in (2, 3)
    ]
    found = [json.loads(p.communicate(timeout=60)[0])["choices"] for p in both]
    listed = json.loads(tool.good("tune", "--list", "--device", "cpu", "--json", env={"CLAVE_CACHE_DIR": str(cache)}))
    kept = {(r["family"], r["key"]) for r in listed["rows"]}
    assert kept == {(c["family"], c["key"]) for choices in found for c in choices}


@pytest.mark.by_turn(11)
def test_opencl(tool, root, tune, tmp_path):
    """An OpenCL device has other families, and the results are right with the chosen variants."""
    program = tmp_path / "p.json"
    program.write_text(json.dumps(make_program()))
    env = {"CLAVE_CACHE_DIR": str(tmp_path / "c")}
    r = json.loads(tool.good("tune", program, "--device", "opencl", "--json", env=env))
    assert r["done"] == r["total"] > 0
    assert {c["family"] for c in r["choices"]} <= {"group", "reduce splits", "softmax"}
    x = ["--input", "x=[[1, 2, 3, 4], [-1, 0.5, 0, 2]]", "--input", "scale=0.5"]

    def outputs(device):
        tool.good("run", program, *x, "--device", device, "--outputs", tmp_path / "out.safetensors", env=env)
        return load_file(tmp_path / "out.safetensors")

    assert json.loads(tool.good("tune", "--list", "--device", "opencl", "--json", env=env))["rows"]
    got, want = outputs("opencl"), outputs("cpu")
    np.testing.assert_allclose(got["output_0"], want["output_0"], rtol=1e-5)
    assert (got["output_1"] == want["output_1"]).all()


@pytest.mark.by_turn(9)
def test_compiled(tool, root, tune, tmp_path, cache):
    """clave compile --tune compiles the table's variants, which produce the same bits."""
    program, env = root / "examples/mnist/mnist.clv", {"CLAVE_CACHE_DIR": str(cache)}
    dry = tune("cpu", "--dry-run", "--dim", "batch=2")
    chosen = {"threads": "1", "gemm cut": "columns 64", "conv": "direct"}
    exact = [[c["family"], c["key"], chosen[c["family"]]] for c in dry["choices"]]
    tune("cpu", "--import", share(tmp_path / "t.json", dry["device"], *exact), program=False)
    tool.good("compile", program, "--emit-c", "tuned", "--dim", "batch=2", "--tune", env=env)
    tool.good("compile", program, "--emit-c", "plain", "--dim", "batch=2", env=env)
    model, plain = ((tmp_path / name / "model.c").read_text() for name in ("tuned", "plain"))
    assert model.count("model_call_on(m, 1, ") >= 5 and ".columns = 64" in model
    assert "model_call_on" not in plain and ".columns = 64" not in plain
    once = ("--emit-c", "alone", "--dim", "batch=2", "--tune", "--budget", 0.1)
    tool.good("compile", program, *once, "--threads", 0, env=env)
    assert any("; 1 threads; " in path.read_text() for path in cache.glob("tuning-*.txt"))


@pytest.mark.by_turn(4)
def test_compiled_for_all_sizes(tool, tmp_path, cache, monkeypatch):
    """An executable with the runtime has the table's rows, which apply if its device is the tuned one."""
    monkeypatch.delenv("CLAVE_DEVICE_CLASS", raising=False)  # the class is part of a device's name
    torch.manual_seed(0)
    program, x = tmp_path / "c.clv", torch.randn(1, 64, 9, 10)
    batch = torch.export.Dim("batch", min=1, max=8)
    clave.export(torch.nn.Conv2d(64, 24, 3, padding=1), (x.repeat(2, 1, 1, 1),), dynamic_shapes=({0: batch},)).save(
        program
    )
    x.numpy().tofile(tmp_path / "in.bin")
    by_rule = clave.Session(program, device="cpu").run(x.numpy())[0].tobytes()
    env = {"CLAVE_CACHE_DIR": str(cache)}
    dry = json.loads(tool.good("tune", program, "--device", "cpu", "--dry-run", "--json", env=env))
    (key,) = [c["key"] for c in dry["choices"] if c["family"] == "conv"]
    tool.good(
        "tune",
        "--device",
        "cpu",
        "--import",
        share(tmp_path / "t.json", dry["device"], ("conv", key, "direct")),
        env=env,
    )
    tool.good("compile", program, "-o", "m", "--tune", "--budget", 0.01, env=env)
    alone = os.environ | {"CLAVE_CACHE_DIR": "off"}
    for more in ({}, {"CLAVE_THREADS": "3"}):
        command = [tmp_path / "m", tmp_path / "in.bin", tmp_path / "out.bin"]
        said = subprocess.run(command, env=alone | more, check=True, capture_output=True, text=True).stderr
        assert ("the program is tuned for cpu; " in said) == bool(more) and said.count("\n") == len(more)
        assert ((tmp_path / "out.bin").read_bytes() == by_rule) == bool(more)


@pytest.mark.by_turn(11)
def test_compiled_for_opencl(tool, root, tmp_path, cache):
    """The table is that of the OpenCL device on which the program was compiled, not the CPU backend's."""
    if "opencl" not in tool.good("devices"):
        pytest.skip("no OpenCL device")
    env = {"CLAVE_CACHE_DIR": str(cache)}
    tool.good("tune", "--device", "opencl", "--export", "t.json", env=env)
    device = json.loads((tmp_path / "t.json").read_text())["device"]
    row = ("softmax", 'no "such"', "team 64")
    tool.good("tune", "--device", "opencl", "--import", share(tmp_path / "t.json", device, row), env=env)
    words = ("--target", "opencl", "--tune", "--budget", 0.001, "--emit-c", "made")
    tool.good("compile", root / "examples/mnist/mnist.clv", *words, env=env | {"CLAVE_DEVICE": "opencl"})
    main = (tmp_path / "made/main.c").read_text()
    assert device.startswith("opencl; ") and f'.tuned_for = "{device}"' in main
    assert r'{"softmax", "no \042such\042", "team 64"}' in main and ".n_tuned = 1," in main
