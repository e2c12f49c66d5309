"""clave's tokenizer for tests: the functions of clave_llm.h over ctypes."""

import ctypes as C
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEFAULT, MATCH, TEXT = range(3)  # clave_special


class Ids(C.Structure):
    _fields_ = [("items", C.POINTER(C.c_uint32)), ("count", C.c_size_t)]


class Options(C.Structure):
    _fields_ = [("size", C.c_size_t), ("pattern", C.c_char_p)]


class EncodeOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("bos", C.c_bool), ("eos", C.c_bool), ("special", C.c_int)]


class Info(C.Structure):
    _fields_ = [("format", C.c_char_p), ("n_ids", C.c_uint32), ("bos", C.c_int32), ("eos", C.c_int32)]


class Error(Exception):
    """A status: its message."""


def _load():
    library = C.CDLL(str(pathlib.Path(os.environ.get("CLAVE_BUILD") or ROOT / "build").resolve() / "libclave.so"))
    library.clave_status_message.restype = C.c_char_p
    library.clave_status_message.argtypes = [C.c_void_p]
    library.clave_status_free.argtypes = [C.c_void_p]
    library.clave_text_free.argtypes = [C.c_void_p]
    library.clave_text_free.restype = None
    for name in ("destroy", "get_info"):
        getattr(library, f"clave_tokenizer_{name}").restype = None
    library.clave_text_stream_destroy.restype = None
    for name in ("create", "load", "encode", "decode"):
        getattr(library, f"clave_tokenizer_{name}").restype = C.c_void_p
    for name in ("create", "next", "finish"):
        getattr(library, f"clave_text_stream_{name}").restype = C.c_void_p
    return library


_library = None


def library():
    global _library
    _library = _library or _load()
    return _library


def check(status):
    if status:
        message = library().clave_status_message(status).decode()
        library().clave_status_free(status)
        raise Error(message)


class Tokenizer:
    """From a path, or a file's bytes. Errors are raised as Error."""

    def __init__(self, source, pattern=None):
        self.handle = C.c_void_p()
        options = Options(C.sizeof(Options), pattern.encode() if pattern else None)
        if isinstance(source, bytes):
            size = C.c_size_t(len(source))
            check(library().clave_tokenizer_create(source, size, C.byref(options), C.byref(self.handle)))
        else:
            check(library().clave_tokenizer_load(os.fsencode(source), C.byref(options), C.byref(self.handle)))

    def __del__(self):
        library().clave_tokenizer_destroy(self.handle)

    @property
    def info(self):
        out = Info()
        library().clave_tokenizer_get_info(self.handle, C.byref(out))
        return out

    def find(self, token):
        return library().clave_tokenizer_find(self.handle, token.encode())

    def encode(self, text, bos=False, eos=False, special=DEFAULT):
        """Ids of a text, or of bytes that need not be UTF-8."""
        out = self._encode(text, bos, eos, special)
        ids = out.items[: out.count]
        library().clave_ids_free(C.byref(out))
        return ids

    def encode_only(self, text):
        """For timing: without a Python list of the ids. Their number."""
        out = self._encode(text, False, False, DEFAULT)
        count = out.count
        library().clave_ids_free(C.byref(out))
        return count

    def _encode(self, text, bos, eos, special):
        data = text if isinstance(text, bytes) else text.encode()
        out, options = Ids(), EncodeOptions(C.sizeof(EncodeOptions), bos, eos, special)
        check(
            library().clave_tokenizer_encode(self.handle, data, C.c_size_t(len(data)), C.byref(options), C.byref(out))
        )
        return out

    def decode(self, ids, skip_special=False):
        array, text, size = (C.c_uint32 * len(ids))(*ids), C.c_void_p(), C.c_size_t()
        check(
            library().clave_tokenizer_decode(
                self.handle, array, C.c_size_t(len(ids)), C.c_bool(skip_special), C.byref(text), C.byref(size)
            )
        )
        out = C.string_at(text, size.value)
        library().clave_text_free(text)
        return out.decode()

    def stream(self, ids, skip_special=False):
        """The texts that a stream gives, id by id, and at the end."""
        stream, text, size = C.c_void_p(), C.c_char_p(), C.c_size_t()
        check(library().clave_text_stream_create(self.handle, C.c_bool(skip_special), C.byref(stream)))
        try:
            for i in ids:
                check(library().clave_text_stream_next(stream, C.c_uint32(i), C.byref(text), C.byref(size)))
                yield C.string_at(text, size.value).decode()
            check(library().clave_text_stream_finish(stream, C.byref(text), C.byref(size)))
            yield C.string_at(text, size.value).decode()
        finally:
            library().clave_text_stream_destroy(stream)
