"""The example for a microcontroller: built by arm-none-eabi-gcc with newlib, run on qemu's board with a Cortex-M4."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from _environment import without_make

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples/cortex_m"
BUILD = pathlib.Path(os.environ.get("CLAVE_BUILD", ROOT / "build")).resolve()
MISSING = [t for t in ("arm-none-eabi-gcc", "qemu-system-arm") if not shutil.which(t)]
if not MISSING and not pathlib.Path("/usr/lib/arm-none-eabi/newlib").exists():
    MISSING = ["newlib"]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"no cross compiler or emulator here: {MISSING} (ci/deps cross)")
sys.path.insert(0, str(ROOT / "test" / "docs"))
from documents import blocks


def make(out, *words):
    command = ["make", "-s", "-C", str(EXAMPLE), f"OUT={out}", f"CLAVE={BUILD / 'clave'}", *words]
    r = subprocess.run(command, capture_output=True, text=True, timeout=900, env=without_make())
    assert r.returncode == 0, r.stdout + r.stderr
    return r.stdout


@pytest.fixture(scope="module")
def firmware(tmp_path_factory):
    out = tmp_path_factory.mktemp("cortex_m")
    return out, make(out)


def test_it_fits(firmware):
    """Flash and memory are about those of the README, as compilers differ, and the linker does not warn."""
    flash, memory = map(int, re.search(r"flash (\d+) KB, static memory (\d+) KB of 100 KB", firmware[1]).groups())
    assert 150 < flash < 260 and memory <= 95


def test_it_runs(firmware):
    """Static memory and stack together are at most 100 KB."""
    said = make(firmware[0], "run")
    digit, stack = re.fullmatch(r"digit (\d), stack (\d+) bytes\n", said).groups()
    assert digit == "7"
    sizes = subprocess.run(["arm-none-eabi-size", firmware[0] / "firmware.elf"], capture_output=True, text=True).stdout
    data, bss = map(int, sizes.splitlines()[1].split()[1:3])
    assert int(stack) > 1000 and data + bss + int(stack) <= 100 << 10


def test_nothing_needs_an_operating_system(firmware):
    """The object has no allocation, no library atomics and no system calls."""
    names = subprocess.run(
        ["arm-none-eabi-nm", "-u", firmware[0] / "digit/model"], capture_output=True, text=True, check=True
    ).stdout.split()
    wrong = [n for n in names if re.match(r"(__atomic|_?_sync|malloc|calloc|realloc|free|printf|f?open|_sbrk)", n)]
    assert wrong == [] and "memcpy" in names


def test_other_digits(tmp_path, firmware):
    for digit in (0, 3):
        raw = (ROOT / f"examples/mnist/digits/{digit}.pgm").read_bytes()[13:]
        np.save(tmp_path / "p.npy", np.frombuffer(raw, np.uint8).reshape(1, 1, 28, 28).astype(np.float32) / 255)
        (firmware[0] / "firmware.elf").unlink()
        assert make(firmware[0], "run", f"PICTURE={tmp_path / 'p.npy'}").startswith(f"digit {digit},")


def test_int8(firmware):
    """The network rounded to 8 bits is exported, built and run, and needs less flash and static memory than in f32."""
    said = make(firmware[0], "int8", f"PYTHON={sys.executable}")
    sizes = r"flash (\d+) KB, static memory (\d+) KB of 100 KB\ndigit 7, stack (\d+) bytes\n"
    flash, memory, stack = map(int, re.search(sizes, said).groups())
    assert flash < 160 and memory <= 55 and 1000 < stack < 24 << 10


def test_readme():
    commands = "\n".join(text for _, text in blocks(EXAMPLE / "README.md", "sh"))
    assert commands == "make -s -C examples/cortex_m\nmake -s -C examples/cortex_m run\n"
    r = subprocess.run(["bash", "-euc", commands], cwd=ROOT, capture_output=True, text=True, env=without_make())
    assert r.returncode == 0 and "\ndigit 7, stack " in r.stdout, r.stdout + r.stderr
