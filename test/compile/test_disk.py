"""During compilation, a full disk or a limit of file sizes is reported in one line, and no file remains."""

import os
import resource
import subprocess

import numpy as np
import pytest
from compiled import BUILD, ROOT

MNIST = ROOT / "examples/mnist/mnist.clv"
ONE = ("--dim", "batch=1")
# Runs a command on a disk of $1 bytes mounted at $2, then lists the files that remain.
ON_A_DISK = 'mount -t tmpfs -o size="$1" tmpfs "$2"; cd "$2"; shift 2; "$@"; code=$?; ls -A; exit $code'
NO_SPACE = "no space left on device"


def bytes_of(folder):
    """Returns the size of a folder's files, in whole pages."""
    return sum(-(-f.stat().st_size // 4096) * 4096 for f in folder.rglob("*") if f.is_file())


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Returns {form: size of its sources, including weights}."""
    sizes = {}
    for form, options in (("written", ONE), ("open", ())):
        to = tmp_path_factory.mktemp("sources") / "c"
        subprocess.run([BUILD / "clave", "compile", MNIST, "--emit-c", to, *options], check=True, capture_output=True)
        sizes[form] = bytes_of(to)
    return sizes


@pytest.fixture
def disk(tmp_path):
    """Runs clave compile in a file system of `size` bytes; returns the remaining files and the last line."""
    alone = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*alone, "mount", "-t", "tmpfs", "tmpfs", tmp_path], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")

    def run(size, *args, **env):
        command = [*alone, "sh", "-c", ON_A_DISK, "sh", str(size), tmp_path, BUILD / "clave", "compile", MNIST, *args]
        r = subprocess.run(command, capture_output=True, text=True, env=os.environ | env, check=False)
        *notes, line = r.stderr.splitlines()
        assert r.returncode == 1 and line.startswith("clave: "), r.stderr
        assert all(n.startswith("clave: note: ") for n in notes)
        return r.stdout.split(), line.lower()

    return run


@pytest.mark.parametrize("to", [("-o", "m"), ("--emit-c", "c"), ("-o", "libm.so", "--shared")])
def test_no_room_for_the_sources(disk, sources, to):
    for size in (4096, sources["written"] // 3, sources["written"] - 8192):
        left, line = disk(size, *to, *ONE)
        assert left == [] and NO_SPACE in line, (size, line)


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("form, options", [("written", ONE), ("open", ())])
def test_no_room_for_the_object_of_the_weights(disk, sources, form, options):
    left, line = disk(sources[form] + 60_000, "-o", "m", *options)
    assert left == [] and "exit status 1 while compiling " in line and NO_SPACE in line, line


@pytest.mark.by_turn(3)
def test_no_room_for_the_executable(disk, sources):
    """objects are as large as their sources, and the executable has about 880 KB"""
    left, line = disk(2 * sources["open"] + 500_000, "-o", "m")
    assert left == [] and "exit status 1 while linking" in line and NO_SPACE in line, line


def test_no_room_for_what_went_in(disk, tmp_path_factory):
    """Without room for the SBOM, the executable is not written either."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    compiler = elsewhere / "cc"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; echo made > "$2"\n')
    compiler.chmod(0o755)
    left, line = disk(4096, "-o", elsewhere / "m", "--sbom", "s.json", *ONE, CC=str(compiler))
    assert left == [] and f"s.json: {NO_SPACE}" in line, line
    assert [f.name for f in elsewhere.iterdir()] == ["cc"]


def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def run_limited(folder, *command):
    """Runs a command with a limit on file sizes. The tool must ignore the signal that exceeding it raises."""
    r = subprocess.run(command, capture_output=True, text=True, cwd=folder, preexec_fn=limited, check=False)
    assert (r.returncode, r.stdout, r.stderr.count("\n")) == (1, "", 1)
    assert "file too large" in r.stderr


@pytest.mark.parametrize("args", [("compile", MNIST, "-o", "m", *ONE), ("convert", MNIST, "m.clv")])
def test_a_limit_of_files_sizes(tmp_path, args):
    run_limited(tmp_path, BUILD / "clave", *args)
    assert list(tmp_path.iterdir()) == []


def test_a_limit_where_an_executable_writes(tmp_path):
    subprocess.run([BUILD / "clave", "compile", MNIST, "-o", tmp_path / "m"], check=True, capture_output=True)
    np.zeros((30, 1, 28, 28), np.float32).tofile(tmp_path / "in.bin")
    run_limited(tmp_path, "./m", "in.bin", "out.bin")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["in.bin", "m"]
