"""Exports a Hugging Face folder as a program, step by step: `LLMExporter`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from clave import arguments
from clave._extras import install_command
from clave.errors import Code, Error
from clave.language_model import LLM
from clave.llm import multimodal
from clave.llm.folder import Folder
from clave.llm.kv_cache import CachedCausalLM, random_tokens, use_kv_cache
from clave.llm.limits import TooLong
from clave.llm.options import CONTEXT, KV, check_options, export_model
from clave.program import Program
from clave.progress import Progress
from clave.session import Device, open_device

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
_NAMES = {v: k for k, v in KV.items()}


class LLMExporter:
    """Exports a Hugging Face folder. Each step returns the exporter. Steps that need `capture` or `lower` run it, so
    both can be left out: LLMExporter(folder).to_dtype("f16").save("m.clv").

    source: the folder. max_context: capacity of the KV cache in tokens; None: the model's own context, at most 4096.
    kv: element type of the cache, "f32", "f16", "bf16" or "int8"; None: the model's type. prompt_piece: tokens of a
    prompt that a layer with a sliding window processes at once. long_factors: see clave.llm.use_kv_cache.

    Raises Error, in one line with the file's name.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        max_context: int | None = None,
        kv: str | None = None,
        prompt_piece: int = 256,
        long_factors: bool = False,
    ) -> None:
        check_options(kv, max_context, prompt_piece)
        self._long_factors = long_factors
        self._folder = Folder(source)
        self._max_context, self._kv, self._prompt_piece = max_context, kv, prompt_piece
        self._output = Path(tempfile.gettempdir())
        self._dtype: str | None = None
        self._quantize: str | None = None
        self._embedding: str | None = None
        self._transforms: list[Callable[[torch.nn.Module], torch.nn.Module | None]] = []
        self._model: CachedCausalLM | None = None
        self._rounded: torch.nn.Module | None = None  # by pt2e
        self._weights: Any = None
        self._program: Program | None = None
        self.metadata: dict[str, Any] = {}
        self.notes: list[str] = []
        """The parts of the folder that the program leaves out, one line each. Known after `capture`."""

    def set_output_dir(self, path: str | os.PathLike[str]) -> LLMExporter:
        """Sets the folder in which `save` writes a file, and in which weights are stored until then. Creates it if it
        does not exist."""
        self._output = Path(os.fsdecode(arguments.path("path", path)))
        try:
            self._output.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise Error(f"path: expected a folder, got {self._output}: {e.strerror}", Code.IO) from e
        return self

    def to_dtype(self, dtype: str) -> LLMExporter:
        """Converts weights to "f32", "f16" or "bf16", in which the model then computes. The default is the dtype of the
        folder's weights."""
        arguments.choice("dtype", dtype, DTYPES)
        self._check_not_captured("to_dtype")
        self._dtype = dtype
        return self

    def quantize(self, weights: str | None = None, embedding: str | None = None) -> LLMExporter:
        """Sets the encodings of the matrices of products and of embeddings, see clave.encodings.HELP. A table that is
        also the output counts as an embedding."""
        from clave.llm.weights import Encodings

        Encodings(weights, embedding)
        self._check_not_captured("quantize")
        self._quantize, self._embedding = weights, embedding
        return self

    def source_transform(self, transforms: Iterable[str | Callable[..., Any]]) -> LLMExporter:
        """Adds transforms. Each is an encoding for `quantize`, or a function that changes the model with its weights or
        returns another model."""
        self._check_not_captured("source_transform")
        if isinstance(transforms, str | bytes) or not isinstance(transforms, Iterable):
            raise arguments.refused("transforms", "a list of encodings and functions", transforms)
        for t in transforms:
            if not isinstance(t, str):
                arguments.function("transforms", t, "a list of encodings and functions")
            if isinstance(t, str):
                self.quantize(t, self._embedding)
            else:
                self._transforms.append(t)
        return self

    def _check_not_captured(self, step: str) -> None:
        if self._model is not None:
            raise Error(f"{step} comes before capture and the steps that run it, because they read the weights")

    def capture(self) -> LLMExporter:
        """Reads the folder: its model, with a KV cache inside, and the weights in the program's types and encodings."""
        with Progress() as progress:
            self._capture(progress)
        return self

    def _capture(self, progress: Progress) -> None:
        try:
            from clave.llm import checkpoint, metadata, skeleton, weights
        except ModuleNotFoundError as e:
            raise Error(f"clave.llm needs {e.name}: {install_command('llm')}", Code.UNSUPPORTED) from e
        folder = self._folder
        with progress.stage("reading the model"):
            model, whole = skeleton.build(folder, DTYPES.get(self._dtype or ""))
            if whole is not model:
                left_out = "exports the text model; images and sounds are not supported"
                self.notes.append(f"{folder.path} is a {type(whole).__name__}: {left_out}")
            config = model.config.get_text_config()
            text = metadata.Text(folder, config.vocab_size)
            found = checkpoint.Checkpoint(folder, whole, model)
            read = metadata.read_metadata(folder, config, text)
        encodings = weights.Encodings(self._quantize, self._embedding).of(model)
        with progress.stage("trying caches"):
            skeleton.fill(model)
            if whole is not model:
                self._match(whole, model)
            self._model, context = self._cached(model, config)
        self._weights = weights.Weights(folder, found, encodings, self._output)
        self._weights.fill(model, progress)
        for transform in self._transforms:
            self._model.model = transform(self._model.model) or self._model.model
        with progress.stage("reading the source's hash"):
            source = self._describe(metadata, config, next(model.parameters()).dtype)
        self.metadata = {"max_context": context, **read, "source": source}
        self._text, self._n_vocab = text, config.vocab_size

    def _match(self, whole: Any, model: Any) -> None:
        try:
            multimodal.match(whole, model, random_tokens(model.config, CONTEXT))
        except Error as e:
            raise self._folder.error(str(e), e.code) from e

    def _cached(self, model: Any, config: Any) -> tuple[CachedCausalLM, int]:
        """Returns the model with its cache, and the capacity in tokens. The default capacity is at most the number of
        positions that the model has."""
        dtype = None if self._kv is None else KV[self._kv]
        context = self._max_context or min(getattr(config, "max_position_embeddings", None) or CONTEXT, CONTEXT)
        options: dict[str, Any] = {"prompt_piece": self._prompt_piece, "long_factors": self._long_factors}
        while True:
            try:
                return use_kv_cache(model, context, dtype=dtype, **options), context
            except Error as e:
                if self._max_context or not isinstance(e, TooLong) or e.most < 2:
                    raise self._folder.error(str(e), e.code) from e
                context = e.most

    def _describe(self, metadata: Any, config: Any, dtype: torch.dtype) -> dict[str, Any]:
        """Returns the source of the program and the options of the export."""
        assert self._model is not None
        found: dict[str, Any] = metadata.origin(
            self._folder,
            config,
            name=metadata.name_of(self._folder.path),
            dtype=_NAMES[dtype],
            quantize=self._quantize,
            quantize_embedding=self._embedding,
            kv=_NAMES.get(self._model.caches[0].keys.dtype) if len(self._model.caches) else None,
        )
        return found

    def pt2e_quantize(self, quantizers: Iterable[Any], calibration: Iterable[str | Sequence[int]] = ()) -> LLMExporter:
        """Rounds weights and activations by pt2e quantizers: clave.quantizer.ClaveQuantizer() or others of torchao.

        calibration: texts or ids, from which quantizers without fixed scales compute them. The weights are then in
        memory, in 8 bits. Raises Error if this is not possible, or if `quantize` has set an encoding.
        """
        from clave.llm import pt2e

        found = pt2e.check_quantizers(quantizers)
        given = self._quantize or self._embedding
        if given or self._rounded is not None or self._program is not None:
            done = f"the weights are {given}" if given else "the program is made" if self._program else "it is done"
            raise Error(
                f"pt2e_quantize: expected one call of quantize or pt2e_quantize before lower, but {done} already"
            )
        if self._model is None:
            self.capture()
        assert self._model is not None
        ids = [self._ids_of(x) for x in calibration]
        with Progress() as progress, progress.stage("quantising"), self._weights.spool.released():
            self._rounded = pt2e.quantise(self._model, found, ids, self.metadata["max_context"])
        self.metadata["source"]["quantize"] = "pt2e"
        return self

    def _ids_of(self, text: str | Sequence[int]) -> list[int]:
        """Returns the ids that the model runs for a text of the calibration."""
        if isinstance(text, str):
            if self._text.tokenizer is None:
                raise self._folder.error("calibration: expected ids, because there is no tokenizer, got a text")
            bos = self.metadata["bos"]
            text = [*([] if bos is None else [bos]), *self._text.tokenizer.encode(text)]
        found = arguments.ids("calibration", text, self._n_vocab - 1)
        if not found:
            raise Error(f"calibration: expected texts, or ids from 0 to {self._n_vocab - 1}")
        return found

    def lower(self) -> LLMExporter:
        """Makes the program."""
        if self._model is None:
            self.capture()
        assert self._model is not None
        try:
            with self._weights.spool.released():
                model = self._rounded or self._model
                self._program = export_model(model, self.metadata["max_context"], self._weights.stored)
                self._weights.check_all_stored()
        except Error as e:
            raise self._folder.error(str(e), e.code) from e
        self._program.set_tokenizer(self._text.data)
        self._program.metadata = {"llm": self.metadata}
        return self

    def pack(self, device: str | Device) -> LLMExporter:
        """Adds packed weights for a device, see clave.Device.pack."""
        opened = open_device(device)
        with self._weights.spool.released():
            opened.pack(self.program)
        return self

    @property
    def program(self) -> Program:
        if self._program is None:
            self.lower()
        assert self._program is not None
        return self._program

    @property
    def has_tokenizer(self) -> bool:
        return self.program.tokenizer_file is not None

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the program into the output folder, or to a path that names its own folder. Returns the path.

        Raises Error, and leaves no file, if clave.LLM cannot load the program.
        """
        file = Path(os.fsdecode(arguments.path("path", path)))
        where = self._output / file if file.parent == Path() else file
        program = self.program
        with Progress() as progress, progress.stage("writing"), self._weights.spool.released():
            program.save(where)
        if where.suffix == ".clv":
            self._check_loads(where)
        return where

    def _check_loads(self, path: Path) -> None:
        try:
            LLM(path, "cpu")
        except Error as e:
            path.unlink(missing_ok=True)
            raise self._folder.error(f"clave.LLM cannot load the program: {e}", e.code) from e
