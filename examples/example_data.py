"""Data sets of the examples that are not in the repository: finds them and downloads them (examples/fetch).

It uses only the standard library. data.tsv lists the files with their sizes, hashes, licences and addresses.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
FETCHED = HERE / "data"
TIMEOUT, PIECE = 60, 1 << 16  # seconds without an answer; bytes per read


class Error(Exception):
    """One line that says what could not be fetched, and why."""


@dataclass(frozen=True)
class File:
    """A row of data.tsv."""

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    url: str


def rows() -> list[File]:
    lines = (HERE / "data.tsv").read_text().splitlines()
    fields = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [File(name, file, int(size), *more) for name, file, size, *more in fields]


def find(name: str, file: str) -> Path:
    """Returns the path of a data set's file: in the folder CLAVE_TEST_DATA, else where examples/fetch stores it.
    If neither has it, ends the program with one line that names the command to run."""
    given = os.environ.get("CLAVE_TEST_DATA")
    for folder in ([Path(given)] if given else []) + [FETCHED]:
        if (folder / name / file).is_file():
            return folder / name / file
    size = sum(f.size for f in rows() if f.name == name)
    raise SystemExit(f"{name}/{file} is not here: `examples/fetch {name}` downloads it ({size / 1e6:.1f} MB)")


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as f:
        while piece := f.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def check(path: Path, f: File) -> None:
    """Raises Error if a file's size or hash differs from the table."""
    size, digest = path.stat().st_size, sha256(path)
    if size != f.size:
        raise Error(f"{f.name}/{f.file}: expected {f.size} bytes, got {size}")
    if digest != f.sha256:
        raise Error(f"{f.name}/{f.file}: expected SHA-256 {f.sha256}, got {digest}")


class Progress:
    """Shows the progress of a file on a terminal."""

    def __init__(self, f: File) -> None:
        self.file, self.shown = f, -1

    def tell(self, done: int) -> None:
        percent = done * 100 // self.file.size
        if sys.stderr.isatty() and percent != self.shown:
            self.shown = percent
            print(f"\r{self.file.name}/{self.file.file}: {percent} %", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.shown >= 0:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def copy(source, part: Path, mode: str, f: File) -> None:
    """Copies a stream to a file, at most one byte more than the expected size."""
    progress = Progress(f)
    with part.open(mode) as out:
        while out.tell() <= f.size and (piece := source.read(min(PIECE, f.size + 1 - out.tell()))):
            out.write(piece)
            progress.tell(out.tell())
    progress.close()


def download(url: str, part: Path, f: File) -> None:
    """Downloads a file. Continues after the bytes of an earlier try if the server supports it."""
    had = part.stat().st_size if part.exists() else 0
    had = had if had < f.size else 0
    asked = urllib.request.Request(url, headers={"Range": f"bytes={had}-"} if had else {})
    with urllib.request.urlopen(asked, timeout=TIMEOUT) as answer:
        copy(answer, part, "ab" if had and answer.status == 206 else "wb", f)


def fetch(f: File, origin: str | None, folder: Path) -> str:
    """Fetches a file, which appears only when complete. Returns a text to print. origin: the mirror of --from."""
    to = folder / f.name / f.file
    if to.exists() and to.stat().st_size == f.size and sha256(to) == f.sha256:
        return "already present"
    to.parent.mkdir(parents=True, exist_ok=True)
    part = to.with_name(f"{to.name}.part")
    url = f.url if origin is None else f"{origin.rstrip('/')}/{f.name}/{f.file}"
    try:
        if "://" in url:
            download(url, part, f)
        else:
            with open(url, "rb") as source:
                copy(source, part, "wb", f)
    except (OSError, http.client.HTTPException, ValueError) as e:
        reason = None if isinstance(e, urllib.error.HTTPError) else getattr(e, "reason", None)
        raise Error(f"{url}: {reason or getattr(e, 'strerror', None) or e}") from None
    try:
        check(part, f)
    except Error as e:
        if part.stat().st_size >= f.size:  # a partial file is kept, for the next call to continue
            part.unlink()
        raise Error(f"{e}, from {url}") from None
    part.replace(to)
    return f"{f.size:,} bytes, licence: {f.licence}"


def parser() -> argparse.ArgumentParser:
    names = ", ".join(sorted({f.name for f in rows()}))
    made = argparse.ArgumentParser(
        prog="examples/fetch",
        description="Downloads data that examples use, and checks its SHA-256.",
        epilog=f"Names: {names}. Files that are present are not downloaded again; an interrupted download continues.",
    )
    made.add_argument("names", nargs="*", metavar="NAME")
    made.add_argument("--list", action="store_true", help="list names, files, sizes, licences and addresses")
    made.add_argument("--from", dest="origin", metavar="FOLDER_OR_URL", help="a mirror that holds NAME/FILE")
    made.add_argument("--to", type=Path, default=FETCHED, metavar="FOLDER", help="default: examples/data")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 0 success, 1 a file could not be fetched, 2 malformed command line, 130 interrupted."""
    parsed = parser().parse_args(arguments)
    known = rows()
    if parsed.list:
        for f in known:
            print(f"{f.name:12} {f.file:28} {f.size:>9,} bytes  {f.licence:14} {f.url}")
        return 0
    if not parsed.names:
        parser().error("expected a NAME, or --list")
    for name in parsed.names:
        if name not in {f.name for f in known}:
            parser().error(f"no data are named {name}: expected {', '.join(sorted({f.name for f in known}))}")
    try:
        for f in (f for name in dict.fromkeys(parsed.names) for f in known if f.name == name):
            print(f"{f.name}/{f.file}: {fetch(f, parsed.origin, parsed.to)}", flush=True)
    except (Error, OSError) as e:
        print(f"fetch: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fetch: interrupted; the next call continues", file=sys.stderr)
        return 130
    return 0
