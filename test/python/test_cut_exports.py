"""GGUF files and Hugging Face folders that are truncated during an export, or while their programs run: an error that
names the file, and never SIGBUS. Each test runs in a separate process, which a signal would end."""

import subprocess
import sys

import pytest

pytest.importorskip("gguf", reason="needs gguf (ci/requirements.txt)")
pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

from _folders import folder_of
from _gguf import Written

CODE = """
import os, pathlib, sys, threading
import numpy as np
import torch
import clave

path = pathlib.Path(sys.argv[1])
whole, state = path.read_bytes(), path.stat()
SHORT = 5000
CHANGED = "was changed"

def cut():
    os.truncate(path, SHORT)

def restore():
    # As it was, and by its size and date nobody wrote to it.
    with path.open("r+b") as f:
        f.write(whole)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))

def expect(act):
    try:
        act()
    except clave.Error as e:
        assert path.name in str(e) and CHANGED in str(e), e
    else:
        print("NO ERROR")

def expect_cut(tensor, check):
    cut()
    assert not tensor.reshape(-1)[-64:].any()
    restore()
    expect(check)
    expect(check)

def flicker(act, times):
    # Some attempts are good, others are errors that name the file.
    stop = []
    def write():
        while not stop:
            cut()
            restore()
    thread = threading.Thread(target=write)
    thread.start()
    for _ in range(times):
        try:
            act()
        except clave.Error as e:
            assert path.name in str(e), e
    stop.append(1)
    thread.join()
    act()
"""
GGUF = """
CHANGED = "since it was opened; load it again"
GIVEN = np.ones((1, 3), np.int64), 0

def read():
    return clave.Session(clave.from_gguf(path), "cpu").run(*GIVEN)[0]
"""
FOLDER = """
from clave.llm.folder import Folder

def last_of(folder):
    return folder.load(max(folder.tensors, key=lambda n: folder.tensors[n].at))

def opened():
    return Folder(path.parent)

def read():
    folder = opened()
    got = np.concatenate([np.array(last_of(folder)).ravel(), [folder.load(name).sum() for name in folder.tensors]])
    folder.check_unchanged()
    return got
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    folder_of(folder / "hf")
    Written("llama").write(folder / "m.gguf")  # large enough to be mapped
    return {"gguf": folder / "m.gguf", "hf": folder / "hf" / "model.safetensors"}


def run(path, code, tmp_path):
    copy = tmp_path / path.name
    for beside in path.parent.iterdir() if path.suffix == ".safetensors" else [path]:
        (tmp_path / beside.name).write_bytes(beside.read_bytes())
    done = subprocess.run([sys.executable, "-c", CODE + code, copy], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]


@pytest.mark.parametrize(("kind", "begin"), [("gguf", GGUF), ("hf", FOLDER)], ids=["gguf", "hf"])
def test_what_is_read_of_a_file_that_flickers(files, tmp_path, kind, begin):
    """Reads without an error are those of the whole file."""
    code = """
want = read()
def check():
    assert np.array_equal(read(), want)
flicker(check, 100)
"""
    run(files[kind], begin + code, tmp_path)


def test_a_program_of_a_gguf_file(files, tmp_path):
    code = """
program = clave.from_gguf(path)
assert path.stat().st_size > 2**18
session = clave.Session(program, "cpu")
session.run(*GIVEN)
session = clave.Session(program, "cpu")  # one that has packed nothing yet
cut()
expect(lambda: session.run(*GIVEN))
restore()
expect(lambda: session.run(*GIVEN))
expect(lambda: program.save("m.clv"))
expect(lambda: clave.Session(program, "cpu"))
"""
    run(files["gguf"], GGUF + code, tmp_path)


def test_a_folder(files, tmp_path):
    code = """
folder = Folder(path.parent)
expect_cut(last_of(folder), folder.check_unchanged)
folder = Folder(path.parent)
cut()
expect(lambda: last_of(folder))
"""
    run(files["hf"], FOLDER + code, tmp_path)


def test_an_export(files, tmp_path):
    """Weights are read while they are written to the program's own file."""
    code = """
from clave.llm.exporter import LLMExporter
from clave.llm.checkpoint import Checkpoint
weights = Checkpoint.weights

def cut_meanwhile(self):
    for i, found in enumerate(weights(self)):
        if i == 1:
            cut()
        yield found
    restore()

Checkpoint.weights = cut_meanwhile
expect(lambda: LLMExporter(path.parent).capture())
"""
    run(files["hf"], code, tmp_path)
