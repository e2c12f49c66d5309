"""Loads libclave.so through ctypes, declares its structs and functions, and raises its errors as exceptions.

If $CLAVE_LIBRARY is set, only that path is tried. Otherwise the library is looked for in this package, in build/ of the
checkout that contains the package, and where the system's loader looks.
"""

from __future__ import annotations

import ctypes as C
import functools
import os
from pathlib import Path
from typing import Any

from clave.errors import Cancelled, Code, Error
from clave.version import VERSION

MAX_RANK = 8
DYNAMIC = -1
UNBOUNDED = 2**63 - 1


class Tensor(C.Structure):
    """clave_tensor: host memory seen as a tensor; strides count elements."""

    _fields_ = [
        ("dtype", C.c_int),
        ("rank", C.c_int),
        ("dims", C.c_int64 * MAX_RANK),
        ("strides", C.c_int64 * MAX_RANK),
        ("data", C.c_void_p),
    ]


class Info(C.Structure):
    """A struct whose first field is its size in bytes, which the constructor sets."""

    def __init__(self, **values: Any) -> None:
        super().__init__(size=C.sizeof(self), **values)


class DeviceInfo(Info):
    """clave_device_info."""

    _fields_ = [
        ("size", C.c_size_t),
        *((name, C.c_char_p) for name in ("kind", "name", "platform", "driver", "type", "extensions")),
        ("memory", C.c_uint64),
        ("max_alloc", C.c_uint64),
        ("compute_units", C.c_uint32),
        ("clock_mhz", C.c_uint32),
        ("shares_host_memory", C.c_bool),
        ("is_default", C.c_bool),
        ("index", C.c_int),
        ("n_tuned", C.c_uint32),
        ("version", C.c_char_p),
        ("is_trusted", C.c_bool),
    ]


class CacheInfo(Info):
    """clave_cache_info."""

    _fields_ = [
        ("size", C.c_size_t),
        ("path", C.c_char_p),
        *((name, C.c_uint64) for name in ("bytes", "files", "limit_bytes", "tables")),
    ]


class TensorInfo(Info):
    """clave_tensor_info."""

    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char_p),
        ("dtype", C.c_int),
        ("rank", C.c_int),
        ("dims", C.c_int64 * MAX_RANK),
        ("min_dims", C.c_int64 * MAX_RANK),
        ("max_dims", C.c_int64 * MAX_RANK),
        ("dim_names", C.c_char_p * MAX_RANK),
        ("kind", C.c_int),
        ("is_scalar", C.c_bool),
        ("slot", C.c_uint32),
        ("encoding", C.c_int),
        ("encoding_text", C.c_char * 64),
    ]


class ProgramInfo(Info):
    """clave_program_info."""

    _fields_ = [
        ("size", C.c_size_t),
        ("producer", C.c_char_p),
        ("metadata", C.c_char_p),
        *((name, C.c_uint32) for name in ("version", "n_methods", "n_slots", "n_constants", "n_state")),
        ("constant_bytes", C.c_uint64),
        ("state_bytes", C.c_uint64),
    ]


class MethodInfo(Info):
    """clave_method_info."""

    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char_p),
        ("metadata", C.c_char_p),
        *((name, C.c_uint32) for name in ("n_inputs", "n_outputs", "n_nodes")),
    ]


class PlacementInfo(Info):
    """clave_placement_info."""

    _fields_ = [
        ("size", C.c_size_t),
        *((name, C.c_char_p) for name in ("op", "name", "where", "reason")),
        ("supported", C.c_bool),
    ]


class PassInfo(Info):
    """clave_pass_info."""

    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char_p),
        ("applied", C.c_uint32),
        ("removed", C.c_int64),
        ("refused", C.c_char_p),
    ]


PASS_FN = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(PassInfo))


class OptimizeOptions(C.Structure):
    """clave_optimize_options."""

    _fields_ = [
        ("size", C.c_size_t),
        ("passes", C.POINTER(C.c_char_p)),
        ("n_passes", C.c_uint32),
        ("report", PASS_FN),
        ("report_ctx", C.c_void_p),
    ]


MESSAGE_FN = C.CFUNCTYPE(None, C.c_void_p, C.c_char_p)


FIND_FN = C.CFUNCTYPE(C.c_bool, C.c_void_p, C.c_char_p, C.POINTER(Tensor))
OBSERVE_FN = C.CFUNCTYPE(C.c_bool, C.c_void_p, C.c_uint32, C.c_uint32, C.POINTER(Tensor))


class DeviceOptions(C.Structure):
    """clave_device_options."""

    _fields_ = [
        ("size", C.c_size_t),
        ("no_fallback", C.c_bool),
        ("n_threads", C.c_int),
        ("cache_dir", C.c_char_p),
        ("kernel_dir", C.c_char_p),
        ("message", MESSAGE_FN),
        ("message_ctx", C.c_void_p),
        ("binaries", C.c_void_p),
        ("binaries_size", C.c_size_t),
    ]


class SessionOptions(C.Structure):
    """clave_session_options."""

    _fields_ = [
        ("size", C.c_size_t),
        ("memory_budget", C.c_uint64),
        ("poison", C.c_bool),
        ("profile", C.c_bool),
        ("fast", C.c_bool),
        ("progress", C.c_void_p),
        ("progress_ctx", C.c_void_p),
        ("unfused", C.c_bool),
        ("unchecked", C.c_bool),
        ("cancel", C.c_void_p),
        ("cancel_ctx", C.c_void_p),
        ("seed", C.c_uint64),
        ("warm_up", C.c_int),
        ("allow_custom_kernels", C.c_bool),
        ("wide", C.c_int),
        ("strict", C.c_int),
    ]


class TokenizerOptions(C.Structure):
    """clave_tokenizer_options."""

    _fields_ = [("size", C.c_size_t), ("pattern", C.c_char_p)]


class TokenizerInfo(Info):
    """clave_tokenizer_info."""

    _fields_ = [
        ("size", C.c_size_t),
        ("format", C.c_char_p),
        ("n_ids", C.c_uint32),
        ("bos", C.c_int32),
        ("eos", C.c_int32),
    ]


class EncodeOptions(C.Structure):
    """clave_encode_options."""

    _fields_ = [("size", C.c_size_t), ("bos", C.c_bool), ("eos", C.c_bool), ("special", C.c_int)]


class Ids(C.Structure):
    """clave_ids."""

    _fields_ = [("items", C.POINTER(C.c_uint32)), ("count", C.c_size_t)]


class TemplateInputs(Info):
    """clave_template_inputs."""

    _fields_ = [
        ("size", C.c_size_t),
        *((name, C.c_char_p) for name in ("messages", "tools", "documents", "arguments", "bos", "eos")),
        ("add_generation_prompt", C.c_bool),
        ("name", C.c_char_p),
        ("now", C.c_int64),
    ]


class LogitBias(C.Structure):
    """clave_logit_bias."""

    _fields_ = [("id", C.c_uint32), ("bias", C.c_float)]


class SamplerOptions(Info):
    """clave_sampler_options."""

    _fields_ = [
        ("size", C.c_size_t),
        ("bias", C.POINTER(LogitBias)),
        ("n_bias", C.c_size_t),
        *((name, C.c_float) for name in ("repetition_penalty", "presence_penalty", "frequency_penalty")),
        ("penalty_window", C.c_uint32),
        ("temperature", C.c_float),
        ("top_k", C.c_uint32),
        ("top_p", C.c_float),
        ("min_p", C.c_float),
        ("seed", C.c_uint64),
    ]


class ProgramOptions(Info):
    """clave_program_options."""

    _fields_ = [
        ("size", C.c_size_t),
        ("consts", C.c_char_p),
        ("max_context", C.c_int64),
        ("has_tokenizer", C.c_bool),
        ("kv", C.c_char_p),
        ("prompt_piece", C.c_int64),
    ]


class LLMOptions(Info):
    """clave_llm_options."""

    _fields_ = [
        ("size", C.c_size_t),
        ("tokenizer", C.c_char_p),
        ("tokenizer_options", C.POINTER(TokenizerOptions)),
        ("consts", C.c_char_p),
        ("chat_template", C.c_char_p),
        ("max_context", C.c_uint32),
        ("clv", C.c_char_p),
        ("clv_size", C.c_size_t),
        ("kv", C.c_char_p),
    ]


class LLMInfo(Info):
    """clave_llm_info."""

    _fields_ = [
        ("size", C.c_size_t),
        ("max_context", C.c_uint32),
        ("n_vocab", C.c_uint32),
        ("tokenizer", C.c_void_p),
        ("bos", C.c_int32),
        ("stop_ids", C.POINTER(C.c_uint32)),
        ("n_stop_ids", C.c_size_t),
        ("chat_template", C.c_char_p),
        ("sampling", C.POINTER(SamplerOptions)),
        ("page_rows", C.c_uint32),
        ("chat_sampling", C.POINTER(SamplerOptions)),
    ]


LOGITS_FN = C.CFUNCTYPE(C.c_bool, C.c_void_p, C.POINTER(C.c_float), C.c_size_t, C.POINTER(C.c_uint32), C.c_size_t)


class ConversationOptions(Info):
    """clave_llm_conversation_options."""

    _fields_ = [
        ("size", C.c_size_t),
        ("sampler", C.POINTER(SamplerOptions)),
        ("stop", C.POINTER(C.c_char_p)),
        ("n_stop", C.c_size_t),
        ("ignore_stop_ids", C.c_bool),
        ("prefill_chunk", C.c_uint32),
        ("session", C.POINTER(SessionOptions)),
        ("change_logits", LOGITS_FN),
        ("change_logits_ctx", C.c_void_p),
    ]


class LLMToken(C.Structure):
    """clave_llm_token."""

    _fields_ = [("id", C.c_uint32), ("text", C.c_void_p), ("text_size", C.c_size_t), ("stop", C.c_int)]


class Logprob(C.Structure):
    """clave_llm_logprob."""

    _fields_ = [("id", C.c_uint32), ("logprob", C.c_float)]


class LLMStats(C.Structure):
    """clave_llm_stats."""

    _fields_ = [
        ("prompt_tokens", C.c_uint64),
        ("decode_tokens", C.c_uint64),
        *((name, C.c_double) for name in ("prompt_ms", "decode_ms", "ttft_ms", "load_ms")),
    ]


_P, _S = C.c_void_p, C.c_char_p
_OUT = C.POINTER(C.c_void_p)
# Functions that return a clave_status, with the types of their arguments.
_CHECKED: dict[str, tuple[Any, ...]] = {
    "clave_devices_count": (C.POINTER(C.c_int),),
    "clave_devices_get": (C.c_int, C.POINTER(DeviceInfo)),
    "clave_cache_get_info": (C.POINTER(CacheInfo),),
    "clave_device_open": (_S, C.POINTER(DeviceOptions), _OUT),
    "clave_program_load": (_S, _P, _OUT),
    "clave_program_load_bytes": (_P, C.c_size_t, _S, _OUT),
    "clave_program_create": (_P, C.c_size_t, C.POINTER(Tensor), C.c_size_t, _OUT),
    "clave_program_own_constants": (_P,),
    "clave_guard_create": (_P, C.c_size_t, C.POINTER(C.c_bool), _OUT),
    "clave_program_optimize": (_P, C.POINTER(OptimizeOptions), _OUT),
    "clave_program_encode": (_P, _OUT, C.POINTER(C.c_size_t)),
    "clave_tensors_save": (_S, C.POINTER(_S), C.POINTER(Tensor), C.c_uint32, C.POINTER(_S), C.c_uint32),
    "clave_program_save": (_P, _S),
    "clave_program_pack": (_P, _P, C.POINTER(SessionOptions)),
    "clave_program_set_section": (_P, _S, _S, C.c_size_t),
    "clave_program_set_metadata": (_P, _S),
    "clave_program_constant": (_P, C.c_uint32, C.POINTER(Tensor)),
    "clave_program_create_by_name": (_S, C.c_size_t, FIND_FN, _P, _OUT),
    "clave_program_get_info": (_P, C.POINTER(ProgramInfo)),
    "clave_program_method": (_P, C.c_uint32, C.POINTER(MethodInfo)),
    "clave_program_input": (_P, _S, C.c_uint32, C.POINTER(TensorInfo)),
    "clave_program_output": (_P, _S, C.c_uint32, C.POINTER(TensorInfo)),
    "clave_program_supported": (_P, _P, C.POINTER(SessionOptions), _OUT),
    "clave_session_placement": (_P, _OUT),
    "clave_placement_get": (_P, _S, C.c_uint32, C.POINTER(PlacementInfo)),
    "clave_session_create": (_P, _P, C.POINTER(SessionOptions), _OUT),
    "clave_session_bind_input": (_P, _S, C.c_uint32, C.POINTER(Tensor)),
    "clave_session_run": (_P, _S),
    "clave_session_output": (_P, _S, C.c_uint32, C.POINTER(Tensor)),
    "clave_session_reset": (_P,),
    "clave_session_resize": (_P, _S, C.c_int64),
    "clave_session_observe": (_P, OBSERVE_FN, _P),
    "clave_tokenizer_load": (_S, C.POINTER(TokenizerOptions), _OUT),
    "clave_tokenizer_of_program": (_P, _OUT),
    "clave_tokenizer_create": (_S, C.c_size_t, C.POINTER(TokenizerOptions), _OUT),
    "clave_tokenizer_get_info": (_P, C.POINTER(TokenizerInfo)),
    "clave_tokenizer_encode": (_P, _S, C.c_size_t, C.POINTER(EncodeOptions), C.POINTER(Ids)),
    "clave_tokenizer_decode": (_P, C.POINTER(C.c_uint32), C.c_size_t, C.c_bool, _OUT, C.POINTER(C.c_size_t)),
    "clave_text_stream_create": (_P, C.c_bool, _OUT),
    "clave_text_stream_next": (_P, C.c_uint32, _OUT, C.POINTER(C.c_size_t)),
    "clave_text_stream_finish": (_P, _OUT, C.POINTER(C.c_size_t)),
    "clave_llm_import": (_S, _OUT),
    "clave_llm_load": (_S, _P, C.POINTER(LLMOptions), _OUT),
    "clave_llm_get_info": (_P, C.POINTER(LLMInfo)),
    "clave_llm_render": (_P, C.POINTER(TemplateInputs), _OUT, C.POINTER(C.c_size_t)),
    "clave_llm_render_ids": (_P, C.POINTER(TemplateInputs), C.POINTER(Ids)),
    "clave_llm_template_ignores": (_P, C.POINTER(TemplateInputs), C.POINTER(C.c_bool), C.POINTER(C.c_bool)),
    "clave_llm_conversation_create": (_P, C.POINTER(ConversationOptions), _OUT),
    "clave_llm_set_sampler": (_P, C.POINTER(SamplerOptions)),
    "clave_llm_prompt": (_P, C.POINTER(C.c_uint32), C.c_size_t),
    "clave_llm_prompt_text": (_P, _S, C.c_size_t),
    "clave_llm_prompt_messages": (_P, C.POINTER(TemplateInputs)),
    "clave_llm_next": (_P, C.POINTER(LLMToken)),
    "clave_llm_next_each": (C.POINTER(_P), C.c_size_t, C.POINTER(LLMToken), C.POINTER(C.c_size_t)),
    "clave_llm_flush": (_P, _OUT, C.POINTER(C.c_size_t)),
    "clave_llm_logprobs": (_P, C.POINTER(Logprob), C.POINTER(Logprob), C.c_size_t),
    "clave_llm_reset": (_P,),
    "clave_llm_rewind": (_P, C.c_size_t),
    "clave_llm_undo": (_P, C.c_bool),
    "clave_llm_messages": (_P, _OUT),
    "clave_llm_fork": (_P, _OUT),
    "clave_llm_save": (_P, _S),
    "clave_llm_restore": (_P, _S),
}
# Other functions: the type of the result, then the types of the arguments.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "clave_status_code": (C.c_int, _P),
    "clave_status_message": (_S, _P),
    "clave_status_free": (None, _P),
    "clave_version": (_S,),
    "clave_program_section": (_P, _P, _S, C.POINTER(C.c_size_t)),
    "clave_program_destroy": (None, _P),
    "clave_guard_destroy": (None, _P),
    "clave_dtype_size": (C.c_size_t, C.c_int),
    "clave_device_destroy": (None, _P),
    "clave_session_answered_by": (_S, _P),
    "clave_session_destroy": (None, _P),
    "clave_placement_destroy": (None, _P),
    "clave_tokenizer_find": (C.c_int32, _P, _S),
    "clave_tokenizer_destroy": (None, _P),
    "clave_ids_free": (None, C.POINTER(Ids)),
    "clave_text_free": (None, _P),
    "clave_text_stream_destroy": (None, _P),
    "clave_llm_destroy": (None, _P),
    "clave_llm_conversation_destroy": (None, _P),
    "clave_llm_ids": (C.POINTER(C.c_uint32), _P, C.POINTER(C.c_size_t)),
    "clave_llm_stop_name": (_S, C.c_int),
    "clave_llm_answered_by": (_S, _P),
    "clave_llm_get_stats": (None, _P, C.POINTER(LLMStats)),
}


def _candidates() -> list[str]:
    if os.environ.get("CLAVE_LIBRARY"):
        return [os.environ["CLAVE_LIBRARY"]]
    package = Path(__file__).resolve().parent
    near = [package / "libclave.so", package.parents[1] / "build" / "libclave.so"]
    return [*(str(p) for p in near if p.exists()), "libclave.so", "libclave.so.0"]


def _check_version(loaded: C.CDLL, path: str) -> None:
    """Raises Error if the library is not clave's, or has another version, whose structs may differ from these."""
    try:
        version = loaded.clave_version
    except AttributeError:
        raise Error(f"{path} is not a library of clave", Code.IO) from None
    version.restype = C.c_char_p
    found = version().decode(errors="replace")
    if found != VERSION:
        raise Error(
            f"{path} is version {found} and the package in {Path(__file__).parent} is {VERSION}: install the same "
            "version of both, or set CLAVE_LIBRARY",
            Code.IO,
        )


@functools.cache
def _load() -> tuple[C.CDLL, str]:
    """Returns the loaded library and the path or name by which it was found."""
    reasons = []
    for path in _candidates():
        try:
            loaded = C.CDLL(path)
        except OSError as e:
            reasons.append(f"{path}: {e}" if path not in str(e) else str(e))
            continue
        _check_version(loaded, path)
        for name, args in _CHECKED.items():
            getattr(loaded, name).restype, getattr(loaded, name).argtypes = C.c_void_p, args
        for name, (result, *args) in _PLAIN.items():
            getattr(loaded, name).restype, getattr(loaded, name).argtypes = result, args
        return loaded, path
    raise Error(f"no libclave.so (build it with make, or set CLAVE_LIBRARY): {'; '.join(reasons)}", Code.IO)


def library() -> C.CDLL:
    """Returns the loaded library with its functions declared. Raises Error if none is found or its version differs."""
    return _load()[0]


def library_folder() -> Path | None:
    """Returns the folder of the loaded library, or None if it was not loaded by an absolute path."""
    path = Path(_load()[1])
    return path.resolve().parent if path.is_absolute() else None


def call(name: str, *args: Any) -> None:
    """Calls a function that returns a status. Raises Error, or Cancelled, if the function failed."""
    lib = library()
    status = getattr(lib, name)(*args)
    if not status:
        return
    message, code = lib.clave_status_message(status).decode(errors="replace"), Code(lib.clave_status_code(status))
    lib.clave_status_free(status)
    raise (Cancelled if code == Code.CANCELLED else Error)(message, code)


class Uncopied:
    """An object that owns native memory, which a copy would share. Copying or pickling it raises Error."""

    def __reduce__(self) -> Any:
        raise Error(
            "only programs can be copied or pickled: create a new session, device or model where it is needed",
            Code.UNSUPPORTED,
        )


class Handle(Uncopied):
    """Owns an object of the library, which `close` or the garbage collector destroys. keep: objects that it needs."""

    def __init__(self, create: str, destroy: str, *args: Any, keep: tuple[Any, ...] = ()) -> None:
        self._pointer: C.c_void_p | None = C.c_void_p()
        self._keep = keep
        self._destroy = getattr(library(), destroy)
        call(create, *args, C.byref(self._pointer))

    @property
    def pointer(self) -> C.c_void_p:
        """The object's address. Raises Error after `close`."""
        if self._pointer is None:
            raise Error("expected an object that is open, got a closed one")
        return self._pointer

    @property
    def is_closed(self) -> bool:
        return self._pointer is None

    def close(self) -> None:
        """Destroys the object now. A second call does nothing."""
        pointer, self._pointer = self._pointer, None
        if pointer:
            self._destroy(pointer)
        self._keep = ()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self.close()


class Borrowed:
    """An object of the library that `owner` owns. Keeps the owner alive."""

    def __init__(self, pointer: int, owner: Handle) -> None:
        self._pointer = C.c_void_p(pointer)
        self._owner = owner

    @property
    def pointer(self) -> C.c_void_p:
        """The object's address. Raises Error after the owner is closed."""
        if self._owner.is_closed:
            raise Error("expected an object whose owner is open, got one of a closed owner")
        return self._pointer
