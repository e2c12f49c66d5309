"""ci/vendor_compile: bounds grow only on request, every error has a reason, kept results are used."""

import importlib.util
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))
import vendor_bounds as bounds
import vendor_compilers as compilers
import vendor_programs as programs

loader = importlib.machinery.SourceFileLoader("vendor_compile", str(ROOT / "ci/vendor_compile"))
vendor_compile = importlib.util.module_from_spec(importlib.util.spec_from_loader("vendor_compile", loader))
loader.exec_module(vendor_compile)

Result = compilers.Result
ROWS = [
    ("gemm", "dg2", Result(registers=121, scratch=16)),
    ("gemm", "dg2", Result(registers=60, scratch=64)),
    ("gemm", "gfx900", Result(error="no such builtin")),
    ("softmax", "gfx900", Result(registers=9)),
]
FOUND = {("gemm", "dg2"): (64, 128), ("softmax", "gfx900"): (0, 16)}


def test_the_worst_of_a_kernels_programs_counts():
    assert bounds.worst(ROWS) == FOUND


@pytest.mark.parametrize(
    "bound, lines",
    [
        ((64, 128), []),
        ((80, 136), []),
        ((63, 128), ["gemm on dg2: 64 bytes of scratch, at most 63"]),
        ((64, 120), ["gemm on dg2: 128 registers, at most 120"]),
        (None, ["gemm on dg2: no bound; ci/vendor_compile --write adds one"]),
    ],
)
def test_values_over_their_bound_are_named(bound, lines):
    most = {("softmax", "gfx900"): (0, 16)} | ({("gemm", "dg2"): bound} if bound else {})
    assert bounds.over(FOUND, most) == lines


def test_bounds_fall_and_rise_only_for_named_kernels():
    before = {("gemm", "dg2"): (32, 200), ("softmax", "gfx900"): (0, 8), ("gone", "dg2"): (0, 8)}
    assert bounds.lowered(FOUND, before) == {("gemm", "dg2"): (32, 128), ("softmax", "gfx900"): (0, 8)}
    assert bounds.lowered(FOUND, before, ["gem."])["gemm", "dg2"] == (64, 128)


def test_the_table_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "bounds.tsv"
    bounds.write_bounds(FOUND, ["dg2", "gfx900"], path)
    assert "gemm\t64/128\t-\nsoftmax\t-\t0/16\n" in path.read_text()
    assert bounds.read_bounds(path) == FOUND


def expect(*rows):
    return [(*map(re.compile, row), "a reason") for row in rows]


@pytest.mark.parametrize(
    "expected, wrong, stale, allowed",
    [
        (expect(("gfx.*", "gemm", "builtin")), 0, 0, 1),
        (expect(("gfx.*", "gem", "builtin")), 1, 1, 0),
        (expect(("dg2", "gemm", "builtin")), 1, 1, 0),
        (expect(("gfx900", "gemm", "other")), 1, 1, 0),
        (expect(("gfx.*", "gemm", "builtin"), ("dg2", "gemm", "builtin")), 0, 1, 1),
        (expect(("gfx.*", "gemm", "builtin"), ("sm_75", "gemm", "builtin")), 0, 0, 1),
        ([], 1, 0, 0),
    ],
)
def test_errors_are_listed_with_a_reason_and_no_longer_than_they_occur(expected, wrong, stale, allowed):
    found = bounds.judge_errors(ROWS, expected)
    assert (len(found[0]), len(found[1]), found[2]) == (wrong, stale, allowed)


def program(tmp_path, kernel, options="", body="int x;"):
    path = tmp_path / f"{kernel}{abs(hash(options))}.cl"
    head = "__kernel __attribute__((reqd_work_group_size(8, 1, 1)))"
    path.write_text(f"// OPTIONS: {options}\n{body}\n{head}\nvoid {kernel}(int a) {{}}\n")
    return programs.read_program(path)


def test_a_program_is_read_with_its_options(tmp_path):
    p = program(tmp_path, "gemm", "-D A=1 -cl-std=CL1.2")
    assert (p.kernel, p.options) == ("gemm", "-D A=1 -cl-std=CL1.2")
    assert p.text.startswith("int x;\n")
    assert p.hash != program(tmp_path, "gemm", "-D A=2").hash
    assert p.hash != program(tmp_path, "gemm", "-D A=1 -cl-std=CL1.2", "int y;").hash


def test_the_choice_depends_on_options_alone(tmp_path):
    options = [f"-D N={n}" for n in range(1, 9)]
    chosen = lambda kernel, body: [
        p.options for p in programs.chosen([program(tmp_path, kernel, o, body) for o in reversed(options)])
    ]
    assert chosen("gemm_local", "int x;") == chosen("gemm_local", "int y;") == ["-D N=1", "-D N=8"]
    assert chosen("elementwise", "int x;") == ["-D N=1"]
    assert [p.options for p in programs.chosen([program(tmp_path, "gemv_row", "")])] == [""]
    both = [program(tmp_path, kernel) for kernel in ("matmul", "softmax")]
    assert [p.kernel for p in programs.chosen(both, whole=False)] == ["matmul"]


def test_results_are_kept_for_the_same_compilers(tmp_path, monkeypatch):
    p, path = program(tmp_path, "gemm"), tmp_path / "kept/results.jsonl"
    kept = vendor_compile.Kept(path)
    kept.add(p, "dg2", Result(registers=3, counts={"fma": 2}))
    assert vendor_compile.Kept(path).results == {(p.hash, "dg2"): Result(registers=3, counts={"fma": 2})}
    monkeypatch.setattr(compilers, "MEASURES", compilers.MEASURES + 1)
    assert not vendor_compile.Kept(path).results


def test_instructions_of_assembly_are_counted():
    lines = ["v_fma_f32 v0, v1, v2, v3", "v_dual_fmac_f32 v0, v1", "v_wmma_f32_16x16x16_f16 v[0:7]"]
    lines += ["scratch_store_b32 off, v40", "ds_load_b128 v[0:3]", "v_add_f32 v0, v1"]
    counts = compilers.counts(compilers.AMD_COUNTS, "\n".join(lines))
    assert counts == {"fma": 2, "dot": 0, "matrix": 1, "local": 1, "private": 1}


def test_without_compilers_the_run_is_skipped_with_the_reason(monkeypatch, capsys):
    def missing():
        raise compilers.Missing("this is not Debian")

    monkeypatch.setattr(compilers, "fetch", missing)
    monkeypatch.setattr(sys, "argv", ["vendor_compile"])
    assert vendor_compile.main() == 0
    assert capsys.readouterr().out == "skipped: no offline compilers for GPUs: this is not Debian\n"
    patterns = [line.split("\t")[1] for line in (ROOT / "ci/skips").read_text().splitlines() if line[0] != "#"]
    assert any(re.search(p, "no offline compilers for GPUs: this is not Debian") for p in patterns)


def test_the_committed_tables_fit_together():
    """Each bound is of a target that exists, and each kernel's name is in the sources."""
    most = bounds.read_bounds()
    assert {target for _, target in most} <= set(compilers.TARGETS)
    rooms = ROOT / "kernels_cl", ROOT / "backend/opencl"
    sources = "".join(p.read_text() for room in rooms for p in room.rglob("*.c*"))
    names = {kernel for kernel, _ in most}
    assert not [name for name in names if not re.search(rf"\b{name}\b", sources)]
    assert all(len(row) == 4 and row[3] for row in bounds.read_errors())


def test_profiles_exist():
    named = {profile for target in compilers.TARGETS.values() for profile in target.profiles}
    assert named <= {p.stem for p in (ROOT / "test/imitated_opencl/profiles").glob("*.txt")}
