"""Tests files that carry kernel binaries to other machines: clave cache --export and --import."""

import json
import os
import shutil
import struct
import subprocess

import numpy as np
import pytest
from conftest import make_program
from safetensors.numpy import load_file, save_file

X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
NO_SOURCE = {"CLAVE_STUB_FAIL_NAME": "clCreateProgramWithSource", "CLAVE_STUB_LOST_AT": "0"}  # compiling is an error
FIRST, OTHER = "1.0", "2.0"
HEADER, ENTRY_HEADER = 32, 144


class Machine:
    """Simulates a machine with PoCL, whose version may differ, and a cache."""

    def __init__(self, build, stub, folder, driver=FIRST):
        self.exe, self.folder, self.cache = str(build / "clave"), folder, folder / f"cache{driver}"
        self.env = stub | {"CLAVE_CACHE_DIR": str(self.cache), "CLAVE_STUB_DRIVER": driver}
        self.file = folder / "kernels.clk"

    def tool(self, *words, code=0, **more):
        env = os.environ | self.env | more
        p = subprocess.run([self.exe, *map(str, words)], env=env, cwd=self.folder, capture_output=True, text=True)
        assert p.returncode == code, p.stderr
        assert code == 0 or len(p.stderr.splitlines()) == 1
        return p.stderr if code else p.stdout

    def move(self, how, **more):
        """Exports or imports. Returns the devices of the report."""
        report = json.loads(self.tool("cache", how, self.file, "--json", **more))
        assert report["file"] == str(self.file)
        return report["devices"]

    def run(self, **more):
        (self.folder / "p.json").write_text(json.dumps(make_program()))
        save_file({"input_0": X, "input_1": np.array(2.0)}, self.folder / "in.safetensors")
        words = ["--inputs", "in.safetensors", "--outputs", "out.safetensors", "--device", "opencl", "--no-fallback"]
        self.tool("run", "p.json", *words, **more)
        got, want = load_file(self.folder / "out.safetensors")["output_0"], np.exp(X.astype(np.float64) * 2)
        assert abs(got - want / want.sum(-1, keepdims=True)).max() < 1e-6

    def entries(self):
        return sorted(f.name for f in self.cache.glob("*.clbin"))


@pytest.fixture(scope="module")
def first(build, stub, tmp_path_factory):
    """Returns a machine that has run the program and exported its kernels."""
    machine = Machine(build, stub, tmp_path_factory.mktemp("first"))
    machine.run()
    (device,) = machine.move("--export")
    assert device["driver"].startswith(FIRST) and device["kernels"] == len(machine.entries()) > 2
    return machine


@pytest.fixture
def second(build, stub, first, tmp_path):
    machine = Machine(build, stub, tmp_path)
    shutil.copy(first.file, machine.file)
    return machine


@pytest.mark.parametrize("isolation", ["off", "on"])
def test_the_first_run_compiles_nothing(build, second, isolation):
    """With isolation, a child process loads the binaries first."""
    n = len(second.move("--import")) and len(second.entries())
    more = NO_SOURCE | {"CLAVE_ISOLATION": isolation}
    if isolation == "on":
        more["CLAVE_HELPER"] = str(build / "clave")
    second.run(**more)
    assert len(second.entries()) == n
    shutil.rmtree(second.cache)
    second.env |= more
    with pytest.raises(AssertionError, match="clCreateProgramWithSource"):
        second.run()


def test_tries_imported_kernels(build, first, second):
    """A child process loads them first, even if the file says that this driver has met them."""
    data, at = bytearray(second.file.read_bytes()), HEADER
    stamp = (first.cache / first.entries()[0]).read_bytes()[128:136]
    while size := struct.unpack_from("<Q", data, at)[0]:
        data[at + 136 : at + 144] = stamp
        at += 8 + (size + 7) // 8 * 8
    second.file.write_bytes(data)
    second.move("--import")
    log, helper = second.folder / "log", second.folder / "helper"
    helper.write_text(f'#!/bin/sh\necho >> {log}\nexec {build}/clave "$@"\n')
    helper.chmod(0o700)
    second.run(CLAVE_ISOLATION="on", CLAVE_HELPER=str(helper), **NO_SOURCE)
    log.unlink()
    second.run(CLAVE_ISOLATION="on", CLAVE_HELPER=str(helper), **NO_SOURCE)
    assert not log.exists()


def test_twice(first, second):
    for added in (len(first.entries()), 0):
        (device,) = second.move("--import")
        assert device["present"] and device["kernels"] == len(first.entries()) and device["added"] == added
    text = second.tool("cache", "--import", second.file)
    assert text.endswith(f": 0 imported, {device['kernels']} cached before\n") and f"driver {FIRST}" in text
    assert second.entries() == first.entries()
    before = second.file.read_bytes()
    second.move("--export")
    assert second.file.read_bytes() == before  # imported kernels are exported unchanged


def test_another_driver(build, stub, first, second):
    """Kernels for drivers that a machine lacks are counted and skipped."""
    other = Machine(build, stub, second.folder, OTHER)
    (device,) = other.move("--import")
    assert not device["present"] and device["added"] == 0 and not other.entries()
    assert "not imported, because this machine lacks the device or the driver" in other.tool(
        "cache", "--import", other.file
    )
    other.run()
    for file in first.cache.glob("*.clbin"):
        shutil.copy(file, other.cache)
    drivers = {d["driver"][:3]: d["kernels"] for d in other.move("--export")}
    assert drivers == {FIRST: len(first.entries()), OTHER: len(first.entries())}
    devices = {d["driver"][:3]: d for d in second.move("--import")}
    assert devices[FIRST]["added"] == len(first.entries()) and devices[FIRST]["present"]
    assert devices[OTHER]["added"] == 0 and not devices[OTHER]["present"]


@pytest.mark.parametrize("cache", ["missing", "empty"])
def test_empty(second, cache):
    if cache == "empty":
        second.cache.mkdir(mode=0o700)
    assert second.move("--export") == [] and second.move("--import") == []
    assert second.tool("cache", "--export", second.file) == "no kernel binaries\n"
    assert second.tool("cache", "--import", second.file) == "no kernel binaries\n"


def test_one(first, second):
    second.move("--import")
    for name in first.entries()[1:]:
        (second.cache / name).unlink()
    assert [d["kernels"] for d in second.move("--export")] == [1]
    shutil.rmtree(second.cache)
    second.move("--import")
    assert second.entries() == first.entries()[:1]


def refuse(machine, data, part):
    machine.file.write_bytes(data)
    error = machine.tool("cache", "--import", machine.file, code=1)
    assert part in error and "kernels.clk" in error, error
    assert not [p for p in machine.cache.glob("*") if p.suffix not in (".mark", ".lock")]


def test_damaged(second):
    """A file with a changed or missing byte does not change the cache."""
    good = second.file.read_bytes()
    entry, stamp = (
        range(HEADER + 8, HEADER + 8 + ENTRY_HEADER, 13),
        range(HEADER + 136, HEADER + 144),
    )  # the driver's stamp
    places = [*(at for at in entry if at not in stamp), *range(300, len(good) - 16, len(good) // 12)]
    for at in places:
        data = bytearray(good)
        data[at] ^= 0x10
        refuse(second, data, "kernel binar")
    for size in (HEADER + 16, 100, len(good) // 2, len(good) - 16, len(good) - 8, len(good) - 1):
        refuse(second, good[:size], "the kernel binaries ")
    for data in (b"", b"clvkern", good[:40]):
        refuse(second, data, "expected kernel binaries that clave cache --export wrote")
    refuse(second, b"clvkern2" + good[8:], "in a format of another version of clave")
    refuse(second, good + bytes(8), f"at byte {len(good) - 8} of {len(good) + 8}")
    refuse(second, good[:-8] + struct.pack("<Q", 1), "the kernel binaries end after ")
    huge = good[:HEADER] + struct.pack("<Q", 2**64 - 8) + good[HEADER + 8 :]
    refuse(second, huge, f"cut short at byte {HEADER} of {len(good)}")


def test_names_are_computed(first, second):
    """A renamed file in the cache is exported under its own key."""
    second.move("--import")
    (second.cache / first.entries()[0]).rename(second.cache / f"{'0' * 32}.clbin")
    second.move("--export")
    shutil.rmtree(second.cache)
    second.move("--import")
    assert second.entries() == first.entries()


def test_folders_that_cannot_be_written(second):
    off = {"CLAVE_CACHE_DIR": "off"}
    for how in ("--export", "--import"):
        assert "there is no kernel cache" in second.tool("cache", how, second.file, code=1, **off)
    assert "/dev/null" in second.tool("cache", "--import", second.file, code=1, CLAVE_CACHE_DIR="/dev/null/cache")
    assert "/nowhere" in second.tool("cache", "--export", "/nowhere/kernels.clk", code=1)
    assert "no such file" in second.tool("cache", "--import", "nothing.clk", code=1)
    second.cache.mkdir(mode=0o777)
    second.cache.chmod(0o777)
    assert "can be written by others" in second.tool("cache", "--import", second.file, code=1)


def test_flags_that_exclude_each_other(second):
    for more in (["--clear"], ["--max-mb", "5"], ["--import", second.file]):
        error = second.tool("cache", "--export", "new.clk", *more, code=2)
        assert "--export, --import and removing files exclude each other" in error
