"""Files that are truncated or rewritten while a program from them is in use: an error that names the file, at every
stage, and never SIGBUS. Each group of stages runs in a separate process, which a signal would end."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import clave

CODES = """
import os, sys, shutil, threading
import numpy as np
import clave
from clave import _library as L

folder, device = sys.argv[1:3]
clave.Device.__init__.__kwdefaults__["fallback"] = False
X = np.ones((4, 512), np.float32)


def fresh(name):
    # A copy of a program's files: its path, and that of the file with the constants.
    place = os.path.join(folder, "copies", str(len(os.listdir(os.path.join(folder, "copies")))))
    os.mkdir(place)
    for f in ("m.json", "consts.safetensors") if name == "m.json" else (name,):
        shutil.copy(os.path.join(folder, f), place)
    path = os.path.join(place, name)
    return path, path if name != "m.json" else os.path.join(place, "consts.safetensors")


def cut(path):
    os.truncate(path, 70000)


def rewrite(path):
    # Other bytes in the place of the constants, which lie at the end.
    before = os.stat(path)
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) - 600000)
        f.write(bytes(500000))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as rsync --inplace -t does


def expect(stage, path, act):
    try:
        act()
    except clave.Error as e:
        good = os.path.basename(path) in str(e) and e.code == clave.errors.Code.IO
        if not good or "\\n" in str(e):
            print("WRONG", stage, e, flush=True)
        return
    print("NO ERROR", stage, flush=True)


def each(name, harm):
    kind = name + " " + harm.__name__ + " "
    dev = clave.Device(device)

    path, consts = fresh(name)
    p = clave.load(path)
    harm(consts)
    expect(kind + "session", consts, lambda: clave.Session(p, dev))
    expect(kind + "save", consts, lambda: p.save(path + ".other.clv"))
    expect(kind + "optimized", consts, lambda: p.optimized().save(path + ".other.clv"))
    if os.path.exists(path + ".other.clv"):
        print("A FILE", kind)
    path, consts = fresh(name)
    p = clave.load(path)
    harm(consts)
    if kind != "p.clv rewrite ":  # which are packed anew from the constants, which are as they were
        expect(kind + "pack", consts, lambda: dev.pack(p))

    path, consts = fresh(name)
    s = clave.Session(path, dev)
    harm(consts)
    expect(kind + "first run", consts, lambda: s.run(X))
    expect(kind + "again", consts, lambda: s.run(X))

    path, consts = fresh(name)
    s = clave.Session(path, dev)
    want = s.run(X)[0]
    os.utime(consts, (5, 5))  # another date alone is no change
    assert np.array_equal(s.run(X)[0], want)
    os.rename(consts, consts + ".kept")  # another file under the name is none, either
    assert np.array_equal(s.run(X)[0], want)
    os.rename(consts + ".kept", consts)
    harm(consts)
    expect(kind + "later run", consts, lambda: s.run(X))
    expect(kind + "another session", consts, lambda: clave.Session(s.program, dev))

    # In the midst of runs, by the function that watches, and by another thread.
    path, consts = fresh(name)
    s = clave.Session(path, dev, fused=False)
    done = []
    s.observe(lambda node, value: done or (harm(consts), done.append(1)))
    expect(kind + "within a run", consts, lambda: s.run(X))
    path, consts = fresh(name)
    s = clave.Session(path, dev)
    timer = threading.Timer(0.05, harm, (consts,))
    timer.start()

    def runs():
        for _ in range(100000):
            s.run(X)

    expect(kind + "while it runs", consts, runs)


def others_go_on():
    # A program beside one that was cut short.
    (a, _), (b, consts) = fresh("m.clv"), fresh("m.clv")
    first, second = clave.Session(a, device), clave.Session(b, device)
    want = first.run(X)[0]
    cut(consts)
    expect("beside", consts, lambda: second.run(X))
    assert np.array_equal(first.run(X)[0], want)
    del first, second
    assert np.array_equal(clave.Session(a, device).run(X)[0], want)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory, build):
    folder = tmp_path_factory.mktemp("files")
    (folder / "copies").mkdir()
    torch.manual_seed(0)
    net = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(3)), torch.nn.LayerNorm(512)).eval()
    program = clave.export(net, (torch.ones(4, 512),), dynamic_shapes=None, verify=False)
    program.save(folder / "m.clv")
    program.save(folder / "m.json")
    packed = [build / "clave", "convert", folder / "m.clv", folder / "p.clv", "--pack", "cpu"]
    subprocess.run(packed, check=True, capture_output=True)
    return folder


def run(files, code, *arguments):
    command = [sys.executable, "-c", CODES + code, files, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]  # notes are on stderr


@pytest.mark.parametrize("name", ("m.clv", "p.clv", "m.json"))
@pytest.mark.parametrize("harm", ("cut", "rewrite"))
@pytest.mark.parametrize("device", ("cpu", "opencl"))
def test_at_every_stage(files, device, harm, name):
    run(files, f"each({name!r}, {harm})", device)


@pytest.mark.parametrize("device", ("cpu", "opencl"))
def test_programs_beside_it_go_on(files, device):
    run(files, "others_go_on()", device)


# ---------------------------------------------------------------- other formats, and the tool

WATCHED = """
import os, sys, threading
path, size = sys.argv[3], int(sys.argv[4])
stop = []
def flicker():  # as another process that copies the file over itself
    whole = open(path, "rb").read()
    while not stop:
        os.truncate(path, size)
        with open(path, "r+b") as f:
            f.write(whole)
thread = threading.Thread(target=flicker, daemon=True)
thread.start()
"""


def test_loading_while_the_file_is_written(files):
    """Some attempts are right and some are errors; none ends the process or returns other numbers."""
    code = (
        WATCHED
        + """
good = bad = 0
want = clave.Session(os.path.join(folder, "m.clv"), device).run(X)[0]
for _ in range(60):
    try:
        got = clave.Session(path, device).run(X)[0]
    except clave.Error as e:
        bad += 1
        assert os.path.basename(path) in str(e), e
    else:
        good += 1
        assert np.array_equal(got, want)
stop.append(1)
thread.join()
assert bad
"""
    )
    copy = files / "flickers.clv"
    copy.write_bytes((files / "m.clv").read_bytes())
    run(files, code, "cpu", str(copy), "100000")


def run_while_written(command, copy, whole, cuts):
    """Returns (exit status, errors) of a command while the file is truncated and rewritten `cuts` times."""
    copy.write_bytes(whole)
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for _ in range(cuts):
        os.truncate(copy, 90000)
        with copy.open("r+b") as f:
            f.write(whole)
    said = running.communicate()[1]
    assert running.returncode in (0, 1), said
    return running.returncode, said


@pytest.mark.parametrize("command", ("verify", "inspect", "convert", "bench", "optimize"))
def test_commands_while_the_file_is_written(files, tmp_path, build, command):
    copy = tmp_path / "m.clv"
    whole = (files / "m.clv").read_bytes()
    more = {"convert": [tmp_path / "o.clv"], "optimize": ["-o", tmp_path / "o.clv"], "bench": ["--runs", "2"]}
    outcomes = set()
    for cuts in range(6):
        code, said = run_while_written([build / "clave", command, copy, *more.get(command, [])], copy, whole, 3 * cuts)
        notes = [line for line in said.splitlines() if not line.startswith("clave: note: ")]
        assert len(notes) == code and (not notes or "m.clv" in notes[0]), said
        outcomes.add(code)
    assert 0 in outcomes


@pytest.fixture(scope="module")
def inputs(files, build):
    torch.manual_seed(1)
    x = torch.rand(4, 512).repeat(40, 1)  # larger than what is copied
    program = clave.export(torch.nn.Flatten(0), (x,), verify=False)
    program.save(files / "flat.clv")
    subprocess.run([build / "clave", "compile", files / "flat.clv", "-o", files / "flat", "--threads", "0"], check=True)
    np.save(files / "x.npy", x.numpy())
    clave.reference.write(files / "x.safetensors", {"input": x})
    return files


@pytest.mark.parametrize("name", ("x.npy", "x.safetensors"))
@pytest.mark.parametrize("tool", ("run", "compiled"))
def test_inputs_while_their_file_is_written(inputs, tmp_path, build, tool, name):
    """A run that succeeds has the results of the whole file."""
    copy, result = tmp_path / name, tmp_path / "y.safetensors"
    whole, outcomes = (inputs / name).read_bytes(), set()
    given = ["--input", f"input={copy}"] if name == "x.npy" else ["--inputs", copy]
    command = [build / "clave", "run", inputs / "flat.clv", *given, "--device", "cpu", "--outputs", result]
    if tool == "compiled":
        command = [inputs / "flat", copy, result]
    copy.write_bytes(whole)
    subprocess.run(command, check=True, capture_output=True)
    want = result.read_bytes()
    for cuts in range(12):
        code, said = run_while_written(command, copy, whole, 20 * cuts)
        assert result.read_bytes() == want
        assert code == 0 or str(copy) in said, said
        outcomes.add(code)
    assert 0 in outcomes
