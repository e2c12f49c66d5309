"""Every command that writes a file supports all names that the system does, and repeats the given name in errors."""

import os
import subprocess

import numpy as np
import pytest

import clave

LENGTHS = (1, 2, 200, 240, 241, 245, 250, 251, 252, 253, 254, 255)


@pytest.fixture(scope="module")
def tool(build):
    return build / "clave"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, root):
    path = tmp_path_factory.mktemp("inputs") / "i.npy"
    np.save(path, np.load(root / "examples/mnist/digits/7.npy"))
    return path


# The arguments before the file that is written, and its extension.
COMMANDS = {
    "convert": (lambda p, i: ["convert", p], ".clv"),
    "optimize": (lambda p, i: ["optimize", p, "-o"], ".clv"),
    "outputs": (lambda p, i: ["run", p, "--input", f"input={i}", "--outputs"], ".safetensors"),
    "profile": (lambda p, i: ["run", p, "--input", f"input={i}", "--profile"], ".json"),
}


def write(tool, root, inputs, command, path):
    arguments, _ = COMMANDS[command]
    name = next(iter(clave.load(root / "examples/mnist/mnist.clv").methods.values())).inputs[0].name
    filled = [str(a).replace("input=", f"{name}=") for a in arguments(root / "examples/mnist/mnist.clv", inputs)]
    return subprocess.run([tool, *filled, path], capture_output=True, env=os.environ | {"CLAVE_DEVICE": "cpu"})


@pytest.mark.parametrize("command", COMMANDS)
def test_names_of_every_length(tool, root, inputs, tmp_path, command):
    ending = COMMANDS[command][1]
    for length in LENGTHS:
        name = "n" * max(length - len(ending), 1) + ending
        for path in (tmp_path / name,) * 2:  # first as a new file, then replacing it
            done = write(tool, root, inputs, command, path)
            assert (done.returncode, done.stderr) == (0, b""), (length, done.stderr)
        assert [f.name for f in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()
    path = tmp_path / ("n" * (256 - len(ending)) + ending)
    done = write(tool, root, inputs, command, path)
    assert done.returncode == 1
    assert done.stderr.decode() == f"clave: {path}: file name too long\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "stem", ("ä" * 125, "\u65e5" * 83, "\U0001f600" * 62, "a b", "-", "%s", "new\nline", os.fsdecode(b"\xff\xfe"))
)
def test_names_of_odd_bytes(tool, root, inputs, tmp_path, stem):
    path = tmp_path / f"{stem}.clv"
    assert write(tool, root, inputs, "convert", path).returncode == 0
    assert len(list(tmp_path.iterdir())) == 1
    clave.load(path).save(path)
    assert [f.name for f in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ("m.clv", "n" * 251 + ".clv"))
def test_paths_as_long_as_paths_are(tool, root, inputs, tmp_path, monkeypatch, name):
    """Paths of 4095 bytes work and longer ones do not, although the name of the temporary file beside them is
    longer."""
    for total in (4094, 4095, 4096):
        missing = total - len(os.fsencode(tmp_path)) - 1 - len(name)
        parts = ["d" * 200] * ((missing - 1) // 201)
        folder = "/".join([*parts, "e" * (missing - 1 - 201 * len(parts))]) if missing > 1 else ""
        monkeypatch.chdir(tmp_path)
        for part in folder.split("/"):
            os.makedirs(part, exist_ok=True)
            os.chdir(part)
        path = f"{tmp_path}/{folder}/{name}"
        assert len(os.fsencode(path)) == total
        done = write(tool, root, inputs, "convert", path)
        if total < 4096:
            assert (done.returncode, done.stderr) == (0, b"")
            assert os.listdir(".") == [name]
            os.unlink(name)
        else:
            assert done.returncode == 1
            assert done.stderr.endswith(b": file name too long\n")
        os.chdir(tmp_path)


def test_python_writes_them_too(root, tmp_path):
    program = clave.load(root / "examples/mnist/mnist.clv")
    for length in LENGTHS[2:]:
        path = tmp_path / ("n" * (length - 4) + ".clv")
        program.save(path)
        assert clave.load(path).methods
    with pytest.raises(clave.Error, match="file name too long"):
        program.save(tmp_path / ("n" * 252 + ".clv"))
