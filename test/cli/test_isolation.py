"""A program's first contact with a driver that crashes or hangs (test/stub_opencl/harm.h): a child process, or a mark
on disk if no child can be started, protects this process and later ones, and the results are right."""

import json
import os
import shutil
import subprocess
import time

import numpy as np
import pytest
from conftest import make_program
from safetensors.numpy import load_file, save_file

pytestmark = pytest.mark.by_turn(6)
X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
ALL = "kernel void softmax"  # in each variant's source
CRASHED = "the driver crashed (signal 11)"
ENDED = "an earlier process ended while the driver had it"


class Host:
    """Runs the program on PoCL, treated as a driver that is not trusted."""

    def __init__(self, build, stub, folder):
        self.exe, self.folder, self.cache = str(build / "clave"), folder, folder / "cache"
        (folder / "p.json").write_text(json.dumps(make_program()))
        save_file({"input_0": X, "input_1": np.array(2.0)}, folder / "in.safetensors")
        self.log, self.once = folder / "log", folder / "once"
        self.helper = folder / "helper"
        self.helper.write_text(f'#!/bin/sh\necho >> {self.log}\nexec {self.exe} "$@"\n')
        self.helper.chmod(0o700)
        self.env = stub | {"CLAVE_CACHE_DIR": str(self.cache), "CLAVE_HELPER": str(self.helper)}
        self.env |= {"CLAVE_ISOLATION": "on", "CLAVE_SELF_CHECK": "off"}
        self.number = 0

    def start(self, inherited=None, **more):
        self.number += 1
        out = self.folder / f"out{self.number}.safetensors"
        words = ["run", "p.json", "--inputs", "in.safetensors", "--outputs", out, "--device", "opencl"]
        env = (os.environ if inherited is None else inherited) | self.env | more
        p = subprocess.Popen([self.exe, *words], cwd=self.folder, env=env, text=True, stderr=subprocess.PIPE)
        return p, out

    def end(self, started):
        """Returns the notes."""
        p, out = started
        said = p.communicate(timeout=300)[1]
        assert p.returncode == 0, (p.returncode, said)
        got, want = load_file(out)["output_0"], np.exp(X.astype(np.float64) * 2)
        assert abs(got - want / want.sum(-1, keepdims=True)).max() < 1e-6
        return said

    def run(self, *given, **more):
        return self.end(self.start(*given, **more))

    def crash(self, **more):
        p, out = self.start(**more)
        p.communicate(timeout=300)
        assert p.returncode == -11 and not out.exists()

    def starts(self):
        """Returns the number of children since the last call."""
        n = len(self.log.read_text().splitlines()) if self.log.exists() else 0
        self.log.unlink(missing_ok=True)
        return n

    def mark_files(self):
        """Returns the files of all marks except that of the list of devices."""
        return [f for f in self.cache.glob("*.mark") if not f.read_text().startswith("accepted")]

    def marks(self):
        return [f.read_text() for f in self.mark_files()]

    def doctor(self, *words, device="cpu", **more):
        words = [self.exe, "doctor", "--device", device, "--family", "cat", *words]
        p = subprocess.run(words, env=os.environ | self.env | more, capture_output=True, text=True)
        assert p.returncode == 0, p.stderr
        return json.loads(p.stdout) if "--json" in words else p.stdout


@pytest.fixture(scope="module")
def built(build, stub, tmp_path_factory):
    """Returns a cache with all binaries, made with children."""
    host = Host(build, stub, tmp_path_factory.mktemp("built"))
    assert not host.run() and host.starts()
    assert not host.run() and not host.starts()  # the driver has run all programs before
    assert not host.marks() and len(list(host.cache.glob("*.clbin"))) > 2
    return host.cache


@pytest.fixture
def host(build, stub, built, tmp_path):
    """Returns a host whose cache lacks only softmax."""
    host = Host(build, stub, tmp_path)
    shutil.copytree(built, host.cache)
    for f in host.cache.glob("*.clbin"):
        if b"softmax" in f.read_bytes():
            f.unlink()
    return host


@pytest.fixture
def stale(build, stub, built, tmp_path):
    """Returns a host whose binaries were made by a driver with another library file."""
    host = Host(build, stub, tmp_path)
    shutil.copytree(built, host.cache)
    for f in host.cache.glob("*.clbin"):
        data = bytearray(f.read_bytes())
        data[128:136] = bytes(8)  # header.driver of cache.c
        f.write_bytes(data)
    return host


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (f"segv clBuildProgram {ALL}", CRASHED),
        ("abort clCreateKernel softmax", "the driver crashed (signal 6)"),
        (f"exit clBuildProgram {ALL}", "the driver ended the process (exit status 3)"),
        ("segv clCreateProgramWithBinary softmax", CRASHED),
    ],
    ids=["build", "create", "exit", "binary"],
)
def test_children_meet_a_driver_that_crashes(host, harm, reason):
    """The CPU backend computes the op, and later processes try nothing again."""
    said = host.run(CLAVE_STUB_HARM=harm)
    assert f"kernel softmax of softmax.cl: {reason}" in said and host.starts() > 1
    marks = host.marks()
    assert marks and all(m.startswith("refused\nkernel softmax of softmax.cl on ") and reason in m for m in marks)
    said = host.run(CLAVE_STUB_HARM=harm)
    assert reason in said and not host.starts()
    assert host.marks() == marks


def test_one_crash_costs_one_kernel(host):
    """After a crash another variant runs on the device. `clave cache --clear` forgets the refusal."""
    host.once.touch()
    harm = {"CLAVE_STUB_HARM": f"segv clBuildProgram {ALL}", "CLAVE_STUB_HARM_ONCE": str(host.once)}
    said = host.run(**harm)
    assert CRASHED in said and "another one runs" in said and "CPU backend" not in said
    (mark,) = host.marks()
    report = host.doctor("--json", device="opencl:0")
    assert report["isolation"] == {"how": "child processes", "why": "CLAVE_ISOLATION is on"}
    (refused,) = report["refused_kernels"]
    assert mark == f"refused\n{refused['kernel']}\n{refused['reason']}\n"
    assert refused["kernel"].startswith("kernel softmax of softmax.cl on ") and refused["reason"] == CRASHED
    (device,) = report["devices"]
    assert device["refused_kernels"] == [refused] and device["first_contact"] == "in a child process"
    text = host.doctor(device="opencl:0")
    assert "\n  new kernels are built in a child process; refused: 1\n" in text and f": {CRASHED}\n" in text
    assert "another one runs" in host.run(**harm)
    env = os.environ | host.env
    subprocess.run([host.exe, "cache", "--clear"], env=env, check=True, stdout=subprocess.DEVNULL)
    assert not list(host.cache.glob("*.mark")) and not host.doctor("--json")["refused_kernels"]


def test_children_meet_a_driver_that_hangs(host):
    harm = {"CLAVE_STUB_HARM": f"hang clBuildProgram {ALL}", "CLAVE_BUILD_TIMEOUT": "2"}
    said = host.run(**harm)
    assert "kernel softmax of softmax.cl: the driver did not return within 2 s" in said
    begin = time.monotonic()
    assert "did not return within" in host.run(**harm)
    assert not list(host.cache.glob("alive-*")) and time.monotonic() - begin < 60


@pytest.mark.parametrize("call", [f"clBuildProgram {ALL}", "clCreateKernel softmax"])
def test_without_children_a_mark_remains(host, call):
    """The process dies, and the next process uses another variant."""
    host.once.touch()
    harm = {"CLAVE_STUB_HARM": f"segv {call}", "CLAVE_STUB_HARM_ONCE": str(host.once), "CLAVE_HELPER": "off"}
    host.crash(**harm)
    (mark,) = host.marks()
    assert mark.startswith("building alive-") and "\nkernel softmax of softmax.cl on " in mark
    said = host.run(CLAVE_HELPER="off")
    assert ENDED in said and "another one runs" in said
    assert host.marks() == [mark]
    report = host.doctor("--json", CLAVE_HELPER="off")
    assert report["isolation"]["how"] == "marks on disk" and len(report["refused_kernels"]) == 1
    (file,) = host.mark_files()
    state, about = mark.split("\n", 1)
    file.write_text(f"{state.rsplit(' ', 1)[0]} {int(time.time()) - 90000}\n{about}")
    assert not host.run(CLAVE_HELPER="off") and not host.marks()  # a day later it is tried again


def test_children_try_what_ended_an_earlier_process(host):
    host.once.touch()
    harm = {"CLAVE_STUB_HARM": f"segv clBuildProgram {ALL}", "CLAVE_STUB_HARM_ONCE": str(host.once)}
    host.crash(CLAVE_HELPER="off", **harm)
    assert host.marks()
    assert not host.run(**harm) and host.starts() and not host.marks()


def test_stale_binaries_with_children(stale):
    """A binary that crashes the driver is built again."""
    stale.once.touch()
    harm = {"CLAVE_STUB_HARM": "segv clCreateProgramWithBinary softmax", "CLAVE_STUB_HARM_ONCE": str(stale.once)}
    assert not stale.run(**harm)
    assert not stale.once.exists() and stale.starts() and not stale.marks()
    assert not stale.run() and not stale.starts()


def test_stale_binaries_without_children(stale):
    stale.once.touch()
    harm = {"CLAVE_STUB_HARM": "segv clCreateProgramWithBinary softmax", "CLAVE_STUB_HARM_ONCE": str(stale.once)}
    stale.crash(CLAVE_HELPER="off", **harm)
    (mark,) = stale.marks()
    assert mark.startswith("loading alive-")
    assert not stale.run(CLAVE_HELPER="off") and not stale.marks()
    begun = {f: f.stat().st_ino for f in stale.cache.glob("*.clbin")}
    assert not stale.run(CLAVE_HELPER="off")
    assert {f: f.stat().st_ino for f in stale.cache.glob("*.clbin")} == begun  # all are of this driver now


def test_two_processes_at_once(host):
    harm = {"CLAVE_STUB_HARM": f"segv clBuildProgram {ALL}"}
    for said in map(host.end, [host.start(**harm) for _ in range(2)]):
        assert CRASHED in said
    assert CRASHED in host.run(**harm)


@pytest.mark.parametrize("kind", ["empty", "no_home", "no_helper"])
def test_poor_environments(host, tmp_path, kind):
    """The environment has only the stub's variables, no cache folder, and a helper that cannot be started."""
    harm = {"CLAVE_STUB_HARM": f"segv clBuildProgram {ALL}", "TMPDIR": "/nowhere"}
    if kind == "no_helper":
        assert not host.run(CLAVE_HELPER="/bin/false") and not host.marks()
        return
    del host.env["CLAVE_CACHE_DIR"]
    file = tmp_path / "file"
    file.touch()
    usual = {k: v for k, v in os.environ.items() if k != "CLAVE_CACHE_DIR"}
    said = host.run({} if kind == "empty" else usual | {"HOME": str(file), "XDG_CACHE_HOME": ""}, **harm)
    assert CRASHED in said and ("kernel binaries are not cached" in said) == (kind == "no_home")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("CLAVE_ISOLATION", "yes", "CLAVE_ISOLATION: expected on or off, got 'yes'"),
        ("CLAVE_BUILD_TIMEOUT", "0", "CLAVE_BUILD_TIMEOUT: expected 1 to 86400 seconds, got '0'"),
        ("CLAVE_BUILD_TIMEOUT", "1m", "CLAVE_BUILD_TIMEOUT: expected 1 to 86400 seconds, got '1m'"),
    ],
)
def test_wrong_values(host, name, value, expected):
    p, _ = host.start(**{name: value})
    assert expected in p.communicate()[1] and p.returncode == 1


def test_binaries_without_a_folder(host):
    """The child sends the binaries that it built, and the process compiles nothing. A harmful binary is not sent."""
    no_source = {"CLAVE_STUB_FAIL_NAME": "clCreateProgramWithSource", "CLAVE_STUB_LOST_AT": "0"}
    host.helper.write_text(f'#!/bin/sh\nunset CLAVE_STUB_LOST_AT CLAVE_STUB_FAIL_NAME\nexec {host.exe} "$@"\n')
    assert not host.run(CLAVE_CACHE_DIR="off", **no_source)
    harm = {"CLAVE_STUB_HARM": "segv clCreateProgramWithBinary softmax"}
    assert CRASHED in host.run(CLAVE_CACHE_DIR="off", **harm)
    assert "clCreateProgramWithSource" in host.run(CLAVE_CACHE_DIR="off", CLAVE_HELPER="off", **no_source)


def test_off(host):
    """With isolation off, no child tries kernels, and no mark is written."""
    harm = {"CLAVE_STUB_HARM": f"segv clBuildProgram {ALL}", "CLAVE_ISOLATION": "off", "CLAVE_HELPER": "off"}
    host.crash(**harm)
    assert not host.marks()
    assert host.doctor("--json", CLAVE_ISOLATION="off")["isolation"]["how"] == "off"


def test_how_a_device_meets_kernels(host):
    """PoCL is trusted. A mark of another driver does not apply to the device."""
    mark = "refused\nkernel softmax of softmax.cl on Adreno 740, driver 7 (-w)\nthe driver crashed (signal 11)\n"
    (host.cache / f"{'0' * 32}.mark").write_text(mark)
    for isolation, helper, how in [
        ("", str(host.helper), "in this process"),
        ("off", str(host.helper), "in this process"),
        ("on", str(host.helper), "in a child process"),
        ("on", "off", "in this process, marked on disk"),
    ]:
        report = host.doctor("--json", device="opencl:0", CLAVE_ISOLATION=isolation, CLAVE_HELPER=helper)
        (device,) = report["devices"]
        assert device["first_contact"] == how and device["refused_kernels"] == []
        assert device["trusted"] and len(report["refused_kernels"]) == 1
    assert "first_contact" not in host.doctor("--json")["devices"][0]
