"""Tokenizers, which convert text to ids and back, in the C library."""

from __future__ import annotations

import ctypes as C
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from clave import _library as L
from clave import arguments

Special = Literal["default", "match", "text"]
TOKENIZER_SECTION = b"TOKN"  # a section of a .clv
# The tokens with which chat models end a message, as in llama.cpp. A model's files may not name them all as ends of an
# answer.
_MESSAGE_ENDS = (
    "<|end|> <|return|> <|call|> <|calls|> <|flush|> <|eot_id|> <|eom_id|> <|im_end|> <end_of_turn> <|endoftext|> "
    "<|end_of_text|> <EOT> _<EOT> [EOT] [EOS] <end_of_utterance> <turn|> <|tool_response> [e~[ "
    "<\uff5cend\u2581of\u2581sentence\uff5c>"
).split()
_SPECIAL: tuple[Special, ...] = ("default", "match", "text")  # in the order of clave_special


class Tokenizer(L.Uncopied):
    """A tokenizer from a SentencePiece .model, a Hugging Face tokenizer.json or folder, or a tiktoken rank file. The
    content selects the format.

    source: a path, or a file's bytes. pattern: splits texts for a bare rank file, "gpt2", "cl100k" (the default),
    "o200k" or "llama3". Raises Error, with the place in the file, if it is malformed.
    """

    def __init__(self, source: str | os.PathLike[str] | bytes, pattern: str | None = None) -> None:
        name = None if pattern is None else arguments.text("pattern", pattern, "the name of a pattern or None") or None
        options = C.byref(L.TokenizerOptions(C.sizeof(L.TokenizerOptions), name))
        if isinstance(source, bytes):
            args = ("clave_tokenizer_create", "clave_tokenizer_destroy", source, len(source), options)
        else:
            file = arguments.path("source", source, "a path or the bytes of a file")
            args = ("clave_tokenizer_load", "clave_tokenizer_destroy", file, options)
        self._take(L.Handle(*args))

    @classmethod
    def of_program(cls, program: L.Handle) -> Tokenizer | None:
        """Returns the tokenizer that a program carries, or None."""
        size = C.c_size_t()
        if not L.library().clave_program_section(program.pointer, TOKENIZER_SECTION, C.byref(size)):
            return None
        self = cls.__new__(cls)
        self._take(L.Handle("clave_tokenizer_of_program", "clave_tokenizer_destroy", program.pointer))
        return self

    @classmethod
    def borrowed(cls, pointer: int, owner: L.Handle) -> Tokenizer:
        """Returns a tokenizer that another object of the library owns."""
        self = cls.__new__(cls)
        self._take(L.Borrowed(pointer, owner))
        return self

    def __repr__(self) -> str:
        return f"<clave.Tokenizer {self.format}: {self.n_ids} ids, bos {self.bos}, eos {self.eos}>"

    def _take(self, handle: L.Handle | L.Borrowed) -> None:
        self._handle = handle
        info = L.TokenizerInfo()
        L.call("clave_tokenizer_get_info", self._handle.pointer, C.byref(info))
        self.format: str = info.format.decode()
        self.n_ids: int = info.n_ids
        """The largest id plus one."""
        self.bos: int | None = info.bos if info.bos >= 0 else None
        self.eos: int | None = info.eos if info.eos >= 0 else None

    def find(self, token: str) -> int | None:
        """Returns the id of a token, written as in the file, or None."""
        found = L.library().clave_tokenizer_find(self._handle.pointer, arguments.text("token", token))
        return found if found >= 0 else None

    def encode(
        self, text: str | bytes, *, bos: bool = False, eos: bool = False, special: Special = "default"
    ) -> list[int]:
        """Returns the ids of a text, as the format's own library does. bos, eos: adds the format's begin and end.

        special: "match" encodes special tokens in the text as their ids, "text" as ordinary text, and "default" as the
        format's own library does. Bytes that are not UTF-8 are replaced by U+FFFD.
        """
        if not isinstance(text, str | bytes):
            raise arguments.refused("text", "a str or bytes", text)
        data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
        which = _SPECIAL.index(arguments.choice("special", special, _SPECIAL))
        around = arguments.flag("bos", bos), arguments.flag("eos", eos)
        options = L.EncodeOptions(C.sizeof(L.EncodeOptions), *around, which)
        ids = L.Ids()
        L.call("clave_tokenizer_encode", self._handle.pointer, data, len(data), C.byref(options), C.byref(ids))
        found = ids.items[: ids.count]
        L.library().clave_ids_free(C.byref(ids))
        return found

    def decode(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        """Returns the text of ids. Raises Error for an id that the tokenizer does not have."""
        found, skip = arguments.ids("ids", ids), arguments.flag("skip_special", skip_special)
        array, text, size = (C.c_uint32 * len(found))(*found), C.c_void_p(), C.c_size_t()
        args = (self._handle.pointer, array, len(found), skip, C.byref(text), C.byref(size))
        L.call("clave_tokenizer_decode", *args)
        decoded = C.string_at(text, size.value)
        L.library().clave_text_free(text)
        return decoded.decode()

    def stream(self, ids: Iterator[int] | Sequence[int], *, skip_special: bool = False) -> Iterator[str]:
        """Yields the text of each id as it arrives, in whole characters, and at the end the remaining text. Raises
        Error for an id that the tokenizer does not have."""
        if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
            raise arguments.refused("ids", "integers, one after the other", ids)
        try:
            each = iter(ids)
        except TypeError:  # a tensor or an array without dimensions
            raise arguments.refused("ids", "integers, one after the other", ids) from None
        return self._stream(each, arguments.flag("skip_special", skip_special))

    def _stream(self, ids: Iterator[int], skip_special: bool) -> Iterator[str]:
        stream = L.Handle(
            "clave_text_stream_create",
            "clave_text_stream_destroy",
            self._handle.pointer,
            skip_special,
            keep=(self._handle,),
        )
        text, size = C.c_void_p(), C.c_size_t()
        for i in ids:
            i = arguments.integer("an id of ids", i, 0, 2**32 - 1)
            L.call("clave_text_stream_next", stream.pointer, i, C.byref(text), C.byref(size))
            yield C.string_at(text, size.value).decode()
        L.call("clave_text_stream_finish", stream.pointer, C.byref(text), C.byref(size))
        yield C.string_at(text, size.value).decode()


def message_ends(tokenizer: Tokenizer) -> dict[str, int]:
    """Returns the tokens with which chat models end a message, and their ids. "<|end|>" is not one if the model has
    other tokens that end an answer of several messages, as gpt-oss and Solar Open have."""
    ends = {t: i for t in _MESSAGE_ENDS if (i := tokenizer.find(t)) is not None}
    if {"<|return|>", "<|call|>"} <= ends.keys() or {"<|calls|>", "<|flush|>"} <= ends.keys():
        ends.pop("<|end|>", None)
    return ends
