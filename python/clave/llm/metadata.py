"""Reads the metadata that a program carries from a Hugging Face folder: tokenizer, BOS, stop tokens, chat template, the
authors' sampling settings, licence and origin. See docs/howto/language_models.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers

from clave.errors import Error
from clave.llm.folder import Folder
from clave.llm.skeleton import silent
from clave.tokenizer import Tokenizer, message_ends

_FILES = ("tokenizer.json", "tokenizer.model")
_LARGEST = 1 << 30
_SAMPLING = ("do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty")


class Text:
    """A folder's tokenizer. data: the contents of its file, or None if the folder has no tokenizer file."""

    def __init__(self, folder: Folder, n_vocab: int) -> None:
        self._folder = folder
        self.config = folder.json("tokenizer_config.json") or {}
        self.data, name = self._file()
        self.tokenizer: Tokenizer | None = None
        if self.data is None:
            return
        try:
            self.tokenizer = Tokenizer(self.data)
        except Error as e:
            raise Error(f"{folder.path / name}: {e}", e.code) from None
        if self.tokenizer.n_ids > n_vocab:
            raise folder.error(f"{name} has {self.tokenizer.n_ids} tokens, but the model has {n_vocab}")

    def _file(self) -> tuple[bytes | None, str]:
        for name in _FILES:
            data = self._folder.read(name, _LARGEST)
            if data is not None:
                return data, name
        made = self._ours()
        return (None, "") if made is None else (made.backend_tokenizer.to_str().encode(), "the tokenizer's files")

    def _ours(self) -> Any:
        """Returns transformers' tokenizer of the folder, or None if it makes none."""
        if not any((self._folder.path / n).exists() for n in (*_FILES, "vocab.json", "tokenizer_config.json")):
            return None
        try:
            with silent():
                made = transformers.AutoTokenizer.from_pretrained(self._folder.path, local_files_only=True)
            return made if getattr(made, "is_fast", False) else None
        except Exception:  # any error that a file's contents cause; then the files are read without transformers
            return None

    def id_of(self, key: str) -> int | None:
        """Returns the id of a token that tokenizer_config.json names, such as "bos_token", or None."""
        value = self.config.get(key)
        text = value.get("content") if isinstance(value, dict) else value
        return self.tokenizer.find(text) if self.tokenizer and isinstance(text, str) else None

    def bos(self) -> int | None:
        """Returns the id that transformers puts before a text, by add_bos_token or by the tokenizer's post-processor,
        or None."""
        made = self._ours()
        if made is not None:
            plain, whole = (made("a", add_special_tokens=s)["input_ids"] for s in (False, True))
            return int(whole[0]) if whole[: len(plain) + 1] != plain and whole[1 : len(plain) + 1] == plain else None
        adds = self.config.get("add_bos_token")
        own = self.id_of("bos_token")
        return (own if own is not None else self.tokenizer.bos) if self.tokenizer and adds is not False else None


def read_metadata(folder: Folder, config: Any, text: Text) -> dict[str, Any]:
    """Returns the keys of "llm" that depend on the folder alone. config: the text model's. Raises Error if an id is not
    one of its tokens."""
    generation = folder.json("generation_config.json") or {}
    template = _template(folder, text.config)
    ends = _ends(folder, config, generation)
    own = text.id_of("eos_token")
    known = message_ends(text.tokenizer) if text.tokenizer else {}
    ends += [] if own is None else [own]
    ends += [i for t, i in known.items() if template and t in template]
    found = {
        "eos": own if own is not None else (ends or [None])[0],
        "stop_ids": list(dict.fromkeys(ends)),
        "chat_template": template,
        "sampling": {k: generation[k] for k in _SAMPLING if isinstance(generation.get(k), bool | int | float)} or None,
        "license": folder.licence(),
    }
    found = {k: v for k, v in found.items() if v is not None}
    bos = text.bos() if text.tokenizer else None
    for key, ids in (("eos", found["stop_ids"]), ("bos", [] if bos is None else [bos])):
        _check_ids(folder, "its tokenizer", f"{key}_token", ids, config.vocab_size)
    return found | {"bos": bos}


def _ends(folder: Folder, config: Any, generation: dict[str, Any]) -> list[int]:
    """Returns the ids that end an answer, from the first file that has any."""
    for name, value in (
        ("generation_config.json", generation.get("eos_token_id")),
        ("config.json", getattr(config, "eos_token_id", None)),
        ("config.json", folder.config.get("eos_token_id")),
    ):
        if ids := _ids(value):
            _check_ids(folder, name, "eos_token_id", ids, config.vocab_size)
            return ids
    return []


def _check_ids(folder: Folder, file: str, key: str, ids: list[int], n_vocab: int) -> None:
    """Raises Error for ids for which the model has no logits, because clave.LLM refuses them."""
    for i in ids:
        if i >= n_vocab:
            raise folder.error(f"{file}: {key}: expected 0 to {n_vocab - 1}, the model's tokens, got {i}")


def _ids(value: Any) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [v for v in values if isinstance(v, int) and not isinstance(v, bool) and v >= 0]


def _template(folder: Folder, tokenizer: dict[str, Any]) -> str | None:
    """Returns the template of chat_template.jinja, chat_template.json or tokenizer_config.json, tried in this order, or
    None. Of several templates it is "default"."""
    own = folder.text("chat_template.jinja")
    if own is not None:
        return own
    for template in ((folder.json("chat_template.json") or {}).get("chat_template"), tokenizer.get("chat_template")):
        if isinstance(template, list):
            named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
            template = named.get("default")
        if isinstance(template, str):
            return template
    return None


def origin(folder: Folder, config: Any, **made: Any) -> dict[str, Any]:
    """Returns the source of the program and the options of the export."""
    names = folder.config.get("architectures")
    name = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else config.model_type
    own = {"architecture": name, "model_type": config.model_type}
    return {k: v for k, v in (own | made | {"sha256": folder.digest()}).items() if v is not None}


def name_of(path: Path) -> str:
    return path.resolve().name
