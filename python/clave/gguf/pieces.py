"""SentencePiece's pieces as a tokenizer.json, for vocabularies whose special tokens take white space behind them.

A GGUF file, like a .model, has no place for that: the tokenizer.json of Phi-3 says `rstrip` of its tokens. llama.cpp
goes by the model's name ("phi-3", "phi3"); here the architecture counts, too, as converters write names in many ways.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from clave.gguf.file import File

_PLAIN, _SPECIAL = 1, (2, 3, 4)  # types: pieces that merges make; those that a text is split at before
_KEEPS_SPACE = ("<unk>", "<s>", "<|endoftext|>")  # Phi-3's that leave the white space where it is
_SPACE = "\u2581"


def strips(file: File) -> bool:
    """True if the special tokens of the file's SentencePiece vocabulary take the white space behind them."""
    if file.flag("tokenizer.ggml.remove_extra_whitespaces", False):
        return False
    name = file.text("general.name", "").lower()
    return file.text("general.architecture", "") == "phi3" or "phi3" in name or "phi-3" in name


def tokenizer_json(v: Any, bos: dict[str, Any] | None) -> bytes:
    """v: the vocabulary (tokens, scores, types); bos: the post-processor that writes it, if any."""
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
    """The pairs that make up a piece, those of the likeliest piece first, of one piece those with the longest left."""
    score_of = {t: s for t, s, kind in zip(v.tokens, v.scores, v.types, strict=True) if kind == _PLAIN}
    pairs = [
        (-score, -i, piece)
        for piece, score in score_of.items()
        for i in range(1, len(piece))
        if piece[:i] in score_of and piece[i:] in score_of
    ]
    for _, i, piece in sorted(pairs, key=lambda pair: pair[:2]):
        yield piece[:-i], piece[-i:]
