"""How a language model's tokens are chosen, and what ends an answer: the options of clave_llm.h's conversations."""

from __future__ import annotations

import ctypes as C
import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from clave import _library as L
from clave.errors import Error

Change = Callable[[np.ndarray, list[int]], "np.ndarray | None"]


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Options of LLM.generate, LLM.chat and LLM.conversation, by name; without any the likeliest token is taken.
    Those methods also take sampling="model": as the model's authors sample (LLM.sampling), but for what else is given.

    temperature: divides the logits; 0: the largest. top_k: only the k largest; top_p: then the fewest with that
    probability together; min_p: then those at least this times as likely as the likeliest; 0: all. repetition_penalty,
    presence_penalty, frequency_penalty: of tokens among the last penalty_window (0: all). logit_bias: added, by id
    (-inf: never). seed: equal ones give equal tokens.

    stop: texts that end an answer and are no part of it. ignore_stop_ids: the model's own end is none.
    prefill_chunk: tokens of a prompt that run at once; 0: 512.

    logits: a function of a copy of the logits, float32 (n_vocab), and of all ids so far, called before each choice;
    it changes the array (-inf: not that token) or returns another; what it raises ends the answer and is raised.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 0.0
    min_p: float = 0.0
    repetition_penalty: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window: int = 0
    logit_bias: Mapping[int, float] = dataclasses.field(default_factory=dict)
    seed: int = 0
    stop: str | Sequence[str] = ()
    ignore_stop_ids: bool = False
    prefill_chunk: int = 0
    logits: Change | None = None

    @classmethod
    def of(cls, options: dict[str, Any], model: Sampling | None = None) -> Sampling:
        """TypeError names an option that there is not, and the nearest. model: how its authors sample."""
        names = ["sampling", *(f.name for f in dataclasses.fields(cls))]
        for name in options:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                raise TypeError(f"no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        given = dict(options)
        how = given.pop("sampling", "greedy")
        if how not in ("greedy", "model"):
            raise Error(f"sampling={how!r}, expected greedy or model")
        if how == "model" and model is None:
            raise Error("the program does not say how to sample; temperature and the other options do")
        return dataclasses.replace(model, **given) if how == "model" and model else cls(**given)

    @classmethod
    def of_native(cls, s: L.SamplerOptions) -> Sampling:
        """Of the library's own structure: temperature, top_k, top_p, min_p and repetition_penalty."""
        names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
        return cls(**{n: getattr(s, n) for n in names})


_SIZES = {"top_k": 32, "penalty_window": 32, "prefill_chunk": 32, "seed": 64}  # bits


class NativeOptions:
    """clave_llm_conversation_options, and what it points to. raised: what the function of logits raised.

    lasting: what of them a conversation cannot change; equal ones may take turns in one. None: it has a function.
    """

    def __init__(self, s: Sampling) -> None:
        for name, bits in _SIZES.items():
            if not 0 <= getattr(s, name) < 2**bits:
                raise Error(f"{name} is {getattr(s, name)}, not in [0, 2**{bits})")
        self.raised: BaseException | None = None
        self._bias = (L.LogitBias * len(s.logit_bias))(*_biases(s.logit_bias))
        names = ("repetition_penalty", "presence_penalty", "frequency_penalty", "penalty_window")
        how = {n: getattr(s, n) for n in (*names, "temperature", "top_k", "top_p", "min_p", "seed")}
        self.sampler = L.SamplerOptions(bias=self._bias, n_bias=len(self._bias), **how)
        stops = [s.stop] if isinstance(s.stop, str) else list(s.stop)
        self.lasting = None if s.logits else (tuple(stops), s.ignore_stop_ids, s.prefill_chunk)
        self._stops = (C.c_char_p * len(stops))(*(_stop(t) for t in stops))
        self._change = L.LOGITS_FN(self._changer(s.logits)) if s.logits else L.LOGITS_FN()
        self.struct = L.ConversationOptions(
            sampler=C.pointer(self.sampler),
            stop=self._stops,
            n_stop=len(stops),
            ignore_stop_ids=s.ignore_stop_ids,
            prefill_chunk=s.prefill_chunk,
            change_logits=self._change,
        )

    def _changer(self, change: Change) -> Callable[..., bool]:
        def called(ctx: Any, logits: Any, count: int, ids: Any, n_ids: int) -> bool:
            try:
                array = np.ctypeslib.as_array(logits, (count,))
                changed = change(array, ids[:n_ids])
                if changed is not None and changed is not array:
                    array[:] = changed
            except BaseException as e:
                self.raised = e
            return self.raised is None

        return called


def _biases(by_id: Mapping[int, float]) -> list[L.LogitBias]:
    for i in by_id:
        if not 0 <= i < 2**32:
            raise Error(f"logit_bias has id {i}, not in [0, 2**32)")
    return [L.LogitBias(i, b) for i, b in by_id.items()]


def _stop(text: str) -> bytes:
    if "\0" in text:
        raise Error(f"stop text {text!r} holds a NUL")
    return text.encode("utf-8", "surrogatepass")
