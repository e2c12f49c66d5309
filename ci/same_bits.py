"""ci/same_bits.py BUILD N [REPLAY ARGUMENTS...]: checks that the op cases have the same results, bit by bit, on the CPU
backend with N variants of its matrix product as with the variants chosen by rule. N is 0 for all variants; --turn
decides which ones are chosen. Prints `N passed, N failed`."""

import pathlib
import subprocess
import sys
import zlib

import variants

ROOT = pathlib.Path(__file__).resolve().parent.parent


def digest(build, arguments, env=None):
    """Returns the digest of the cases' results, or None if a case failed."""
    command = [
        ROOT / build / "test/replay",
        ROOT / build / "cases/index.tsv",
        "--device",
        "cpu",
        "--digest",
        *arguments,
    ]
    p = subprocess.run(command, env=env, capture_output=True, text=True)
    if p.returncode:
        print(p.stdout[-2000:], p.stderr[-2000:])
    return None if p.returncode else p.stdout


def main():
    build, n, *arguments = sys.argv[1:]
    turn = arguments[arguments.index("--turn") + 1] if "--turn" in arguments else ""
    cuts = [v for v in variants.CPU["gemm cut"][0] if v != "rule"]
    cuts.sort(key=lambda v: zlib.crc32(f"{turn} {v}".encode()))
    want, bad = digest(build, arguments), 0
    cuts = cuts[: int(n) or None]
    for cut in cuts:
        with variants.forced(ROOT / build / "clave", "cpu", [("gemm cut", cut), ("threads", "1")]) as env:
            got = digest(build, arguments, env)
        if got is None or got != want:
            bad += 1
            print(f"results differ with gemm cut '{cut}' and one thread: expected {want}, got {got}")
    print(f"{len(cuts) - bad} passed, {bad} failed")
    return bad or want is None


if __name__ == "__main__":
    sys.exit(main())
