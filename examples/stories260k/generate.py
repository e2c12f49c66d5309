"""Tells a story: the program's most likely next token, again and again. Needs numpy and clave, no torch."""

from __future__ import annotations

import argparse
import os
import struct
import sys
from pathlib import Path

import numpy as np

import clave

DATA = Path(os.environ.get("CLAVE_TEST_DATA") or Path(__file__).parents[2] / ".." / "shared" / "data") / "stories260K"
BOS = 1


def read_pieces(path: Path) -> list[bytes]:
    """The vocabulary in llama2.c's form: i32 longest piece, then per token f32 score, i32 length, bytes."""
    data, at, pieces = path.read_bytes(), 4, []
    while at < len(data):
        _, n = struct.unpack_from("<fi", data, at)
        pieces.append(data[at + 8 : at + 8 + n])
        at += 8 + n
    return pieces


def text_of(piece: bytes, after_bos: bool) -> bytes:
    """A token's text: <0x0A> is one byte; the space that begins the text is not part of it."""
    if len(piece) == 6 and piece.startswith(b"<0x"):
        return bytes([int(piece[3:5], 16)])
    return piece[1:] if after_bos and piece.startswith(b" ") else piece


def story(session: clave.Session, n: int):
    """n tokens after BOS, each the likeliest (ties: the first)."""
    session.reset()
    token = BOS
    for position in range(n):
        (logits,) = session.run(np.array([[token]]), np.array(position))
        token = int(logits[0].argmax())
        yield token


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="what export.py wrote")
    parser.add_argument("--device", help="cpu, opencl, opencl:N; default: CLAVE_DEVICE, else the best there is")
    parser.add_argument("-n", type=int, default=200, help="tokens; default: 200")
    args = parser.parse_args()
    pieces = read_pieces(DATA / "tok512.bin")
    before = BOS
    for token in story(clave.Session(args.program, args.device), args.n):
        if token == BOS:
            break
        sys.stdout.buffer.write(text_of(pieces[token], before == BOS))
        sys.stdout.flush()
        before = token
    print()


if __name__ == "__main__":
    main()
