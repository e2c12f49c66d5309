"""Writes SentencePiece's pieces as a tokenizer.json if special tokens strip the white space after them.

Neither a GGUF file nor a .model can express that; the tokenizer.json of Phi-3 has `rstrip` on its tokens. llama.cpp
decides by the model's name ("phi-3", "phi3"). This module also checks the architecture, because converters write names
in many ways.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from clave.gguf.file import File

_PLAIN, _SPECIAL = 1, (2, 3, 4)  # types of tokens: made by merges; split off before merging
_KEEPS_SPACE = ("<unk>", "<s>", "<|endoftext|>")  # special tokens of Phi-3 that keep the white space
_SPACE = "\u2581"


def strips(file: File) -> bool:
    """True if the special tokens of the file's SentencePiece vocabulary strip the white space after them."""
    if file.flag("tokenizer.ggml.remove_extra_whitespaces", False):
        return False
    name = file.text("general.name", "").lower()
    return file.text("general.architecture", "") == "phi3" or "phi3" in name or "phi-3" in name


def tokenizer_json(v: Any, bos: dict[str, Any] | None) -> bytes:
    """Returns the tokenizer.json. v: the vocabulary (tokens, scores, types). bos: the post-processor that adds BOS, or
    None."""
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    prefix = v.file.flag("tokenizer.ggml.add_space_prefix", True)
    normalizers: list[dict[str, Any]] = [{"type": "Prepend", "prepend": _SPACE}] if prefix else []
    back = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    decoders = [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]
    unknown = next((t for t, kind in zip(v.tokens, v.types, strict=True) if kind == 2), None)
    document = {
        "version": "1.0",
        "added_tokens": [_added(i, t, v.types[i]) for i, t in enumerate(v.tokens) if v.types[i] in _SPECIAL],
        "normalizer": {"type": "Sequence", "normalizers": [*normalizers, replace]},
        "pre_tokenizer": None,
        "post_processor": bos,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE",
            "unk_token": unknown,
            "fuse_unk": True,
            "byte_fallback": 6 in v.types,
            "vocab": {t: i for i, t in enumerate(v.tokens)},
            "merges": [list(pair) for pair in _merges(v)],
        },
    }
    return json.dumps(document, ensure_ascii=False).encode()


def _added(id: int, text: str, kind: int) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "normalized"), False)
    return {"id": id, "content": text, "special": kind == 3, "rstrip": text not in _KEEPS_SPACE, **plain}


def _merges(v: Any) -> Iterator[tuple[str, str]]:
    """Yields the pairs that form a piece: by descending score of the piece, then by descending length of the left."""
    score_of = {t: s for t, s, kind in zip(v.tokens, v.scores, v.types, strict=True) if kind == _PLAIN}
    pairs = [
        (-score, -i, piece)
        for piece, score in score_of.items()
        for i in range(1, len(piece))
        if piece[:i] in score_of and piece[i:] in score_of
    ]
    for _, i, piece in sorted(pairs, key=lambda pair: pair[:2]):
        yield piece[:-i], piece[-i:]
