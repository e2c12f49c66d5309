"""clave runs exported PyTorch models on any OpenCL device, or on the CPU.

program = clave.export(module, args); program.save("model.clv")
session = clave.Session("model.clv", device="opencl"); outputs = session.run(x)
text = clave.LLM("language_model.clv").generate("Once upon a time")

Running needs numpy and ml_dtypes. Exporting also needs torch and flatbuffers (the extra `export`).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clave.errors import Cancelled, Code, Error, Origin, UnsupportedOp
from clave.version import VERSION

if TYPE_CHECKING:
    import torch

    from clave.conversation import Answer, Conversation, Stream, Token
    from clave.kernel import Kernel
    from clave.language_model import LLM
    from clave.program import Program
    from clave.sampling import Sampling
    from clave.session import Device, Session, devices
    from clave.tokenizer import Tokenizer

__version__ = VERSION
__all__ = [
    "LLM",
    "Answer",
    "Cancelled",
    "Code",
    "Conversation",
    "Device",
    "Error",
    "Kernel",
    "Origin",
    "Program",
    "Sampling",
    "Session",
    "Stream",
    "Token",
    "Tokenizer",
    "UnsupportedOp",
    "devices",
    "export",
    "from_gguf",
    "from_onnx",
    "from_tflite",
    "load",
    "register_lowering",
    "register_op",
]

# Names that are imported at their first use, because they need numpy. `import clave` takes a few milliseconds.
_LATER = {
    "Answer": "conversation",
    "Conversation": "conversation",
    "Device": "session",
    "Kernel": "kernel",
    "LLM": "language_model",
    "Program": "program",
    "Sampling": "sampling",
    "Session": "session",
    "Stream": "conversation",
    "Token": "conversation",
    "Tokenizer": "tokenizer",
    "devices": "session",
}
# Submodules that are also imported at their first use, each with the extra of python/pyproject.toml that it needs. If a
# package is missing, the error names the extra.
_PARTS = {"executorch": "executorch", "llm": "llm", "quantizer": "export", "reference": "export"}


class _NotInstalled(Error, AttributeError):
    """Raised for a submodule whose packages are missing. An AttributeError, so that hasattr() and help() work."""


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        try:
            return _import(name, name, _PARTS[name])
        except Error as e:
            raise _NotInstalled(str(e), e.code) from e
    if name not in _LATER:
        raise AttributeError(f"module 'clave' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"clave.{_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_PARTS, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"})


def load(path: str | os.PathLike[str]) -> Program:
    """Loads a program file: .clv, or .json with consts.safetensors in the same folder; or imports an ONNX,
    TFLite or GGUF model, or a folder with a language model in ONNX. Raises clave.Error (a RuntimeError) if it cannot be
    read or is malformed, and clave.UnsupportedOp if an imported model has unsupported ops."""
    from clave.program import Program

    return Program.load(path)


def export(
    module: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    quantize: Any = None,
    *,
    strict: bool | None = None,
    verify: bool = False,
    dtype: torch.dtype | None = None,
    input_names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    output_names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    decompositions: Mapping[Any, Any] | None = None,
    report: bool = False,
    passes: Iterable[str] | None = None,
) -> Program:
    """Exports a torch module in eval mode as a program. See clave.exporter.export; the first call imports it, and
    torch."""
    exporter = _import("exporter", "export")
    return exporter.export(
        module,
        args,
        kwargs,
        dynamic_shapes,
        quantize,
        strict=strict,
        verify=verify,
        dtype=dtype,
        input_names=input_names,
        output_names=output_names,
        decompositions=decompositions,
        report=report,
        passes=passes,
    )


def from_gguf(
    path: str | os.PathLike[str],
    *,
    max_context: int | None = None,
    kv: str = "f16",
    prompt_piece: int = 256,
    tokenizer: str | os.PathLike[str] | None = None,
) -> Program:
    """Imports the language model of a GGUF file: a method forward(tokens, position), tokenizer and chat template.
    Weights stay in the file, which must exist while the program is used.

    max_context: capacity of the KV cache in tokens; None: the model's own context, at most 4096. kv: element type of
    the cache, "f32", "f16", "bf16" or "int8". prompt_piece: tokens of a prompt that a layer with a sliding window
    processes at once. tokenizer: a tokenizer.json, a SentencePiece .model, or a folder with one of them, in place of
    the file's own. Raises Error, in one line with the file's name."""
    from clave.importing import from_gguf as made

    return made(path, max_context, kv, prompt_piece, tokenizer)


def from_onnx(model: Any) -> Program:
    """Imports an ONNX model. model: the path of a file, beside which external data may be; an onnx.ModelProto without
    external data; or its bytes. Raises clave.UnsupportedOp with all ops that clave lacks, and clave.Error for a
    malformed model."""
    from clave.importing import from_model

    return from_model(model, "ONNX")


def from_tflite(model: str | os.PathLike[str] | bytes) -> Program:
    """Imports a TFLite model. model: the path of a file, or its bytes. Raises clave.UnsupportedOp with all ops that
    clave lacks, and clave.Error for a malformed model."""
    from clave.importing import from_model

    return from_model(model, "TFLite")


def register_lowering(op: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function that lowers an op, for example a custom op. See clave.lowering.registry.register_lowering;
    the first call imports it, and torch."""
    return _import("lowering.registry", "register_lowering").register_lowering(op)


def register_op(op: Any, *kernels: Kernel, reference: Callable[..., Any] | None = None) -> None:
    """Registers kernels for a torch op; programs with the op carry the kernels. See clave.custom.register_op; the first
    call imports it, and torch."""
    _import("custom", "register_op").register_op(op, *kernels, reference=reference)


def _import(name: str, what: str, extra: str = "export") -> Any:
    try:
        return importlib.import_module(f"clave.{name}")
    except ModuleNotFoundError as e:
        from clave._extras import install_command

        raise Error(f"clave.{what} needs {e.name}: {install_command(extra)}", Code.UNSUPPORTED) from e
    except ImportError as e:  # from a module of clave, with the name of the missing package
        raise Error(str(e), Code.UNSUPPORTED) from e
