"""The variants of kernels (docs/howto/tune.md), and tuning tables that force them, for replays of op cases.

    variants.py cpu|opencl FAMILY=VARIANT... -- build/clave bench PROGRAM ...

runs a command of the tool with variants that are forced wherever they can run, for example to compare two variants.
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# The tables have for each family of kernels its variants and the op cases that choose among them ("": all; FAST: none,
# because the family is used in fast precision only, whose results the cases do not bound).
FAST = "fast"
OPENCL = {
    "matmul": (
        "tile|packed|packed 32|packed 64|packed 256|panels|panels 4|panels 8|panels 16|rows|rows 4|rows 16|rows 64"
        "|columns|columns 64|columns 256|columns 1024|clblast|local|local 64|local 128"
        "|direct|direct 2|direct 4|direct 8|image|image 2|image 4|image 8"
        "|mma|mma 64|mma 128|row lanes|row lanes 16|row lanes 64|column lanes|column lanes 4|column lanes 16",
        "matmul/",
    ),
    "matmul parts": ("rule|1|2|4|8|16|32", "matmul/"),
    "encoded matmul": ("dots|codes|packed|few|tiles", "encoded/"),
    "grouped matmul rows": ("rule|1|2|4|8", "matmul/grouped"),
    "conv": (
        "product|direct|direct 8x2x16|direct 8x1x16|direct 4x4x16|direct 4x2x16|direct 8x3x8|direct 8x2x8|direct 4x4x8"
        "|direct 4x3x8|direct 4x2x8|direct 8x1x1|direct 4x4x1|direct 4x2x1|direct 4x1x1"
        "|depthwise|winograd 2|winograd 4|dots|planes|groups",
        "conv/",
    ),
    "conv groups": ("32x64|64x32|16x64|8x128|4x256|1x64|1x256", "conv/"),
    "conv parts": ("rule|1|2|4|8|16|32", "conv/"),
    "conv walk": ("padded|padded, outputs first|by row|by row, outputs first", "conv/"),
    "attention": ("block|row|team|groups 16|groups 32|groups 64|mma", "attention"),
    "attention splits": ("rule|1|2|4|8|16|32|64|128", "attention"),
    "reduce splits": ("rule|1|2|4|8|16|32|64|128|256", "reduce/"),
    "softmax": ("rule|alone|vector|team 16|team 64|team 256|vector team 16", "softmax/"),
    "norm": ("rule|alone|vector|team 16|team 64|team 256|vector team 16", "norm/"),
    "norm parts": ("rule|1|2|4|8|16|32", "norm/"),
    "dots tile": ("rule|2x2|4x2|lanes 4|lanes 8|lanes 16|mma 64|mma 128", FAST),
    "group": ("rule|1|16|64", ""),
}
CPU = {
    "threads": ("all|1|2|4|8|16|32", ""),
    "conv": ("direct|winograd 2|winograd 4|transposed tiles|strips|planes|pointwise|product", "conv/"),
    "gemm cut": ("rule|columns 64|columns 128|columns 512|columns 2048|rows 96|rows 192", ""),
}
OPENCL, CPU = ({f: (names.split("|"), cases) for f, (names, cases) in t.items()} for t in (OPENCL, CPU))

# Variants for oclgrind, whose work-items share the memory that they read or add to. A row has a pattern of a family's
# variants, n for one in n of the op cases, and true if only the class "gpu" runs them.
SHARING = {
    "softmax": ("", 4, False),
    "norm": ("", 4, False),
    "dots tile": ("", 1, True),
    "matmul": ("local|direct|image|mma|lanes", 48, True),
    "encoded matmul": ("few|tiles", 1, True),
    "conv": ("winograd|groups", 24, True),
    "conv groups": ("", 24, True),
    "matmul parts": ("", 48, True),
    "conv parts": ("", 48, True),
    "norm parts": ("", 8, True),
    "attention": ("team|groups|mma", 24, True),
    "attention splits": ("", 24, True),
    "reduce splits": ("", 16, True),
}


def needs(variant):
    """Returns the environment variables that make a variant usable on any device, by emulation in OpenCL C."""
    return {"CLAVE_ASM": "emulated_ldmatrix"} if variant.startswith("mma") else {}


def in_sources(root, room):
    """Returns the variants' names in the tables of a backend's sources. Tests compare them with the tables here."""
    names = set()
    for path in pathlib.Path(root, room).rglob("*.c"):
        for table in re.findall(r"\b(?:\w*_variants|cuts)\[\] = \{(.*?)\};", path.read_text(), re.DOTALL):
            names |= set(re.findall(r'"([^"]+)"', table))
    return names


@contextlib.contextmanager
def forced(clave, device, rows, env=None, under=()):
    """Context manager: returns an environment whose tuning table forces (family, variant) rows for all sizes.

    env: the environment to extend (default: this process's). under: the words before a command that runs it with that
    device. Raises AssertionError for a variant that the tables here do not have, as it would have no effect.
    """
    tables = CPU if device == "cpu" else OPENCL
    for family, variant in rows:
        assert variant in tables[family][0], f"{device}: no variant of {family} is named {variant!r}"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        env = dict(os.environ if env is None else env) | {"CLAVE_CACHE_DIR": folder}
        table = pathlib.Path(folder) / "table.json"
        rows = [{"family": f, "key": "*", "variant": v} for f, v in rows]
        table.write_text(json.dumps({"clave_tuning": 1, "device": "any", "rows": rows}))
        command = [*under, clave, "tune", "--import", table, "--force", "--device", device]
        subprocess.run(command, env=env, check=True, capture_output=True)
        yield env


def main():
    if "--" not in sys.argv[2:-1]:
        sys.exit(__doc__)
    at = sys.argv.index("--")
    command, rows = sys.argv[at + 1 :], [word.split("=", 1) for word in sys.argv[2:at]]
    with forced(command[0], sys.argv[1], rows) as env:
        return subprocess.run([*command, "--device", sys.argv[1]], env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
