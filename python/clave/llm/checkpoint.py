"""Makes the parameters of a model from a folder's tensors, by transformers' own rules: renamed, merged, split."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, WeightRenaming, dot_natural_key, rename_source_key

from clave.errors import Code, Error
from clave.llm import mxfp4
from clave.llm.folder import Folder, listed
from clave.llm.layers import reason_of
from clave.private import ignored_on_load

_OLD_BUFFERS = (r"rotary_emb\.inv_freq$", r"(^|\.)position_ids$")  # tables in old files, which modules compute


class Checkpoint:
    """The tensors of a folder for a model. Raises Error if they do not match it: missing, unknown, or of other shapes
    or types.

    No data is read before `weights`. part: a model that consists of some of the model's modules. Only its parameters
    are read and must exist, and they have its names.
    """

    def __init__(self, folder: Folder, model: Any, part: Any) -> None:
        self._folder, self._model = folder, model
        self._wanted = model.state_dict(keep_vars=True)
        self._owner = _owners(self._wanted)
        names = {id(p): n for n, p in reversed(part.state_dict(keep_vars=True).items())}
        owners = ((own, id(self._wanted[own])) for own in self._owner.values())
        self._name_of = {own: names[i] for own, i in owners if i in names}
        self._groups: dict[str, list[tuple[str, str | None]]] = {}  # (tensor, pattern) by parameter
        self._rules = get_model_conversion_mapping(model)
        self._converters = [r for r in self._rules if isinstance(r, WeightConverter)]
        self._group()
        self._check()

    def _group(self) -> None:
        renamings = [r for r in self._rules if isinstance(r, WeightRenaming)]
        prefix, extra = self._model.base_model_prefix, []
        for name in sorted(self._folder.tensors, key=dot_natural_key):
            key, pattern = rename_source_key(name, renamings, self._converters, prefix, self._wanted)
            if key not in self._wanted and name in self._wanted:
                key, pattern = rename_source_key(name, [], [], prefix, self._wanted)
            if key in self._wanted:
                self._groups.setdefault(key, []).append((name, pattern))
            elif not self._may_be_extra(key):
                extra.append(name)
        if extra:
            raise self._folder.error(f"has tensors that the model has no place for: {listed(extra)}", Code.UNSUPPORTED)

    def _may_be_extra(self, key: str) -> bool:
        patterns = (*_OLD_BUFFERS, *ignored_on_load(self._model))
        return any(re.search(p, key) for p in patterns)

    def _check(self) -> None:
        """Raises Error if a parameter is missing or has another shape. Computes on the meta device."""
        for first, tensors in self._groups.items():
            for name, _ in tensors if self._owner[first] in self._name_of else ():
                self._folder.check_dtype(name)
        found = {name: t.shape for name, t in self._made(self._folder.meta)}
        for name, shape in found.items():
            want = self._wanted[name].shape
            if shape != want:
                given = " and others" if len(self._groups.get(name, ())) > 1 else ""
                source = self._groups[name][0][0] if name in self._groups else name
                raise self._folder.error(
                    f"tensor {source!r}{given}: expected {tuple(want)} by config.json, got {tuple(shape)}"
                )
        there = {self._owner[n] for n in found}
        missing = [n for n, own in self._owner.items() if n == own and own in self._name_of and own not in there]
        if missing:
            raise self._folder.error(f"has no weights for {listed(missing)}")

    def _made(self, load: Callable[[str], torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
        for first, tensors in self._groups.items():
            if self._is_copy(first):
                continue
            yield from self._convert(first, tensors, load).items()

    def _is_copy(self, name: str) -> bool:
        """True for another name of a parameter that the folder also has under its first name."""
        return self._owner[name] != name and self._owner[name] in self._groups

    def _convert(
        self, first: str, tensors: list[tuple[str, str | None]], load: Callable[[str], torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        pattern = tensors[0][1]
        if pattern is None:
            return {first: load(tensors[-1][0])}
        rule = copy.deepcopy(next(c for c in self._converters if pattern in c.source_patterns))
        for name, p in tensors:
            rule.add_tensor(first, name, p, partial(load, name))
        try:
            made = rule.convert(first, model=self._model, config=self._model.config)
        except Error:
            raise
        except Exception as e:
            names = listed([n for n, _ in tensors])
            raise self._folder.error(f"tensors {names} do not make up {first!r}: {reason_of(e)}") from e
        found = {k: v[0] if isinstance(v, list) else v for k, v in made.items()}
        unknown = [k for k in found if k not in self._wanted]
        if unknown:
            raise self._folder.error(f"has tensors that the model has no place for: {listed(unknown)}")
        return found

    def packed(self) -> list[str]:
        """Returns the first names of the parameters that are stored as MXFP4."""
        dtypes = {first: self._folder.tensors[tensors[-1][0]].dtype for first, tensors in self._groups.items()}
        owners = (self._owner[first] for first, dtype in dtypes.items() if dtype == mxfp4.DTYPE)
        return [self._name_of[own] for own in owners if own in self._name_of]

    def weights(self) -> Iterator[tuple[str, Any]]:
        """Yields each parameter and stored buffer once, with its first name, in the order of the model: a tensor, or
        mxfp4.Experts for MXFP4. One at a time is in memory, except those that are made of the same tensors."""
        ahead: dict[str, torch.Tensor] = {}
        source = self._sources()
        for name, own in self._owner.items():
            if name != own or name not in self._name_of:
                continue
            if name not in ahead:
                first = source[name]
                made = self._convert(first, self._groups[first], self._folder.load)
                ahead |= {self._owner[k]: v for k, v in made.items()}
            yield self._name_of[name], ahead.pop(name)

    def _sources(self) -> dict[str, str]:
        """Returns the group that makes each parameter, by the parameter's first name."""
        found = {}
        for first, tensors in self._groups.items():
            if not self._is_copy(first):
                found |= {self._owner[k]: first for k in self._convert(first, tensors, self._folder.meta)}
        return found


def _owners(state: dict[str, Any]) -> dict[str, str]:
    """Returns the first name of each parameter by all of its names."""
    seen: dict[int, str] = {}
    return {name: seen.setdefault(id(p), name) for name, p in state.items()}
