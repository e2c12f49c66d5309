"""Options that select a language model's tokens and end its answers, as in clave_llm.h."""

from __future__ import annotations

import ctypes as C
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from clave import _library as L
from clave.arguments import flag, integer, number, refuse_unknown
from clave.errors import Error, Raised

Change = Callable[[np.ndarray, list[int]], "np.ndarray | None"]


# The values of `sampling`: the likeliest token, the settings of the model's authors, and the settings of chats.
_WAYS = ("greedy", "model", "chat")
# Our options by their names in other libraries and programs.
ELSEWHERE = {
    **dict.fromkeys(
        ("max_tokens", "max_length", "max_completion_tokens", "n_predict", "num_predict"), "max_new_tokens"
    ),
    **dict.fromkeys(("num_ctx", "n_ctx", "context_length", "max_seq_len", "max_model_len", "ctx_size"), "max_context"),
    **dict.fromkeys(("repeat_penalty", "rep_penalty", "repetition"), "repetition_penalty"),
    **dict.fromkeys(("repeat_last_n", "last_n_tokens_size"), "penalty_window"),
    **dict.fromkeys(("stop_sequences", "stop_strings", "stop_words", "stop_texts", "stops"), "stop"),
    **dict.fromkeys(("temp", "temperatures"), "temperature"),
    **dict.fromkeys(("ignore_eos", "ignore_stop"), "ignore_stop_ids"),
    **dict.fromkeys(("n_batch", "batch_size", "num_batch"), "prefill_chunk"),
    **dict.fromkeys(("logits_processor", "logit_processor", "logits_processors"), "logits"),
    **dict.fromkeys(("top_logprobs", "n_probs"), "logprobs"),
    **dict.fromkeys(("random_seed", "sampling_seed"), "seed"),
    **dict.fromkeys(("do_sample", "sampler"), "sampling"),
    "streaming": "stream",
    "functions": "tools",
    "chat_template_kwargs": "template_arguments",
}
# Arguments of the methods that accept these options, which a misspelt option may mean.
_ARGUMENTS = ("sampling", "stream", "max_new_tokens", "logprobs", "tools", "documents", "template_arguments")
_INTEGERS = {"top_k": 32, "penalty_window": 32, "prefill_chunk": 32, "seed": 64}  # bits
_LARGEST = float(np.finfo(np.float32).max)
_NUMBERS = {
    "temperature": (0, _LARGEST),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repetition_penalty": (0, _LARGEST),
    "presence_penalty": (-_LARGEST, _LARGEST),
    "frequency_penalty": (-_LARGEST, _LARGEST),
}


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Options of LLM.generate, LLM.chat and LLM.conversation, by name. These methods have another option, `sampling`,
    which selects the defaults of the others:

    - "greedy": the likeliest token;
    - "model": the settings of the model's authors (LLM.sampling);
    - "chat": the settings of chats (LLM.chat_sampling).

    The default is "chat" in LLM.chat, LLM.chat_each and Conversation.send, otherwise "greedy".

    temperature: divisor of the logits, at least 0; 0 selects the largest logit. top_k: keeps the k largest logits.
    top_p: then keeps the fewest tokens with this total probability, 0 to 1. min_p: then keeps tokens that are at least
    this times as likely as the likeliest, 0 to 1. 0 disables each of the three. repetition_penalty (at least 0),
    presence_penalty, frequency_penalty: apply to tokens among the last penalty_window ids (0: all). logit_bias: numbers
    added to logits by id (-inf: never). seed: random seed, an integer of 64 bits; equal seeds produce equal tokens.

    stop: a text, or several, that end an answer and are not part of it. ignore_stop_ids: the model's stop tokens do not
    end an answer. prefill_chunk: tokens of a prompt that run at once; 0: 512.

    logits: a function that is called before each choice with a copy of the logits, float32 (n_vocab,), and all ids so
    far. It changes the array (-inf: not that token) or returns another. An exception ends the answer and is raised.

    Raises Error with the name of an option whose value is invalid. An integer is an int, or a float without a fraction.
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

    def __post_init__(self) -> None:
        set_field = functools.partial(object.__setattr__, self)
        for name, bits in _INTEGERS.items():
            set_field(name, integer(name, getattr(self, name), 0, 2**bits - 1))
        for name, (low, high) in _NUMBERS.items():
            set_field(name, number(name, getattr(self, name), low, high))
        set_field("ignore_stop_ids", flag("ignore_stop_ids", self.ignore_stop_ids))
        set_field("logit_bias", _biases(self.logit_bias))
        set_field("stop", _stops(self.stop))
        if self.logits is not None and not callable(self.logits):
            raise Error(f"logits: expected a function of logits and ids, or None, got {self.logits!r}"[:200])

    @classmethod
    def of(
        cls,
        options: Mapping[str, Any],
        model: Sampling | None = None,
        chat: Sampling | None = None,
        default: str = "greedy",
    ) -> Sampling:
        """Returns the options. Raises UnknownOption with the nearest name for an unknown option. model, chat: the
        settings of the model's authors and of chats. default: value of `sampling` if it is not set."""
        for name in options:
            if name not in ("sampling", *_FIELDS):
                raise refuse_unknown(name, (*_ARGUMENTS, *_FIELDS), ELSEWHERE)
        given = dict(options)
        how = given.pop("sampling", None)
        how = default if how is None else how
        if not isinstance(how, str) or how not in _WAYS:
            raise Error(f"sampling: expected {', '.join(_WAYS)}, got {how!r}")
        if how == "model" and model is None:
            raise Error("the program does not say how to sample: set temperature or another option instead")
        base = {"greedy": None, "model": model, "chat": chat}[how]
        return dataclasses.replace(base, **given) if base else cls(**given)

    @classmethod
    def of_native(cls, s: L.SamplerOptions) -> Sampling:
        """Converts the library's structure: temperature, top_k, top_p, min_p and repetition_penalty. A number has its
        shortest digits: 0.8, not 0.800000011920929, the value of the nearest float."""
        names = ("temperature", "top_p", "min_p", "repetition_penalty")
        return cls(top_k=s.top_k, **{n: float(str(np.float32(getattr(s, n)))) for n in names})


_FIELDS = tuple(f.name for f in dataclasses.fields(Sampling))


class NativeOptions:
    """clave_llm_conversation_options, and the memory to which it points. raised: holds the logits function's exception.

    fixed_options: the options that a conversation cannot change. An idle conversation can be reused for equal ones.
    None if there is a logits function.
    """

    def __init__(self, s: Sampling) -> None:
        self.raised = Raised()
        self._bias = (L.LogitBias * len(s.logit_bias))(*(L.LogitBias(i, b) for i, b in s.logit_bias.items()))
        how = {n: getattr(s, n) for n in (*_NUMBERS, "penalty_window", "top_k", "seed")}
        self.sampler = L.SamplerOptions(bias=self._bias, n_bias=len(self._bias), **how)
        stops = [t.encode("utf-8", "surrogatepass") for t in s.stop]
        self.fixed_options = None if s.logits else (tuple(stops), s.ignore_stop_ids, s.prefill_chunk)
        self._stops = (C.c_char_p * len(stops))(*stops)
        self._change = L.LOGITS_FN(_changer(s.logits, self.raised)) if s.logits else L.LOGITS_FN()
        self.struct = L.ConversationOptions(
            sampler=C.pointer(self.sampler),
            stop=self._stops,
            n_stop=len(stops),
            ignore_stop_ids=s.ignore_stop_ids,
            prefill_chunk=s.prefill_chunk,
            change_logits=self._change,
        )


def _changer(change: Change, raised: Raised) -> Callable[..., bool]:
    def called(ctx: Any, logits: Any, count: int, ids: Any, n_ids: int) -> bool:
        try:
            array = np.ctypeslib.as_array(logits, (count,))
            changed = change(array, ids[:n_ids])
            if changed is not None and changed is not array:
                array[:] = changed
        except BaseException as e:
            raised.error = e
        return raised.error is None

    return called


def _biases(by_id: Any) -> dict[int, float]:
    if not isinstance(by_id, Mapping):
        raise Error(f"logit_bias: expected numbers by id, got {by_id!r}"[:200])
    return {integer("an id of logit_bias", i, 0, 2**32 - 1): _bias(b) for i, b in by_id.items()}


def _bias(bias: Any) -> float:
    """Returns a finite bias, or -inf, with which a token is never chosen."""
    return -math.inf if bias == -math.inf else number("logit_bias", bias, -_LARGEST, _LARGEST)


def _stops(stop: Any) -> tuple[str, ...]:
    texts = (stop,) if isinstance(stop, str) else stop
    if not isinstance(texts, Iterable) or isinstance(texts, Mapping | bytes):
        raise Error(f"stop: expected a text, or a list of texts, got {stop!r}"[:200])
    found = tuple(texts)
    for text in found:
        if not isinstance(text, str):
            raise Error(f"stop: expected a text, or a list of texts, got {text!r} among them"[:200])
        if "\0" in text:
            raise Error(f"stop text {text!r} holds a NUL")
    return found
