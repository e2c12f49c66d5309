#!/usr/bin/env python3
"""Writes all files made from serialize/schema.fbs and ops/elementwise.tsv: C structs, descriptors and tables
(--out), the Python package's generated part (--python), docs/reference/ops.md (--docs). It needs only the standard
library."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gen_c import c_files, steps_fbs
from gen_docs import docs_files
from gen_python import python_files
from gen_schema import Schema, SchemaError, read_schema
from gen_work import work_table_c

HERE = Path(__file__).resolve().parent


def compile_schema(schema: Schema, path: Path, flatc: str) -> None:
    """Runs flatc on the schema. Raises SchemaError if flatc rejects a schema that our parser accepts."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "steps.fbs").write_text(steps_fbs(schema), encoding="utf-8")
        command = [flatc, "-b", "--schema", "-I", folder, "-o", folder, str(path)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SchemaError(f"flatc rejects the schema: {(result.stdout + result.stderr).strip()}")


def find_flatc(args: argparse.Namespace) -> str | None:
    if args.skip_flatc:
        return None
    flatc = shutil.which(args.flatc or "flatc")
    if not flatc:
        raise SchemaError(
            f"{args.flatc or 'flatc'} not found: install flatbuffers-compiler, or pass --flatc PATH or --skip-flatc"
        )
    return flatc


def all_files(schema: Schema, args: argparse.Namespace) -> dict[Path, str]:
    """Returns the text of each requested file by path."""
    files = {args.out / name: text for name, text in c_files(schema).items()}
    files[args.out / "work_table.c"] = work_table_c(schema)
    if args.python:
        files.update({args.python / name: text for name, text in python_files(schema).items()})
    if args.docs:
        files.update({args.docs / name: text for name, text in docs_files(schema).items()})
    return files


def stale_files(files: dict[Path, str]) -> list[Path]:
    return [p for p, text in files.items() if not p.is_file() or p.read_text(encoding="utf-8") != text]


def write_files(files: dict[Path, str]) -> None:
    """Replaces each file atomically, because a build in another folder may read the Python modules meanwhile."""
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f"{path.name}.{os.getpid()}")
        made.write_text(text, encoding="utf-8")
        made.replace(path)


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument(
        "--schema", type=Path, default=HERE / "schema.fbs", help="default: schema.fbs in this script's folder"
    )
    p.add_argument(
        "--steps", type=Path, default=HERE.parent / "ops" / "elementwise.tsv", help="default: ops/elementwise.tsv"
    )
    p.add_argument("--out", type=Path, default=Path("build/gen"), metavar="DIR", help="C files; default: build/gen")
    p.add_argument(
        "--python", type=Path, metavar="DIR", help="also write the Python modules to DIR (python/clave/_generated)"
    )
    p.add_argument("--docs", type=Path, metavar="DIR", help="also write ops.md to DIR (docs/reference)")
    p.add_argument(
        "--flatc", metavar="PATH", help="the schema compiler that must accept the schema; default: flatc in PATH"
    )
    p.add_argument("--skip-flatc", action="store_true", help="do not run flatc")
    mode = p.add_mutually_exclusive_group()
    mode.add_argument("--dry-run", action="store_true", help="print what would be written, write nothing")
    mode.add_argument("--check", action="store_true", help="write nothing, exit 1 unless everything is up to date")
    return p.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse_args(argv)
    try:
        schema = read_schema(args.schema, args.steps)
        flatc = find_flatc(args)
        if flatc:
            compile_schema(schema, args.schema, flatc)
        files = all_files(schema, args)
        if args.dry_run:
            for path, text in files.items():
                print(f"{path} ({len(text)} bytes)")
            return 0
        if args.check:
            stale = stale_files(files)
            for path in stale:
                print(f"generate.py: {path} is out of date", file=sys.stderr)
            return 1 if stale else 0
        write_files(files)
    except (SchemaError, OSError) as e:
        print(f"generate.py: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
