"""Tests compiled programs without threads, allocation or a host, and with the user's own kernels."""

import ctypes
import json
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
import torch
from compiled import ROOT, Refused, bits_of, command, dims_of, emit, run, same_bits
from test_models import MODELS, noise, saved

import clave

ALLOCATES = {"malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "strdup", "mmap64"}


def undefined(objects) -> set[str]:
    lines = subprocess.run(["nm", "-u", *objects], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1] for line in lines if " U " in line}


def model_of(tmp_path, name):
    make, args = MODELS[name]
    torch.manual_seed(0)
    return saved(tmp_path, make(), *args), args


def built_alike(builder, tmp_path, name, *options) -> set[str]:
    """Compiles with these options and compares with a session; returns the undefined symbols of the objects."""
    program, args = model_of(tmp_path, name)
    given = [bits_of(x) for x in args]
    emit(program, tmp_path / "c", *dims_of(program, given), *options)
    exe = builder.build(tmp_path / "c")
    for _ in range(2):
        want = clave.Session(str(program), device="cpu").run(*args)
        for a, b in zip(run(exe, given, want), want, strict=True):
            assert same_bits(a, b)
    sources = [p.relative_to(tmp_path / "c") for p in (tmp_path / "c").rglob("*.c")]
    words = (tmp_path / "c/Makefile").read_text().split()
    flags = [w for w in words if w.startswith("-D") and w != "-D_GNU_SOURCE"]
    shared = [builder.shared_object(tmp_path / "c", str(s), flags) for s in sources if len(s.parts) > 1]
    return undefined([*shared, *(tmp_path / "c").glob("*.o")])


def test_no_threads(builder, tmp_path):
    names = built_alike(builder, tmp_path, "net", "--threads", "0")
    assert not [n for n in names if "thread" in n], names
    assert not (tmp_path / "c/base/threads.c").exists()
    assert "-lpthread" not in (tmp_path / "c/Makefile").read_text()


@pytest.mark.by_turn(9)
@pytest.mark.parametrize("name", ["net", "counter", "loop", "dice", "no elements"])
def test_static_memory(builder, tmp_path, name):
    names = built_alike(builder, tmp_path, name, "--arena", "static")
    assert not names & ALLOCATES
    assert not [n for n in names if "thread" in n], names


def test_the_size_of_static_memory(tmp_path):
    """The printed size equals the size in the sources."""
    program, _ = model_of(tmp_path, "net")
    r = command("compile", program, "--emit-c", tmp_path / "c", "--arena", "static")
    assert r.returncode == 0, r.stderr
    said = int(re.fullmatch(r"(\d+) bytes of static memory\n", r.stdout).group(1))
    model = (tmp_path / "c/model.c").read_text()
    arena, state, packed, scratch = map(
        int, re.search(r"arena (\d+), state (\d+), packed weights (\d+), scratch memory (\d+)", model).groups()
    )
    memory = int(re.search(r"char memory\[(\d+)\]", model).group(1))
    assert arena > 0 and packed > 0 and scratch > 0
    assert memory == sum((n + 63) // 64 * 64 for n in (arena, state, packed, scratch + 1))
    room = int(re.search(r"-DMEMORY_STATIC=(\d+)", (tmp_path / "c/Makefile").read_text()).group(1))
    assert said == memory + room


def test_a_processor_that_wants_more(builder, tmp_path):
    """The size is checked when the program starts: memory is never exceeded."""
    program, args = model_of(tmp_path, "net")
    emit(program, tmp_path / "c", "--arena", "static")
    model = tmp_path / "c/model.c"
    text = model.read_text()
    size = int(re.search(r"char memory\[(\d+)\]", text).group(1))
    packed = int(re.search(r"packed weights (\d+)", text).group(1))
    for less in (size - packed, 64):
        model.write_text(text.replace(f"memory[{size}]", f"memory[{less}]"))
        with pytest.raises(AssertionError, match=rf"need more than the {less} bytes of memory"):
            run(builder.build(tmp_path / "c"), [bits_of(x) for x in args], [np.zeros(1)] * 4)


@pytest.mark.parametrize(
    "options, says",
    [
        (["--arena", "static", "--threads", "2"], "threads allocate memory"),
        (["--arena", "static", "--shared"], "a shared library allocates memory"),
        (["--verify", "--bare"], "firmware code has no command line"),
    ],
)
def test_what_does_not_go_together(tmp_path, options, says):
    program, _ = model_of(tmp_path, "pick")
    with pytest.raises(Refused, match=says):
        emit(program, tmp_path / "c", *options)


def test_a_fixed_number_of_threads(builder, tmp_path):
    program, args = model_of(tmp_path, "net")
    emit(program, tmp_path / "c", "--threads", "3")
    exe = builder.build(tmp_path / "c")
    want = clave.Session(str(program), device="cpu").run(*args)
    got = run(exe, [bits_of(x) for x in args], want, env={"CLAVE_THREADS": "not a number"})
    assert all(same_bits(a, b) for a, b in zip(got, want, strict=True))
    assert "CLAVE_THREADS" not in subprocess.run([exe, "--help"], capture_output=True, text=True).stdout


# ---------------------------------------------------------------- processors

LIMITS = "#include <stdint.h>\n#undef PTRDIFF_MAX\n#define PTRDIFF_MAX %s\n"


@pytest.mark.parametrize(
    "limit, flags, says",
    [
        ("5368709120", [], None),
        ("2147483647", [], "this program needs more memory than this processor can address"),
        ("5368709120", ["-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"], "are little-endian: this processor is not"),
    ],
)
def test_what_a_processor_must_have(tmp_path, limit, flags, says):
    """model.c refuses to compile: offsets would be truncated to 32 bits, and data be read in the wrong byte order."""
    rows = torch.export.Dim("rows", max=1 << 28)
    program = saved(tmp_path, torch.nn.Linear(8, 3), noise(4, 8), dynamic_shapes=({0: rows},))
    emit(program, tmp_path / "c", "--dim", f"rows={100_000_000}")  # 3.2 GB of inputs, 1.2 GB of outputs
    (tmp_path / "c/limits.h").write_text(LIMITS % limit)
    words = ["gcc", "-std=c11", "-fsyntax-only", "-I.", "-include", "limits.h", "-Wno-builtin-macro-redefined", *flags]
    r = subprocess.run([*words, "model.c"], cwd=tmp_path / "c", capture_output=True, text=True)
    assert (r.returncode == 0) == (says is None) and (says or "") in r.stderr, r.stderr[:2000]


# ---------------------------------------------------------------- firmware

# Functions of a C library for firmware.
LIBM = ctypes.CDLL("libm.so.6")
FREESTANDING = {"memcpy", "memmove", "memset", "memcmp", "strlen", "strcmp", "strncmp"}


def bare_object(folder: pathlib.Path, compiler: str) -> pathlib.Path:
    """Makes one object of a folder of sources, as if without a hosted C library."""
    r = subprocess.run(
        ["make", "-s", "-j2", f"CC={compiler}", "CFLAGS=-O0 -ffreestanding -fno-builtin -Werror", "model"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert (r.returncode, r.stderr) == (0, ""), r.stderr[:2000]
    return folder / "model"


def literal(x) -> str:
    return ", ".join(str(b) for b in bits_of(x).tobytes())


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_two_programs_in_one_firmware(tmp_path, compiler):
    """An object exports only its own names, and needs only functions such as memcpy, and libm. An error in the data is
    a code and a text."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, (x,) = model_of(tmp_path / "a", "views")
    two, (i,) = model_of(tmp_path / "b", "pick")
    objects = []
    for program, name in ((one, "one"), (two, "two")):
        r = command("compile", program, "--emit-c", tmp_path / name, "--bare")
        assert r.returncode == 0 and r.stdout.endswith("bytes of static memory\n"), r.stderr
        objects.append(bare_object(tmp_path / name, compiler))
        needs = {n for n in undefined([objects[-1]]) if not n.startswith("_")}
        assert not [n for n in needs - FREESTANDING if not hasattr(LIBM, n)], needs
        defined = subprocess.run(["nm", "-g", "--defined-only", objects[-1]], capture_output=True, text=True).stdout
        assert all(line.split()[-1].startswith(f"{name}_") for line in defined.splitlines()), defined
    want = list(clave.Session(str(one), device="cpu").run(x))
    outputs = ", ".join(f"y{k}" for k in range(len(want)))
    decl = "".join(f"  static float y{k}[{w.size + 1}];\n" for k, w in enumerate(want))
    for indices, ends in ((i, None), (torch.tensor([3, 7, 6]), b"1 index out of range; node ")):
        (tmp_path / "use.c").write_text(
            '#include <stdio.h>\n#include <string.h>\n#include "one/one.h"\n#include "two/two.h"\n'
            "int main(void) {\n"
            f"  static _Alignas(8) const unsigned char x[] = {{{literal(x)}}}, i[] = {{{literal(indices)}}};\n{decl}"
            "  static float z[12];\n  int code = 0;\n  for (int k = 0; k < 2; k++) {\n"
            f"    if (one_run((const void *)x, {outputs})) return 1;\n"
            "    code = two_run((const void *)i, z);\n  }\n"
            + "".join(f"  fwrite(y{k}, {w.nbytes}, 1, stdout);\n" for k, w in enumerate(want))
            + '  if (code) printf("%d %s; %s\\n", code, two_error(code), two_where());\n'
            "  else fwrite(z, sizeof z, 1, stdout);\n  one_reset();\n"
            '  return one_error(0)[0] || strcmp(one_error(99), "no code of this program");\n}\n'
        )
        subprocess.run(
            [compiler, "-Wall", "-Werror", tmp_path / "use.c", *objects, "-lm", "-o", tmp_path / "use"], check=True
        )
        r = subprocess.run([tmp_path / "use"], capture_output=True)
        first = b"".join(w.tobytes() for w in want)
        assert r.returncode == 0 and r.stdout.startswith(first)
        rest = r.stdout.removeprefix(first)
        if ends:
            assert rest.startswith(ends), rest
        else:
            assert rest == clave.Session(str(two), device="cpu").run(i)[0].tobytes()


def test_an_object(tmp_path):
    """-o with --bare writes an object, and the header beside it."""
    program, _ = model_of(tmp_path, "pick")
    r = command("compile", program, "--bare", "-o", tmp_path / "libpick.o", "--debug")
    assert r.returncode == 0, r.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["libpick.o", "m.clv", "pick.h"]
    assert "int pick_run(const int64_t *input_0, float *output_0);" in (tmp_path / "pick.h").read_text()


# ---------------------------------------------------------------- kernels of one's own


class Small(torch.nn.Module):
    def forward(self, x):
        return x.softmax(-1)


@pytest.fixture
def softmax(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "softmax.c").write_text((ROOT / "backend/cpu/kernels/softmax.c").read_text())
    return saved(tmp_path, Small(), noise(3, 5)), own


def test_a_kernel_in_the_place_of_ours(builder, tmp_path, softmax):
    program, own = softmax
    (own / "softmax.c").write_text(OWN)
    emit(program, tmp_path / "c", "--kernel-dir", str(own))
    (got,) = run(builder.build(tmp_path / "c"), [bits_of(noise(3, 5))], [np.zeros((3, 5), np.float32)])
    assert np.all(got == 42)


OWN = """#include "backend/cpu/kernels/softmax.h"
static bool run_own(const kernel_context *ctx, const void *args) {
  const softmax_args *p = args;
  (void)ctx;
  for (int i = 0; i < 15; i++) ((float *)p->out.data)[i] = 42;
  return true;
}
const kernel_desc kernel_softmax = {.name = "softmax",
                                    .run = run_own,
                                    .args_size = sizeof(softmax_args),
                                    .operands = {OPERAND(softmax_args, x), OPERAND(softmax_args, out)}};
"""


def bad(tmp_path, program, own, *more):
    before = sorted(tmp_path.rglob("*"))
    r = command("compile", program, "-o", tmp_path / "m", "--debug", "--kernel-dir", own, *more)
    *notes, line = r.stderr.splitlines()
    assert r.returncode == 1 and line.startswith("clave: ") and all(n.startswith("clave: note: ") for n in notes)
    assert sorted(tmp_path.rglob("*")) == before
    return line, notes


def test_a_language_models_method_for_firmware(tmp_path, softmax):
    """Text generation needs the runtime, but the method does not."""
    program = clave.load(softmax[0])
    clave._library.call("clave_program_set_section", program.handle.pointer, b"TOKN", b"words", 5)
    program.save(tmp_path / "words.clv")
    args = ("--bare", "--emit-c", tmp_path / "c", "--tune", "--budget", "1")
    env = os.environ | {"CLAVE_CACHE_DIR": str(tmp_path / "cache")}
    r = command("compile", tmp_path / "words.clv", *args, env=env)
    assert r.returncode == 0, r.stderr
    assert (tmp_path / "c/bare.c").exists()


def test_wrong_folders_of_kernels(tmp_path, softmax):
    program, own = softmax
    assert bad(tmp_path, program, tmp_path / "none")[0].endswith("none: expected a folder")
    (own / "softmax.c").rename(own / "other.c")
    line, _ = bad(tmp_path, program, own)
    assert "own: the folder has no kernel source that the program uses: " in line and "softmax.c" in line
    (own / "softmax.c").write_text("int kernel_of_nothing;\n")
    line, _ = bad(tmp_path, program, own)
    assert "softmax.c: the file does not define `const kernel_desc kernel_softmax`" in line


def test_a_folder_that_was_there_stays_empty(tmp_path, softmax):
    program, own = softmax
    (tmp_path / "c").mkdir()
    (own / "softmax.c").write_text("int kernel_of_nothing;\n")
    r = command("compile", program, "--emit-c", tmp_path / "c", "--kernel-dir", own)
    assert r.returncode == 1 and not list((tmp_path / "c").iterdir()), r.stderr
    r = command("compile", program, "--emit-c", tmp_path / "c", "--sbom", tmp_path / "c", "--threads", 0)
    assert r.returncode == 1 and not list((tmp_path / "c").iterdir()), r.stderr


def test_the_licence_of_a_kernel_of_ones_own_is_not_ours(tmp_path, softmax):
    program, own = softmax
    args = ("--emit-c", tmp_path / "c", "--kernel-dir", own, "--sbom", tmp_path / "s.json")
    r = command("compile", program, *args)
    assert r.returncode == 0, r.stderr
    files = json.loads((tmp_path / "s.json").read_text())["components"]
    assert [f["name"] for f in files if "/" in f["name"] and "licenses" not in f] == ["backend/cpu/kernels/softmax.c"]


def test_a_kernel_that_does_not_compile(tmp_path, softmax):
    program, own = softmax
    (own / "softmax.c").write_text('#include "no_such.h"\nconst kernel_desc kernel_softmax = {0};\n')
    line, notes = bad(tmp_path, program, own)
    assert "while compiling backend/cpu/kernels/softmax.c" in line and "no_such.h" in line and notes


# ---------------------------------------------------------------- results that are kept


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("name", ["net", "counter", "linear of 16 bits"])
def test_results_that_are_kept(builder, tmp_path, name):
    program, _ = model_of(tmp_path, name)
    emit(program, tmp_path / "c", "--verify", *(["--arena", "static"] if name == "counter" else []))
    r = subprocess.run([builder.build(tmp_path / "c"), "--verify"], capture_output=True, text=True)
    n = len(clave.Session(str(program), device="cpu").run(*MODELS[name][1]))
    assert (r.returncode, r.stdout, r.stderr) == (
        0,
        f"verified: {n} outputs on random inputs are equal to those of clave\n",
        "",
    )
    weights = bytearray((tmp_path / "c/weights.bin").read_bytes())
    for k in range(1, len(weights), 2):
        weights[k] ^= 2
    (tmp_path / "c/weights.bin").write_bytes(weights)
    r = subprocess.run([builder.build(tmp_path / "c"), "--verify"], capture_output=True, text=True)
    assert (
        r.returncode == 1
        and r.stdout == ""
        and re.fullmatch(
            r"model: output '.*' differs from the result on the processor that compiled it \(cpu .*\)\n", r.stderr
        )
    ), r.stderr


def test_no_results_were_kept(builder, tmp_path):
    program, _ = model_of(tmp_path, "pick")
    exe = builder.build(emit(program, tmp_path / "c"))
    r = subprocess.run([exe, "--verify"], capture_output=True, text=True)
    assert (r.returncode, r.stderr) == (
        1,
        "model: --verify: this program was compiled without --verify, so it has no results to compare\n",
    )
    assert "--verify" not in subprocess.run([exe, "--help"], capture_output=True, text=True).stdout
