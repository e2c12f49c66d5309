"""serialize/generate.py: its options, its refusals, and that flatc reads the output of the generated Python."""

from __future__ import annotations

import importlib
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATE = ROOT / "serialize" / "generate.py"
SCHEMA = ROOT / "serialize" / "schema.fbs"
RELEASED = ROOT / "serialize" / "released"
FLATC = shutil.which("flatc")
needs_flatc = pytest.mark.skipif(FLATC is None, reason="flatc is missing (Debian: flatbuffers-compiler)")


def generate(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(GENERATE), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def flatc(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(FLATC), *map(str, args)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generates a folder with gen/ (C and steps.fbs), clave_gen/ (the Python package) and docs/."""
    folder = tmp_path_factory.mktemp("generated")
    result = generate(*targets(folder), "--skip-flatc")
    assert result.returncode == 0, result.stderr
    return folder


def targets(folder: Path) -> list[object]:
    return ["--out", folder / "gen", "--python", folder / "clave_gen", "--docs", folder / "docs"]


@pytest.fixture(scope="module")
def modules(generated: Path):
    """Yields the generated modules schema, builder and serialize."""
    sys.path.insert(0, str(generated))
    try:
        yield {name: importlib.import_module(f"clave_gen.{name}") for name in ("schema", "builder", "serialize")}
    finally:
        sys.path.remove(str(generated))


# ---- options


def test_check_tells_stale_from_fresh(generated: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(generated, folder)
    assert generate(*targets(folder), "--check", "--skip-flatc").returncode == 0
    (folder / "gen" / "ir.h").write_text("stale")
    (folder / "docs" / "ops.md").unlink()
    result = generate(*targets(folder), "--check", "--skip-flatc")
    assert result.returncode == 1
    assert "ir.h is out of date" in result.stderr and "ops.md is out of date" in result.stderr
    assert (folder / "gen" / "ir.h").read_text() == "stale"


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    result = generate(*targets(tmp_path), "--dry-run", "--skip-flatc")
    assert result.returncode == 0
    assert "op_table.c" in result.stdout
    assert not list(tmp_path.iterdir())


def test_missing_flatc_is_an_error(tmp_path: Path) -> None:
    result = generate("--out", tmp_path / "gen", "--flatc", tmp_path / "nothing")
    assert result.returncode == 1
    assert "not found" in result.stderr and "--skip-flatc" in result.stderr


def test_docs_name_every_op_and_step(generated: Path, modules: dict) -> None:
    text = (generated / "docs" / "ops.md").read_text(encoding="utf-8")
    for op in modules["schema"].OPS:
        assert f"## {op.__name__}\n" in text
    for step in modules["schema"].StepKind:
        assert f"| {step.name} |" in text


# ---- bad schemas

BAD_SCHEMAS = [
    (
        'table Copy (moves, since: "1") { x: Tid (required); out: Tid (required, out); }',
        "table Copy (moves) { x: Tid (required); out: Tid (required, out); }",
        'Copy: an op needs since: "<number>"',
    ),
    ('(since: "U16 4")', '(since: "4")', 'DType: expected since: "<value> <number>"'),
    ('(since: "U16 4")', '(since: "U16 four")', 'DType: expected since: "<value> <number>"'),
    ('(since: "U16 4")', '(from: "U16 4")', "DType: unknown attribute 'from'"),
    ("axis: int; log: bool;", "axis: inti; log: bool;", "Softmax.axis: unknown type 'inti'"),
    ("axis: int; log: bool;", "axis: [double]; log: bool;", "Softmax.axis: the decoders do not support vectors of"),
    ("axis: int; log: bool;", "axis: int; axis: bool;", "Softmax.axis is declared twice"),
    ("axis: int; log: bool;", "axis: int (sense); log: bool;", "Softmax.axis: unknown attribute 'sense'"),
    ("axis: int; log: bool;", "axis: int = null; log: bool = null;", "Softmax.log: only double, int, long may be null"),
    ("axis: int; log: bool;", "axis int; log: bool;", "expected ':'"),
    ("axis: int; log: bool;", "axis: int; log: bool; @", "unexpected character '@'"),
    ('reuses: "x"', 'reuses: "y"', "SliceUpdate.out: reuses names 'y'"),
    (', flops: "5 * x"', "", 'Softmax: an op that computes needs flops: "<expression>"'),
    ('"5 * x"', '"5 * z"', """Softmax: flops: "5 * z": 'z' is neither a field nor a function"""),
    ('"5 * x"', '"5 * "', "expected 'more', found 'the end'"),
    ('"5 * x"', '"5 * x)"', "unexpected ')'"),
    ('"5 * x"', '"5 x"', "unexpected 'x'"),
    ('"5 * x"', '"5 & x"', "unexpected '&'"),
    ('"5 * x"', '"5 * x[-1"', "expected ']', found 'the end'"),
    ('"5 * x"', '"5 * x["', "expected 'more', found 'the end'"),
    ('"5 * x"', '"has(axis)"', "'axis' is not a tensor"),
    ('"5 * x"', '"has()"', "')' is neither a field nor a function"),
    ("table Expand (view", 'table Expand (flops: "x", view', "Expand: only ops that backends run have flops"),
    ("  Attention, Rope,", "  Attention, Ropes,", "union Op: Ropes is not a table"),
    (
        "enum PoolKind : ubyte { max = 0, avg = 1 }",
        "enum PoolKind : ubyte { max = 0, avg = 0 }",
        "avg = 0 is declared twice",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_SCHEMAS, ids=[b[2] for b in BAD_SCHEMAS])
def test_bad_schema_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = SCHEMA.read_text(encoding="utf-8")
    assert old in text
    bad = tmp_path / "bad.fbs"
    bad.write_text(text.replace(old, new, 1), encoding="utf-8")
    result = generate("--schema", bad, "--out", tmp_path / "gen", "--skip-flatc")
    assert result.returncode == 1
    assert message in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "gen").exists()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("99\tnew\t1\tsame\tf\t\ta\t", "and a new name, got 99"),
        ("77\tneg\t1\tsame\tf\t\ta\t", "new name"),
        ("77\tnew\t4\tsame\tf\t\ta\t", "bad arity"),
        ("77\tnew\t1\tsame\tx\t\ta\t", "bad arity, result or types"),
        ("77\tnew\t1\tsame\tf\tfast\ta\t", "unknown flag 'fast'"),
        ("77\tnew", "columns"),
    ],
)
def test_bad_step_is_refused(tmp_path: Path, row: str, message: str) -> None:
    good = (ROOT / "ops" / "elementwise.tsv").read_text(encoding="utf-8")
    count = sum(1 for line in good.splitlines() if line and not line.startswith("#")) - 1
    bad = tmp_path / "steps.tsv"
    bad.write_text(good.rstrip("\n") + "\n" + row.replace("77", str(count)) + "\n", encoding="utf-8")
    result = generate("--steps", bad, "--out", tmp_path / "gen", "--skip-flatc")
    assert result.returncode == 1
    assert message in result.stderr and len(result.stderr.splitlines()) == 1


# ---- flatc


@needs_flatc
def test_flatc_compiles_the_schema(generated: Path, tmp_path: Path) -> None:
    assert generate(*targets(generated), "--check").returncode == 0
    bad = tmp_path / "bad.fbs"  # our own parser does not check the range of defaults
    text = SCHEMA.read_text(encoding="utf-8")
    bad.write_text(text.replace("n_axes: int = 1", "n_axes: int = 3000000000"), encoding="utf-8")
    result = generate("--schema", bad, "--out", tmp_path / "gen")
    assert result.returncode == 1 and "flatc rejects the schema" in result.stderr


def conform(generated: Path, schema: Path) -> subprocess.CompletedProcess[str]:
    return flatc("--conform", RELEASED / "schema.fbs", "--conform-includes", RELEASED, "-I", generated / "gen", schema)


@needs_flatc
def test_schema_conforms_to_the_released_one(generated: Path, tmp_path: Path) -> None:
    result = conform(generated, SCHEMA)
    assert result.returncode == 0, result.stdout + result.stderr
    moved = tmp_path / "moved.fbs"  # a field in the middle moves all later ones
    moved.write_text(
        SCHEMA.read_text(encoding="utf-8").replace("axis: int; log: bool;", "axis: int; base: double; log: bool;"),
        encoding="utf-8",
    )
    assert conform(generated, moved).returncode != 0


class Filler:
    """Makes objects of the schema with every field set to a value other than its default, and flatc's expected
    output."""

    def __init__(self, schema) -> None:
        self.schema = schema
        self.count = 0

    def next(self) -> int:
        self.count += 1
        return self.count

    def annotation(self, cls: type, field: str) -> type:
        """Returns the class of an enum, table or vector-of-tables field."""
        text = cls.__annotations__[field].removeprefix("list[").removesuffix("]").removesuffix(" | None")
        return getattr(self.schema, text)

    def table(self, cls: type, **given: tuple) -> tuple:
        values, shown = {}, {}
        for f in self.schema.TABLES[cls]:
            shown_as = f.name.removesuffix("_")  # a keyword of Python
            values[f.name], shown[shown_as] = given.get(f.name) or self.field(cls, f)
        return cls(**values), shown

    def field(self, cls: type, f) -> tuple:
        n, s = self.next(), self.schema
        plain = {
            "BOOL": (not f.default, not f.default),
            "I32": (-n - 1, -n - 1),
            "U32": (n, n),
            "I64": (-(2**62) - n, -(2**62) - n),
            "U64": (2**63 + n, 2**63 + n),
            "F64": (n + 0.25, n + 0.25),
            "OPT_I32": (0, 0),
            "OPT_I64": (-n, -n),
            "OPT_F64": (0.0, 0.0),
            "STRING": (f"näme {n}", f"näme {n}"),
            "TID": (s.Tid(n), {"idx": n}),
            "VID": (s.Vid(n), {"idx": n}),
            "INT_OR_VID": (s.IntOrVid(n, s.Vid(n)), {"literal": n, "vid": {"idx": n}}),
            "FLOAT_OR_VID": (s.FloatOrVid(n + 0.5, s.Vid(n)), {"literal": n + 0.5, "vid": {"idx": n}}),
            "INT_OR_VIDS": ([s.IntOrVid(n), s.Vid(0), 7], [{"literal": n}, {"vid": {"idx": 0}}, {"literal": 7}]),
            "TIDS": ([s.Tid(n), s.Tid(0)], [{"idx": n}, {"idx": 0}]),
            "I32S": ([n, 0, -n], [n, 0, -n]),
        }
        if f.kind in plain:
            return plain[f.kind]
        kind = self.annotation(cls, f.name)
        if f.kind == "ENUM":
            last = list(kind)[-1]
            return last, last.name
        objects = [self.table(kind) for _ in range(1 if f.kind == "TABLE" else 2)]
        return objects[0] if f.kind == "TABLE" else ([o for o, _ in objects], [j for _, j in objects])

    def program(self) -> tuple:
        """Returns a program with one instruction of every op, and its JSON."""
        objects, shown = [], []
        for cls in self.schema.OPS:
            op, op_json = self.table(cls)
            objects.append(self.schema.Instruction(op=op, name=cls.__name__.lower()))
            shown.append({"op_type": cls.__name__, "op": op_json, "name": cls.__name__.lower()})
        chain = self.table(self.schema.Chain, instructions=(objects, shown))
        return self.table(self.schema.Program, chains=([chain[0]], [chain[1]]))


def decode(generated: Path, tmp_path: Path, data: bytes) -> dict:
    """Returns flatc's JSON of the bytes."""
    (tmp_path / "program.bin").write_bytes(data)
    result = flatc(
        "--json",
        "--strict-json",
        "--raw-binary",
        "-I",
        generated / "gen",
        "-o",
        tmp_path,
        SCHEMA,
        "--",
        tmp_path / "program.bin",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads((tmp_path / "program.json").read_text(encoding="utf-8"))


@needs_flatc
def test_flatc_reads_every_op_and_field(generated: Path, tmp_path: Path, modules: dict) -> None:
    program, expected = Filler(modules["schema"]).program()
    data = modules["serialize"].serialize(program)
    assert data[4:8] == modules["schema"].FILE_IDENTIFIER
    assert decode(generated, tmp_path, data) == expected


@needs_flatc
def test_builder_methods(generated: Path, tmp_path: Path, modules: dict) -> None:
    schema, builder = modules["schema"], modules["builder"]

    class Chain(builder.OpBuilder):
        def __init__(self) -> None:
            self.instructions: list = []

        def append_instruction(self, instruction) -> None:
            self.instructions.append(instruction)

    chain = Chain()
    chain.reshape(x=schema.Tid(0), shape=[2, schema.Vid(1)], out=schema.Tid(1), name="view")
    chain.pad(x=schema.Tid(1), before=[0], after=[3], mode=schema.PadMode.reflect, value=-0.0, out=schema.Tid(2))
    chain.if_(condition=schema.Vid(0), then_chain=1)
    program = schema.Program(chains=[schema.Chain(instructions=chain.instructions)])
    shown = decode(generated, tmp_path, modules["serialize"].serialize(program))["chains"][0]["instructions"]
    assert shown[0] == {
        "op_type": "Reshape",
        "name": "view",
        "op": {"x": {"idx": 0}, "shape": [{"literal": 2}, {"vid": {"idx": 1}}], "out": {"idx": 1}},
    }
    assert math.copysign(1.0, shown[1]["op"]["value"]) == -1.0
    assert shown[2] == {"op_type": "If", "op": {"condition": {"idx": 0}, "then_chain": 1}}
    for op in schema.OPS:
        name = "".join("_" + c.lower() if c.isupper() else c for c in op.__name__).lstrip("_")
        assert hasattr(Chain, name) or hasattr(Chain, name + "_")


def test_missing_required_field_is_named(modules: dict) -> None:
    schema = modules["schema"]
    softmax = schema.Softmax(x=None, out=schema.Tid(0))
    program = schema.Program(chains=[schema.Chain(instructions=[schema.Instruction(op=softmax)])])
    with pytest.raises(ValueError, match=r"Softmax\.x is required"):
        modules["serialize"].serialize(program)


def test_two_runs_write_the_same(generated: Path, tmp_path: Path) -> None:
    assert generate(*targets(tmp_path), "--skip-flatc").returncode == 0
    for path in sorted(generated.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            assert (tmp_path / path.relative_to(generated)).read_bytes() == path.read_bytes(), path.name
