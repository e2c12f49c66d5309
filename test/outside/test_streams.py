"""The tool with closed or full streams: at most one line, the documented exit status, never a signal."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

MODEL = "examples/mnist/mnist.clv"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_is_closed(build, root, outsider, closed):
    command = f'"{build}/clave" inspect {MODEL} {closed}'
    p = subprocess.run(["sh", "-c", command], cwd=root, env=outsider, capture_output=True, text=True)
    assert p.returncode in (0, 1), p.stderr
    assert p.returncode == 0 or ">&-" in closed
    assert len(p.stderr.splitlines()) <= 1


def test_a_stream_is_full(build, root, outsider):
    command = f'"{build}/clave" inspect {MODEL} >/dev/full'
    p = subprocess.run(["sh", "-c", command], cwd=root, env=outsider, capture_output=True, text=True)
    assert p.returncode == 1 and p.stderr.startswith("clave: ") and len(p.stderr.splitlines()) == 1, p.stderr


def test_the_reader_goes_away(build, root, outsider):
    command = f'"{build}/clave" inspect {MODEL} --json | head -c 1'
    p = subprocess.run(["sh", "-c", command], cwd=root, env=outsider, capture_output=True, text=True)
    assert p.stdout == "{" and p.returncode == 0


BUILD = pathlib.Path(os.environ.get("CLAVE_BUILD", "build"))
CHATML = "chatml --messages /dev/stdin"
WORDS = {  # for each command of the tool, arguments with which it does something
    "devices": "",
    "run": f"{MODEL} --device cpu --input x=examples/mnist/digits/7.npy",
    "bench": f"{MODEL} --device cpu --runs 1 --warmup 1",
    "inspect": MODEL,
    "verify": f"{MODEL} --device cpu --run",
    "convert": f"{MODEL} {{out}}/c.clv",
    "optimize": MODEL,
    "compile": f"{MODEL} --emit-c {{out}}/c --dim batch=1",
    "cache": "",
    "doctor": "--device cpu --family softmax",
    "tune": "--list --device cpu",
    "generate": "examples/tinylm/tinylm.clv --device cpu --prompt The --max-new-tokens 2",
    "tokenize": "--tokenizer examples/tinylm/tinylm.clv --encode",
    "template": CHATML,
}


def commands():
    if not (BUILD / "clave").exists():
        return []
    done = subprocess.run([BUILD / "clave", "command-tables"], capture_output=True, check=True)
    return [c["name"] for c in json.loads(done.stdout)["commands"]]


def test_every_command_is_here():
    assert set(commands()) == set(WORDS)


@pytest.mark.parametrize(
    "streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", ">/dev/full 2>&1"]
)
@pytest.mark.parametrize("command", WORDS)
def test_every_command(build, root, outsider, tmp_path, command, streams):
    """The command succeeds, or prints one line and exits with 1; it fails if it cannot print its output."""
    words = WORDS[command].format(out=tmp_path)
    script = f'"{build}/clave" {command} {words} {streams}'
    text = "[]" if command == "template" else '"a"\n'
    stdin = {"input": text} if "<&-" not in streams else {}
    p = subprocess.run(["sh", "-c", script], cwd=root, env=outsider, capture_output=True, text=True, **stdin)
    whole = subprocess.run(
        ["sh", "-c", f'"{build}/clave" {command} {words}'],
        cwd=root,
        env=outsider,
        capture_output=True,
        text=True,
        **stdin,
    )
    assert p.returncode in (0, 1), (p.returncode, p.stderr)
    errors = [line for line in p.stderr.splitlines() if not line.startswith("clave: note: ")]
    assert p.returncode == 0 or len(errors) <= 1, p.stderr  # successful commands print their times on stderr
    if streams.startswith(">") and whole.stdout and whole.returncode == 0:
        assert p.returncode == 1, command


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_a_host_without_streams(build, root, outsider, tmp_path, closed):
    """Files and the sockets to child processes have the numbers of the streams."""
    script = """
import sys
import clave, numpy as np
program, digit = clave.load("examples/mnist/mnist.clv"), np.load("examples/mnist/digits/7.npy")
results = [clave.Session(program, device)(digit)[0] for device in ("cpu", "opencl")]
with open(sys.argv[1], "w") as file:
    file.write(f"{np.allclose(*results, atol=1e-5)}")
"""
    paths = {"CLAVE_LIBRARY": str(build / "libclave.so"), "PYTHONPATH": str(root / "python")}
    command = ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-c", script, str(tmp_path / "same")]
    subprocess.run(command, cwd=root, env=outsider | paths, check=True, timeout=300)
    assert (tmp_path / "same").read_text() == "True"
    assert list((tmp_path / "home").rglob("*.clbin"))
