"""Converts a GGUF file's vocabulary to a tokenizer file that a program carries: a SentencePiece .model or a
tokenizer.json.

llama.cpp's "llama" vocabularies are SentencePiece's pieces, scores and types (sentencepiece_model.proto). Its "gpt2"
vocabularies are byte-level BPE; the file names a pre-tokenizer, which selects the pattern that splits texts.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clave import arguments
from clave.errors import Code, Error
from clave.gguf.file import File
from clave.gguf.header import shown
from clave.gguf.pieces import strips, tokenizer_json
from clave.tokenizer import Tokenizer

_NORMAL, _UNKNOWN, _CONTROL, _USER, _BYTE = 1, 2, 3, 4, 6  # types of tokens, in GGUF and in SentencePiece
_LARGEST = 3.4e38  # bound of scores
_KEY = "tokenizer.ggml."
# Tokens that end an answer in addition to the tokens that the file's keys name, as in llama.cpp.
_ENDS = (
    "<|eot_id|> <|eom_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|end_of_text|> <EOT> _<EOT> "
    "<\uff5cend\u2581of\u2581sentence\uff5c>"
).split()


_ELSE = "another tokenizer can be given in its place (tokenizer=, --tokenizer)"


class Given:
    """A tokenizer that replaces the GGUF file's own: a file in any format that clave.Tokenizer reads, or a folder with
    such a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(arguments.path("tokenizer", path))
        self.tokenizer = Tokenizer(path)
        self.data = self._file().read_bytes()

    def _file(self) -> Path:
        """Returns the tokenizer's file, in a folder tokenizer.json or tokenizer.model. The program does not carry
        tokenizer_config.json; `read_metadata` records its settings."""
        path = Path(self.path)
        return next((f for n in ("tokenizer.json", "tokenizer.model") if (f := path / n).exists()), path)

    def check(self, file: File, n_vocab: int) -> None:
        """Raises Error if the tokenizer has ids that the model does not have."""
        n = self.tokenizer.n_ids
        if n > n_vocab:
            raise file.error(f"{self.path} has {n} tokens, and token_embd.weight has rows for {n_vocab}")


def read_tokenizer(file: File, n_vocab: int) -> bytes | None:
    """Returns the contents of a tokenizer file, or None if the GGUF file has no tokenizer. Raises Error if its kind is
    not supported or it is malformed."""
    kind = file.text(f"{_KEY}model", "none")
    if kind in ("none", "no_vocab"):
        return None
    if kind not in _KINDS:
        known = ", ".join(_KINDS)
        message = f"tokenizer: expected one of {known}, got {shown(kind)}; {_ELSE}"
        raise file.error(message, Code.UNSUPPORTED)
    data = _KINDS[kind](_Vocabulary(file, n_vocab))
    try:
        Tokenizer(data)
    except Error as e:
        raise file.error(f"its tokenizer: {e}", e.code) from None
    return data


def read_metadata(file: File, n_vocab: int, given: Given | None = None) -> dict[str, Any]:
    """Returns the metadata of tokens and templates that docs/reference/language_models.md describes.

    given: a tokenizer that supplies what the file's keys lack.
    """
    other = given.tokenizer if given else None
    eos = _id(file, "eos", n_vocab)
    ends = [eos, _id(file, "eot", n_vocab), _id(file, "eom", n_vocab)]
    if other:
        ends = [other.eos if eos is None else eos, *ends[1:], *map(other.find, _ENDS)]
    elif f"{_KEY}tokens" in file:
        v = _Vocabulary(file, n_vocab)
        ends += [i for i, t in enumerate(v.tokens) if t in _ENDS and v.types[i] in (_CONTROL, _USER)]
    found = {
        "bos": _bos(file, n_vocab, other),
        "eos": ends[0],
        "stop_ids": list(dict.fromkeys(i for i in ends if i is not None)),
        "chat_template": file.text("tokenizer.chat_template", None),
    }
    return {k: v for k, v in found.items() if v is not None or k == "bos"}


def _id(file: File, name: str, n_vocab: int) -> int | None:
    return file.integer(f"{_KEY}{name}_token_id", None, 0, n_vocab - 1)  # type: ignore[no-any-return]


def _bos(file: File, n_vocab: int, other: Tokenizer | None) -> int | None:
    """Returns the id with which a prompt begins, or None."""
    flag = file.flag(f"{_KEY}add_bos_token", None)
    if flag is None and other:
        return other.bos
    own = _id(file, "bos", n_vocab)
    adds = _adds_bos(file) if flag is None else flag
    return None if not adds else other.bos if own is None and other else own


def _adds_bos(file: File) -> bool:
    """True if prompts begin with BOS by default, according to the kind of the vocabulary."""
    return file.text(f"{_KEY}model", "none") == "llama" or _split_of(file).adds_bos


class _Vocabulary:
    """The tokens of a file, with a type and a score each. Raises Error if their numbers do not match or one is out of
    range."""

    def __init__(self, file: File, n_vocab: int) -> None:
        self.file = file
        self.tokens: list[str] = file.items(f"{_KEY}tokens", "text")
        if len(self.tokens) != n_vocab:
            raise file.error(f"has {len(self.tokens)} tokens, and token_embd.weight has rows for {n_vocab}")
        self.types: list[int] = self._of_each("token_type", "integer", _NORMAL)
        self.scores: list[float] = self._of_each("scores", "number", 0.0)
        for i, (kind, score) in enumerate(zip(self.types, self.scores, strict=True)):
            if not _NORMAL <= kind <= _BYTE:
                raise file.error(f"token {i}: expected type {_NORMAL} to {_BYTE}, got {kind}")
            if abs(score) > _LARGEST:
                raise file.error(f"token {i}: expected a score that f32 can hold, got {score}")

    def _of_each(self, name: str, of: str, default: Any) -> list[Any]:
        found = self.file.items(_KEY + name, of, None, len(self.tokens))
        return [default] * len(self.tokens) if found is None else found

    def id(self, name: str) -> int | None:
        return _id(self.file, name, len(self.tokens))


def _check_once(v: _Vocabulary) -> dict[str, int]:
    """Returns the id of each token. Raises Error if two tokens have the same text."""
    vocab = {t: i for i, t in enumerate(v.tokens)}
    if len(vocab) != len(v.tokens):
        twice = next(t for i, t in enumerate(v.tokens) if vocab[t] != i)
        raise v.file.error(f"token {shown(twice)} is in the vocabulary twice")
    return vocab


# ---------------------------------------------------------------- SentencePiece


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def _field(number: int, value: bytes | int) -> bytes:
    """Encodes a field of a protobuf message: a number, or bytes with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _piece(text: str, score: float, kind: int) -> bytes:
    data = text.encode()
    return _field(1, data) + _varint(2 << 3 | 5) + struct.pack("<f", score) + (_field(3, kind) if kind != 1 else b"")


def _sentencepiece(v: _Vocabulary) -> bytes:
    """Returns a ModelProto (pieces, trainer_spec and normalizer_spec) or a tokenizer.json (see pieces.py)."""
    if strips(v.file):
        _check_once(v)
        return tokenizer_json(v, _frame(v))
    pieces = (_field(1, _piece(*each)) for each in zip(v.tokens, v.scores, v.types, strict=True))
    trainer = _field(3, 2) + _field(35, int(_BYTE in v.types))  # BPE, byte fallback
    for number, name in ((46, "bos"), (47, "eos")):
        i = v.id(name)
        trainer += b"" if i is None else _field(number, v.tokens[i].encode())
    normalizer = _field(1, b"identity") + b"".join(
        _field(number, int(v.file.flag(_KEY + key, default)))
        for number, key, default in ((3, "add_space_prefix", True), (4, "remove_extra_whitespaces", False))
    )
    return b"".join(pieces) + _field(2, trainer) + _field(3, normalizer)


# ---------------------------------------------------------------- byte-level BPE

_CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _by_words(digits: str) -> str:
    words = rf"(?i:{_CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}"
    return rf"{words}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{_SPACES}"


def _by_case(digits: str, ending: str) -> str:
    head = r"[^\r\n\p{L}\p{N}]?"
    words = rf"{head}{_UPPER}*{_LOWER}+{ending}|{head}{_UPPER}+{_LOWER}*{ending}|{digits}"
    return rf"{words}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{_SPACES}"


@dataclass(frozen=True)
class _Split:
    """How a text is split before BPE. pattern: None for GPT-2's. digits: splits off each digit first. whole: a word
    that is a token is not split by merges. composed: normalises texts to Unicode's NFC. adds_bos: prompts begin with
    BOS by default."""

    pattern: str | None = None
    digits: bool = False
    whole: bool = False
    composed: bool = False
    adds_bos: bool = False


_LLAMA3 = _Split(_by_words(r"\p{N}{1,3}"), whole=True, adds_bos=True)
_DIGITS = _Split(digits=True)
_SPLITS = {
    "gpt-2": _Split(),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "smaug-bpe": _Split(_by_words(r"\p{N}{1,3}")),
    "dbrx": _Split(_by_words(r"\p{N}{1,3}")),
    "qwen2": _Split(_by_words(r"\p{N}"), composed=True),
    "deepseek-r1-qwen": _Split(_by_words(r"\p{N}")),
    "gpt-4o": _Split(_by_case(r"\p{N}{1,3}", f"(?i:{_CONTRACTIONS})?")),
    "tekken": _Split(_by_case(r"\p{N}", ""), whole=True, adds_bos=True),
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "refact": _DIGITS,
    "command-r": _DIGITS,
}


def _split_of(file: File) -> _Split:
    """Returns the splitting that the file names, or a default if its vocabulary is not BPE. Raises Error if the name is
    unknown."""
    if file.text(f"{_KEY}model", "none") != "gpt2":
        return _Split()
    name = file.text(f"{_KEY}pre", "default")
    if name not in _SPLITS:
        known = ", ".join(_SPLITS)
        message = f"pre-tokenizer: expected one of {known}, got {shown(name)}; {_ELSE}"
        raise file.error(message, Code.UNSUPPORTED)
    return _SPLITS[name]


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _splitters(split: _Split) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"type": "Digits", "individual_digits": True}] if split.digits else []
    if split.pattern is not None:
        found.append({"type": "Split", "pattern": {"Regex": split.pattern}, "behavior": "Isolated", "invert": False})
    return [*found, _byte_level(split.pattern is None)]


def _frame(v: _Vocabulary) -> dict[str, Any] | None:
    """Returns the post-processor that puts BOS before a text, or None if the file has no BOS."""
    bos = _bos(v.file, len(v.tokens), None)
    if bos is None:
        return None
    name = v.tokens[bos]
    special = {"SpecialToken": {"id": name, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [special, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [special, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [bos], "tokens": [name]}},
    }


def _added(id: int, text: str, kind: int) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": id, "content": text, "special": kind == _CONTROL, **plain}


def _bpe(v: _Vocabulary) -> bytes:
    split, vocab = _split_of(v.file), _check_once(v)
    added = [_added(i, t, v.types[i]) for i, t in enumerate(v.tokens) if v.types[i] in (_UNKNOWN, _CONTROL, _USER)]
    document = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if split.composed else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _splitters(split)},
        "post_processor": _frame(v) or _byte_level(False),
        "decoder": _byte_level(True),
        "model": {
            "type": "BPE",
            "ignore_merges": split.whole,
            "vocab": vocab,
            "merges": v.file.items(f"{_KEY}merges", "text"),
        },
    }
    return json.dumps(document, ensure_ascii=False).encode()


_KINDS = {"llama": _sentencepiece, "gpt2": _bpe}
