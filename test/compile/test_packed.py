"""Packed weights in executables: read in place on processors for which they are packed, packed again on others, with
the same bits; and without the plain weights beside them."""

import ctypes.util
import os
import pathlib
import re
import shutil
import struct
import subprocess

import pytest
import torch
from compiled import Refused, bits_of, command, emit, run, same_bits
from test_means import bare_object, literal, model_of
from test_models import noise, saved

import clave

FLAGS = pathlib.Path("/proc/cpuinfo").read_text().split()
LESS = "avx2" if "avx512f" in FLAGS else "portable"  # a level below this processor's
needs_levels = pytest.mark.skipif("avx2" not in FLAGS, reason="this processor has one level of instructions")
CONVERTED = "c.clv"
pytestmark = pytest.mark.by_turn(3)


class Net(torch.nn.Module):
    """Convolutions and products whose weights are read packed, and a norm whose weights are not."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 32, 3, stride=2)
        self.norm = torch.nn.LayerNorm(32)
        self.wide, self.last = torch.nn.Linear(32, 200), torch.nn.Linear(200, 10)

    def forward(self, x):
        x = self.norm(self.second(self.first(x).relu()).mean((2, 3)))
        return self.last(self.wide(x).relu())


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    args = (noise(2, 3, 16, 16),)
    return saved(tmp_path_factory.mktemp("net"), Net(), *args), args


@pytest.fixture
def net(tmp_path, exported):
    return pathlib.Path(shutil.copy(exported[0], tmp_path)), exported[1]


def sources(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def sizes(model, level='[^"]+'):
    """Returns the bytes of packed weights in the program, for one level or all."""
    found = re.findall(rf'^  \{{\d+, "{level}", model_packed_weights \+ \d+, (\d+)\}}', model.read_text(), re.M)
    return [int(n) for n in found]


def is_right(exe, program, args, **more):
    want = clave.Session(str(program), device="cpu").run(*args)
    got = run(exe, [bits_of(x) for x in args], want, **more)
    return all(same_bits(a, b) for a, b in zip(got, want, strict=True))


def zero(path):
    path.write_bytes(bytes(path.stat().st_size))


@pytest.fixture
def at_less(monkeypatch):
    """Returns a function that makes later compilations pack for a lesser processor."""

    def change(wanted):
        if wanted:
            monkeypatch.setenv("CLAVE_DEVICE_CLASS", LESS)
        else:
            monkeypatch.delenv("CLAVE_DEVICE_CLASS", raising=False)

    return change


def test_they_are_read_where_they_lie(builder, tmp_path, net):
    program, args = net
    folder = emit(program, tmp_path / "c", "--pack")
    exe = builder.build(folder)
    assert len(sizes(folder / "model.c")) >= 2
    assert is_right(exe, program, args)
    r = subprocess.run([exe, "--bench", "3", folder / "in0.bin"], capture_output=True, text=True)
    assert (r.returncode, r.stderr) == (0, "")
    zero(folder / "packed_weights.bin")
    assert not is_right(builder.build(folder), program, args)


@needs_levels
def test_another_processor_packs_its_own(builder, tmp_path, at_less, net):
    program, args = net
    at_less(True)
    folder = emit(program, tmp_path / "c", "--pack")
    zero(folder / "packed_weights.bin")
    at_less(False)
    exe = builder.build(folder)
    assert is_right(exe, program, args)
    r = subprocess.run([exe, folder / "in0.bin", tmp_path / "out.bin"], capture_output=True)
    said = rb"note: the weights are packed for (x86-64 avx2|portable) and are packed again for x86-64 avx\w+\n"
    assert r.returncode == 0 and re.fullmatch(said, r.stderr), r.stderr


@needs_levels
def test_processors_of_two_levels(builder, tmp_path, at_less, net):
    """A file is packed for both levels: each processor reads its own weights."""
    program, args = net
    packed_for_both(tmp_path, at_less, program)
    folder = emit(tmp_path / CONVERTED, tmp_path / "c")
    text = (folder / "model.c").read_text()
    levels = re.findall(r'^  \{(\d+), "([^"]+)", model_packed_weights', text, re.M)
    assert len({level for _, level in levels}) == 2 and len(levels) == 2 * len({n for n, _ in levels})
    assert is_right(builder.build(folder), program, args)


def test_a_packed_file_stays_packed(tmp_path, net):
    """Packed weights stay, as with --pack. Weights for fixed sizes that were not packed before are packed, too."""
    program, _ = net
    assert command("convert", program, tmp_path / CONVERTED, "--pack", "cpu").returncode == 0
    kept = sources(emit(tmp_path / CONVERTED, tmp_path / "kept"))
    made = sources(emit(program, tmp_path / "made", "--pack"))
    plain = sources(emit(program, tmp_path / "plain"))
    for files in (kept, made):  # the program's name
        files["model.c"] = re.sub(rb'"\w+\.clv"', b"", files["model.c"])
    assert kept == made and "packed_weights.bin" in made and "packed_weights.bin" not in plain
    assert plain["weights.bin"] == made["weights.bin"]


class Plane(torch.nn.Module):
    """Winograd convolutions use tiles of 2 for small images, of 4 for others. Single rows read other packed weights."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(64, 64, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def test_sizes_that_nobody_packed_for(builder, tmp_path):
    """A program with dynamic sizes has weights that are packed for the sizes 1 and 64."""
    torch.manual_seed(0)
    side = torch.export.Dim("side", min=1, max=200)
    program = clave.export(Plane().eval(), (torch.zeros(1, 64, 8, 8),), dynamic_shapes=({2: side, 3: side},))
    program.save(tmp_path / "plane.clv")
    args = (torch.randn(1, 64, 10, 10),)
    folder = emit(tmp_path / "plane.clv", tmp_path / "c", "--pack", "--packed-only", "--dim", "side=10")
    assert len(sizes(folder / "model.c")) == 1 and "kernel_winograd" in (folder / "model.c").read_text()
    assert is_right(builder.build(folder), tmp_path / "plane.clv", args)


@pytest.mark.parametrize("memory", [[], ["--arena", "static"]])
def test_without_plain_weights(builder, tmp_path, memory, net):
    program, args = net
    both = emit(program, tmp_path / "both", "--pack", *memory)
    only = emit(program, tmp_path / "only", "--pack", "--packed-only", *memory)
    packed, text = sum(sizes(only / "model.c")), (only / "model.c").read_text()
    assert (only / "packed_weights.bin").read_bytes() == (both / "packed_weights.bin").read_bytes()
    assert (only / "weights.bin").stat().st_size < (both / "weights.bin").stat().st_size - packed / 2
    assert "_pack" not in "".join(re.findall(r"&kernel_\w+", text))
    if memory:
        of = [int(re.search(r"packed weights (\d+)", (f / "model.c").read_text()).group(1)) for f in (both, only)]
        assert of[0] >= packed and of[1] == 0
    assert is_right(builder.build(only), program, args)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(400, 64)

    def forward(self, ids):
        return torch.nn.functional.linear(self.table(ids).relu(), self.table.weight)


@pytest.mark.parametrize("kept", [[], ["--pack", "--packed-only"]])
def test_rows_of_a_tied_table(builder, tmp_path, kept):
    """Rows are read from the weight that is packed for the product, so the plain table can be omitted."""
    torch.manual_seed(0)
    args = (torch.tensor([399, 0, 17]),)
    program = saved(tmp_path, Tied().eval(), *args)
    folder = emit(program, tmp_path / "c", *kept)
    assert (folder / "weights.bin").stat().st_size == (0 if kept else 400 * 64 * 4)
    assert is_right(builder.build(folder), program, args)


@needs_levels
def test_no_other_processor_without_plain_weights(builder, tmp_path, at_less, net):
    program, _ = net
    at_less(True)
    folder = emit(program, tmp_path / "c", "--pack", "--packed-only")
    at_less(False)
    (tmp_path / "x.bin").write_bytes(bytes(2 * 3 * 16 * 16 * 4))
    exe, out = builder.build(folder), tmp_path / "out.bin"
    r = subprocess.run([exe, tmp_path / "x.bin", out], capture_output=True, text=True)
    assert (r.returncode, r.stdout) == (1, "") and not out.exists()
    less = "(?:x86-64 avx2|portable)"
    says = rf"model: the program has only weights packed for {less}, and this processor is x86-64 avx\w+\n"
    assert re.fullmatch(says, r.stderr), r.stderr


@pytest.mark.by_turn(17)
@pytest.mark.parametrize("kept", [["--pack"], ["--pack", "--packed-only"]])
def test_in_firmware(tmp_path, at_less, kept, net):
    """Without plain weights, the buffer has no space for packed ones; in another layout, the run is an error."""
    program, (x,) = net
    want = clave.Session(str(program), device="cpu").run(x)[0]
    for name, less in (("here", False), ("there", True)):
        at_less(less)
        r = command("compile", program, "--emit-c", tmp_path / name, "--bare", *kept)
        assert r.returncode == 0, r.stderr
    at_less(False)
    room = int(re.search(r"packed weights (\d+)", (tmp_path / "here/model.c").read_text()).group(1))
    assert (room == 0) == ("--packed-only" in kept)
    objects = [bare_object(tmp_path / name, "gcc") for name in ("here", "there")]
    (tmp_path / "use.c").write_text(
        '#include <stdio.h>\n#include "here/here.h"\n#include "there/there.h"\n'
        f"static _Alignas(4) const unsigned char x[] = {{{literal(x)}}};\nstatic float y[{want.size}];\n"
        "int main(void) {\n  int code = there_run((const void *)x, y);\n  puts(there_error(code));\n"
        "  for (int i = 0; i < 2; i++)\n    if (here_run((const void *)x, y)) return 1;\n"
        "  fwrite(y, sizeof y, 1, stdout);\n  return 0;\n}\n"
    )
    subprocess.run(["gcc", "-Werror", tmp_path / "use.c", *objects, "-lm", "-o", tmp_path / "use"], check=True)
    r = subprocess.run([tmp_path / "use"], capture_output=True)
    no = b"weights packed for another processor" if "avx2" in FLAGS and "--packed-only" in kept else b""
    assert (r.returncode, r.stdout) == (0, no + b"\n" + want.tobytes())


@needs_levels
def test_damaged_ones_are_left_out(builder, tmp_path, at_less, net):
    program, args = net
    packed_for_both(tmp_path, at_less, program)
    file = bytearray((tmp_path / CONVERTED).read_bytes())
    section = file.index(b"FORM")  # its entry: docs/reference/formats.md
    for i in range(int.from_bytes(file[section + 8 : section + 16], "little"), len(file)):
        file[i] ^= 1
    (tmp_path / CONVERTED).write_bytes(file)
    r = command("compile", tmp_path / CONVERTED, "--emit-c", tmp_path / "c")
    assert r.returncode == 0
    assert "is damaged (hash) and is left out" in r.stderr and "is damaged (hash) and is packed again" in r.stderr
    assert LESS not in re.search(r'packed_for\[\] = "(.*)"', (tmp_path / "c/model.c").read_text()).group(1)
    assert is_right(builder.build(tmp_path / "c"), program, args)


def hash_anew(file):
    """Rehashes the sections of a .clv except its constants, then its header and table: docs/reference/formats.md."""
    xxh3 = ctypes.CDLL(ctypes.util.find_library("xxhash")).XXH3_64bits  # it comes with libxxhash-dev, which builds need
    xxh3.argtypes, xxh3.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_uint64
    (n,) = struct.unpack_from("<I", file, 24)
    for at in range(64, 64 + 32 * n, 32):
        tag, _, offset, size = struct.unpack_from("<4sIQQ", file, at)
        if tag != b"CONS":
            struct.pack_into("<Q", file, at + 24, xxh3(bytes(file[offset : offset + size]), size))
    struct.pack_into("<Q", file, 32, 0)
    struct.pack_into("<Q", file, 32, xxh3(bytes(file[: 64 + 32 * n]), 64 + 32 * n))


def rename_levels(path, change):
    """Renames levels of the packed weights of a file, in its index of entries: docs/reference/formats.md."""
    file = bytearray(path.read_bytes())
    for found in re.finditer(rb"cpu \d+ (x86-64[ a-z0-9]*|portable)\0+", file):
        level = found[1].decode()
        new = change.get(level, level).encode()
        file[found.start(1) : found.start(1) + max(len(new), len(level))] = new.ljust(len(level), b"\0")
    hash_anew(file)
    path.write_bytes(file)


def packed_for_both(tmp_path, at_less, program):
    """Packs for both levels; returns their names, the lesser level first."""
    for less, a, b in ((True, program, tmp_path / "b.clv"), (False, tmp_path / "b.clv", tmp_path / CONVERTED)):
        at_less(less)
        assert command("convert", a, b, "--pack", "cpu").returncode == 0
    file = (tmp_path / CONVERTED).read_bytes()
    return sorted({name.decode() for name in re.findall(rb"cpu \d+ (x86-64[ a-z0-9]*|portable)\0", file)})


@needs_levels
def test_a_level_is_a_text(builder, tmp_path, at_less, net):
    """A file may contain any printable name of a level."""
    program, args = net
    less, _ = packed_for_both(tmp_path, at_less, program)
    rename_levels(tmp_path / CONVERTED, {less: '"; #error \\'})
    folder = emit(tmp_path / CONVERTED, tmp_path / "c")
    assert is_right(builder.build(folder), program, args)


@needs_levels
def test_weights_of_another_size_are_left_out(tmp_path, at_less, net):
    """A file declares panels of another layout as those of this processor, which would read them out of bounds. It is
    refused."""
    program, _ = net
    less, full = packed_for_both(tmp_path, at_less, program)
    rename_levels(tmp_path / CONVERTED, {less: full, full: less})
    r = command("compile", tmp_path / CONVERTED, "--emit-c", tmp_path / "c", "--packed-only")
    assert r.returncode == 0, r.stderr
    assert "is damaged (size) and is left out" in r.stderr
    right = command("compile", program, "--emit-c", tmp_path / "right", "--pack", "--packed-only")
    assert right.returncode == 0
    want, got = (sizes(tmp_path / f / "model.c", full) for f in ("right", "c"))
    assert got == want


@pytest.mark.parametrize(
    "options, says",
    [
        (["--packed-only"], r"needs a packed weight for this processor \(cpu \d+ .*\), and the program has none"),
        (["--pack", "--packed-only", "--method", "all"], "--packed-only needs a program that is emitted as C code"),
        (["--pack", "--kernel-dir", "."], "--pack cannot be combined with --kernel-dir"),
        (["--packed-only", "--kernel-dir", "."], "packed_only cannot be combined with replaced kernels"),
    ],
)
def test_what_is_refused(tmp_path, options, says, net):
    program, _ = net
    with pytest.raises(Refused, match=says):
        emit(program, tmp_path / "c", *options)


def test_nothing_to_pack(builder, tmp_path):
    program, args = model_of(tmp_path, "counter")
    folder = emit(program, tmp_path / "c", "--pack", "--packed-only")
    assert not (folder / "packed_weights.bin").exists()
    assert is_right(builder.build(folder), program, args)


@pytest.mark.parametrize("target", ["c", pytest.param("opencl", marks=pytest.mark.by_turn(11))])
def test_with_the_runtime(tmp_path, target, at_less, net):
    program, args = net
    options = ("--target", target, "--method", "all")
    env = {"HOME": os.environ.get("HOME", "/"), "CLAVE_SELF_CHECK": "off"}
    out = tmp_path / "out.bin"
    (tmp_path / "x.bin").write_bytes(bits_of(args[0]).tobytes())
    made = {}
    for kind, less in (("plain", False), ("packed", False), ("other", True)):
        at_less(less)
        r = command("compile", program, "-o", tmp_path / kind, *options, *([] if kind == "plain" else ["--pack"]))
        assert r.returncode == 0, r.stderr
        r = subprocess.run([tmp_path / kind, tmp_path / "x.bin", out], capture_output=True, text=True, env=env)
        assert r.returncode == 0 and ("packed again" in r.stderr) == (kind == "other" and target == "c"), r.stderr
        made[kind] = out.read_bytes()
    assert made["plain"] == made["packed"]
    assert target == "opencl" or made["plain"] == made["other"]
    assert (tmp_path / "packed").stat().st_size > (tmp_path / "plain").stat().st_size + 4096
