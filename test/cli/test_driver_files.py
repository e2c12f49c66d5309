"""Tests files that a driver (PoCL) stores beside our binaries, in a folder that is removed at the end."""

import fcntl
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

PLACES = [f"/dev/shm/clave-{os.geteuid()}", f"/tmp/clave-{os.geteuid()}"]


def clean(tool, **env):
    """Returns a user's environment, without the test runner's cache variables."""
    left_out = ("CLAVE_CACHE_DIR", "POCL_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR")
    return {k: v for k, v in os.environ.items() if k not in left_out} | {"CLAVE_DEVICE": "opencl"} | env


@pytest.fixture
def start(tool, program):
    """Starts a run that writes its outputs. Each call has different sizes, so that no two share kernels."""
    devices = subprocess.run([tool.exe, "devices"], capture_output=True, text=True, env=clean(tool)).stdout
    if "Portable Computing Language" not in devices:
        pytest.skip("PoCL is not installed")

    def run(name, env):
        x = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
        save_file({"input_0": x, "input_1": np.array(2.0)}, tool.folder / f"{name}.in")
        command = [tool.exe, "run", program, "--inputs", f"{name}.in", "--outputs", f"{name}.out"]
        return subprocess.Popen(command, cwd=tool.folder, env=env, stderr=subprocess.PIPE, text=True)

    return run


def finish(tool, process, name):
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0 and not err, err
    got = load_file(tool.folder / f"{name}.out")["output_0"]
    x = np.exp(np.arange(12, dtype=np.float64).reshape(3, 4) / 7 * 2)
    assert abs(got - x / x.sum(-1, keepdims=True)).max() < 1e-6


def all_folders(*more):
    return {str(f) for place in (*PLACES, *more) for f in pathlib.Path(place).glob("driver-*")}


@pytest.mark.parametrize("cache", ["", "off"])
def test_no_home(tool, start, cache):
    env = clean(tool, HOME="/dev/null", CLAVE_CACHE_DIR=cache)
    p = start("a", env)
    _, err = p.communicate(timeout=120)
    assert p.returncode == 0 and "opencl" not in err, err


def damage(folder):
    files = [f for f in folder.rglob("*") if f.is_file() and f.name not in ("lock", "drivers")]
    for f in files:
        f.write_bytes(b"\x7fELF damaged" * 3)
    return len(files)


def test_damaged_files_of_the_user_are_not_read(tool, start, tmp_path):
    """PoCL's own folder has damaged files of another program, at which PoCL would end the process."""
    own = tmp_path / ".cache/pocl/kcache"
    own.mkdir(parents=True, mode=0o700)
    env = clean(tool, HOME=str(tmp_path), CLAVE_CACHE_DIR="off")
    finish(tool, start("a", env | {"POCL_CACHE_DIR": str(own)}), "a")
    assert damage(own) > 2
    finish(tool, start("b", env), "b")


def test_damaged_files_of_ours_are_not_read(tool, start, tmp_path):
    cache = tmp_path / "cache"
    env = clean(tool, CLAVE_CACHE_DIR=str(cache))
    finish(tool, start("a", env), "a")
    assert damage(cache) > 0
    p = start("b", env)
    _, err = p.communicate(timeout=120)
    assert p.returncode == 0 and "damaged kernel binary" in err, err
    finish(tool, start("c", env), "c")


def test_processes_at_once(tool, start, tmp_path):
    """Two processes start without a cache, then two with binaries. Only folders of dead processes are removed."""
    cache = tmp_path / "cache"
    env = clean(tool, CLAVE_CACHE_DIR=str(cache))
    for _ in range(2):
        runs = [(name, start(name, env)) for name in ("a", "b")]
        for name, process in runs:
            finish(tool, process, name)
    assert not list(cache.glob("driver-*"))


def test_folders_of_the_dead_are_removed(tool, start, tmp_path):
    cache = tmp_path / "cache"
    dead, alive = cache / "driver-dead", cache / "driver-alive"
    for folder in (dead, alive):
        (folder / "AB").mkdir(parents=True)
        (folder / "AB/program.bc").write_bytes(b"half" * 500)
        (folder / "lock").touch()
    cache.chmod(0o700)
    env = clean(tool, CLAVE_CACHE_DIR=str(cache))
    with (alive / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "2.0 KB" in tool.good("cache", "--clear", env=env).splitlines()[0]
        assert not dead.exists() and (alive / "AB/program.bc").exists()
        assert "files    2" in tool.good("cache", env=env)
    tool.good("cache", "--clear", env=env)
    assert not alive.exists()


def test_a_killed_process_leaves_nothing_for_long(tool, start, tmp_path):
    before = all_folders()
    env = clean(tool, CLAVE_CACHE_DIR=str(tmp_path / "cache"))
    process = start("a", env)
    end = time.monotonic() + 30
    while not (mine := all_folders(tmp_path / "cache") - before) and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.005)
    process.kill()
    process.communicate()
    finish(tool, start("b", env), "b")
    assert not mine & all_folders(tmp_path / "cache")


def test_the_environment_is_left_as_it_was(tool, start, root, tmp_path):
    """Programs that the host starts later must not use a folder that is removed with this process."""
    code = """if True:
        import ctypes, clave
        assert clave.devices()
        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_char_p
        assert libc.getenv(b"POCL_CACHE_DIR") is None
        """
    env = clean(tool, CLAVE_CACHE_DIR=str(tmp_path / "cache"), PYTHONPATH=str(root / "python"))
    p = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
