"""Imitated devices get the kernels of the instructions that they have (backend/opencl/launch/instructions.c), and tiles
for which they have enough registers."""

import pathlib
import re
import tempfile

import pytest
import torch

import clave

PROFILES = pathlib.Path(__file__).with_name("profiles")
BYTES, PACKED, PACKED_SIGNED, NVIDIA, AMD, ARM, QUALCOMM = range(7)  # as in kernels_cl/support/add_dots.h
KINDS = {
    "nvidia_sm75": NVIDIA,
    "nvidia_sm86": NVIDIA,
    "amd_gfx1030": AMD,
    "amd_gfx1100": AMD,
    "amd_gfx1201": AMD,
    "amd_gfx942": AMD,
    "amd_gfx900": BYTES,  # the probe fails
    "intel_a770": PACKED,
    "mali_g52": ARM,
    "mali_g78": PACKED,
    "adreno_640": QUALCOMM,
    "adreno_740": PACKED,
}
# Profile, the products of packed bytes that it accelerates (signed, unsigned, mixed), and the ones that clave uses.
ACCELERATED = [
    ("mali_g78", "001", PACKED),
    ("mali_g78", "110", PACKED_SIGNED),
    ("mali_g78", "010", ARM),
    ("adreno_740", "110", PACKED_SIGNED),
    ("adreno_740", "000", QUALCOMM),
    ("intel_a770", "000", BYTES),
]


@pytest.fixture
def options(imitate, tmp_path):
    """Returns a function that returns the values of a macro in the options of a program's kernels."""

    def run(program, profile, kernels, macro, lines="", **env):
        file = tmp_path / "profile.txt"
        made = pathlib.Path(tempfile.mkdtemp(dir=tmp_path))
        file.write_text(lines + (PROFILES / f"{profile}.txt").read_text())
        env |= {"CLAVE_IMITATED_PROGRAMS": str(made), "CLAVE_IMITATED_PROFILE": str(file)}
        command = ("clave", "bench", program, "--runs", "1", "--warmup", "0")
        p = imitate(profile, command, **env)
        assert p.code == 0 and not p.broken, p.err
        texts = [path.read_text() for path in made.glob("*.cl")]
        lines = [text.partition("\n")[0] for text in texts if re.search(rf"void \w*{kernels}\(", text)]
        return {int(value) for line in lines for value in re.findall(rf"-D {macro}=(\d+)", line)}

    return run


@pytest.fixture
def dots_kinds(options, programs):
    """Returns a function that returns the kinds of products of bytes in a quantised model's kernels."""
    model = programs("llm, int4")
    return lambda profile, lines="", **env: options(
        model, profile, "_dots", "DOTS", lines, CLAVE_PRECISION="fast", **env
    )


@pytest.mark.parametrize("profile", KINDS)
def test_products_of_bytes(dots_kinds, profile):
    assert dots_kinds(profile) == {KINDS[profile]}


@pytest.mark.parametrize(("profile", "accelerated", "kind"), ACCELERATED)
def test_emulated_products_are_not_used(dots_kinds, profile, accelerated, kind):
    assert dots_kinds(profile, f"accelerated={accelerated}\n") == {kind}


def test_a_named_instruction_may_be_emulated(dots_kinds):
    assert dots_kinds("intel_a770", "accelerated=000\n", CLAVE_ASM="cl_khr_integer_dot_product") == {PACKED}


@pytest.mark.parametrize("precision", ["strict", "fast"])
@pytest.mark.parametrize(
    ("profile", "kernels", "lines", "kinds"),
    [
        ("mali_g78", "gemm_direct", "", {1}),
        ("mali_g78", "gemm_direct", "half_vector=1\n", set()),
        ("mali_g78", "gemm_direct", "works=dots\n", set()),
        ("mali_g52", "gemm_direct", "", {1}),
        ("adreno_640", "gemm_direct_image", "", {1}),
        ("adreno_740", "gemm_direct_image", "", {1}),
        ("adreno_740", "gemm_direct_image", "extensions=cl_khr_subgroups\n", set()),
    ],
)
def test_products_in_halves(options, programs, profile, kernels, lines, kinds, precision):
    """Where halves are faster than floats, products compute with them in fast precision."""
    found = options(programs("llm"), profile, kernels, "HALVES_BY", lines, CLAVE_PRECISION=precision)
    assert found == (kinds if precision == "fast" else set())


@pytest.mark.parametrize(
    ("profile", "name", "each"),
    [
        ("amd_gfx900", "gfx900", 4),  # registers do not fit two waves with tiles of 128
        ("amd_gfx900", "gfx90a:sramecc+:xnack-", 8),
        ("amd_gfx1100", "gfx1100", 8),
        ("nvidia_sm86", "NVIDIA GeForce RTX 3060", 8),
        ("mali_g78", "Mali-G78", None),
    ],
)
def test_tiles_by_registers(options, tmp_path, profile, name, each):
    file = tmp_path / "wide.clv"
    module = torch.nn.Linear(64, 4096, bias=False)
    clave.export(module, (torch.zeros(4096, 64),), verify=False).save(str(file))
    assert options(file, profile, "gemm_local", "EACH", f"name={name}\n") == ({each} - {None})


@pytest.mark.parametrize(
    ("profile", "unit"),
    [
        ("nvidia_sm86", 1),  # as in kernels_cl/support/mma_units.h
        ("nvidia_sm75", 3),
        ("amd_gfx1100", 4),
        ("amd_gfx1201", 5),
        ("amd_gfx942", 6),
        ("amd_gfx1030", None),
        ("intel_a770", 7),
        ("intel_pvc", 8),
        ("mali_g78", None),
    ],
)
def test_products_of_codes_by_units(options, tmp_path, profile, unit):
    """Products of at least 32 rows use the unit for matrices."""
    module = torch.nn.Linear(64, 96, bias=False)
    for rows, used in ((31, set()), (32, {unit} - {None})):
        file = tmp_path / f"{rows}.clv"
        clave.export(module, (torch.zeros(rows, 64),), quantize="int4:32", verify=False).save(str(file))
        assert options(file, profile, "matmul_dots_mma", "MMA", CLAVE_PRECISION="fast") == used
