"""Conversations with language models: prompts, streamed answers, rewinding and forking."""

from __future__ import annotations

import ctypes as C
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from clave import _library as L
from clave.arguments import ids, integer, refuse_unknown, refused
from clave.errors import Error
from clave.sampling import ELSEWHERE, NativeOptions, Sampling

if TYPE_CHECKING:
    from clave.language_model import LLM

Message = Mapping[str, Any]
Prompt = str | Sequence[int] | Sequence[Message]
_MAX_COUNT = 2**31 - 1


@dataclass(frozen=True)
class Token:
    """A token of an answer. logprob: natural logarithm of its probability by the model's unchanged logits. top: the
    likeliest ids and their logprobs, in descending order."""

    id: int
    logprob: float
    top: list[tuple[int, float]]


class Answer(str):
    """The text that a model wrote, and how it was generated.

    ids: the ids of its tokens, including the one that ended it. stop_reason: "stop_id" (the model's own end),
    "stop_text", "context_full" or "max_new_tokens". logprobs: a Token for each id if logprobs were requested, else [].
    """

    ids: list[int]
    stop_reason: str
    logprobs: list[Token]

    def __new__(cls, text: str, ids: list[int], stop_reason: str, logprobs: list[Token]) -> Answer:
        self = super().__new__(cls, text)
        self.ids, self.stop_reason, self.logprobs = ids, stop_reason, logprobs
        return self


def check_limits(max_new_tokens: Any, logprobs: Any) -> tuple[int | None, int | None]:
    """Returns both as integers or None. Raises Error with the name of the one that is not a number of tokens."""
    if max_new_tokens is not None:
        max_new_tokens = integer("max_new_tokens", max_new_tokens, 1, _MAX_COUNT, ", or None for no limit")
    if logprobs is not None:
        logprobs = integer("logprobs", logprobs, 0, _MAX_COUNT, ", or None")
    return max_new_tokens, logprobs


class Stream(Iterator[str]):
    """An answer during its generation: an iterator over pieces of its text. A piece has whole characters and is not
    empty.

    ids and logprobs grow with each token. stop_reason is None until the end.
    """

    def __init__(
        self,
        conversation: Conversation,
        max_new_tokens: int | None,
        logprobs: int | None,
        done: Callable[[Conversation], None] | None = None,
    ) -> None:
        self.ids: list[int] = []
        self.logprobs: list[Token] = []
        self.stop_reason: str | None = None
        self._left, self._n_top = check_limits(max_new_tokens, logprobs)
        self._conversation = conversation
        self._done = done
        self._ended = False

    def __next__(self) -> str:
        token = L.LLMToken()
        while self.stop_reason is None and not self._ended:
            try:
                self._conversation._next(token)
                text = self._take(token)
            except BaseException:
                self._ended = True
                raise
            if text:
                return text
        self._finish()
        raise StopIteration

    def _finish(self) -> None:
        done, self._done = self._done, None
        if done and not self._ended:
            done(self._conversation)
        self._ended = True

    def _take(self, token: L.LLMToken) -> str:
        """Records the conversation's next token and returns its text."""
        self.ids.append(token.id)
        if self._n_top is not None:
            self.logprobs.append(self._conversation._token(self._n_top))
        text = _text(token.text, token.text_size)
        if token.stop:
            self.stop_reason = L.library().clave_llm_stop_name(token.stop).decode()
        elif len(self.ids) == self._left:
            self.stop_reason = "max_new_tokens"
            text += self._conversation._flush()
        return text

    def answer(self) -> Answer:
        """Generates the rest. Returns an Answer with the text of the rest and the ids of the whole answer."""
        return self._answer("".join(self))

    def _answer(self, text: str) -> Answer:
        assert self.stop_reason is not None
        return Answer(text, self.ids, self.stop_reason, self.logprobs)


def answer_each(streams: Sequence[Stream]) -> list[Answer]:
    """Returns the answers of unread streams of one model, which runs one token of each stream at a time."""
    texts, left = [""] * len(streams), list(range(len(streams)))
    while left:
        handles = (C.c_void_p * len(left))(*(streams[i]._conversation._handle.pointer.value for i in left))
        tokens, done = (L.LLMToken * len(left))(), C.c_size_t()
        try:
            L.call("clave_llm_next_each", handles, len(left), tokens, C.byref(done))
        except Error:
            streams[left[done.value]]._conversation._raise_own()
            raise
        for i, token in zip(left, tokens, strict=True):
            texts[i] += streams[i]._take(token)
        left = [i for i in left if streams[i].stop_reason is None]
    return [stream._answer(text) for stream, text in zip(streams, texts, strict=True)]


class Conversation(L.Uncopied):
    """A text that grows: its ids so far and the model's state after them. LLM.conversation creates one.

    One thread at a time may use a conversation. The conversations of a model share its weights. A method that fails
    raises Error with one line and leaves the conversation unchanged.
    """

    def __init__(self, llm: LLM, options: NativeOptions, handle: L.Handle, given: Mapping[str, Any]) -> None:
        """given: the sampling options that the caller set. `send` takes the others from the model's chat defaults."""
        self.llm = llm
        self._options, self._handle, self._given = options, handle, given
        self._chats = False

    @property
    def ids(self) -> list[int]:
        """All ids so far, of prompts and answers."""
        count = C.c_size_t()
        items = L.library().clave_llm_ids(self._handle.pointer, C.byref(count))
        return items[: count.value]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the chat so far, including the last answer. [] if the prompt was not a chat."""
        text = C.c_void_p()
        L.call("clave_llm_messages", self._handle.pointer, C.byref(text))
        found = C.string_at(text)
        L.library().clave_text_free(text)
        messages: list[dict[str, Any]] = json.loads(found)
        return messages

    @property
    def stats(self) -> dict[str, float]:
        """The fields of clave_llm_stats: tokens and milliseconds since the conversation was created or reset."""
        found = L.LLMStats()
        L.library().clave_llm_get_stats(self._handle.pointer, C.byref(found))
        return {name: getattr(found, name) for name, _ in L.LLMStats._fields_}

    @property
    def answered_by(self) -> str | None:
        """The kind of the device that computed the last token, or None if there is no token."""
        found = L.library().clave_llm_answered_by(self._handle.pointer)
        return found.decode() if found else None

    def prompt(
        self,
        prompt: Prompt,
        /,
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        **arguments: Any,
    ) -> Conversation:
        """Appends a text, ids, or messages in the model's chat template. Returns the conversation.

        A text is encoded without changes; the first one follows the model's BOS. Messages are dicts with "role" and
        "content". tools, documents and arguments are further inputs of the chat template. Raises Error if the prompt
        is none of these or does not fit in the context.
        """
        if isinstance(prompt, str):
            data = prompt.encode("utf-8", "replace")
            L.call("clave_llm_prompt_text", self._handle.pointer, data, len(data))
        elif isinstance(prompt, bytes | bytearray | memoryview) or not hasattr(prompt, "__len__"):
            raise refused("prompt", "a text, ids or messages", prompt)
        elif isinstance(prompt, Mapping) or (len(prompt) and isinstance(prompt[0], Mapping)):
            self.llm._note_ignored(tools, documents)
            inputs = template_inputs(prompt, tools, documents, True, arguments)
            L.call("clave_llm_prompt_messages", self._handle.pointer, C.byref(inputs))
        else:
            self._prompt_ids(prompt)
        return self

    def _prompt_ids(self, prompt: Any) -> None:
        found = ids("the prompt", prompt)
        if not found:
            raise Error("the prompt is empty")
        L.call("clave_llm_prompt", self._handle.pointer, (C.c_uint32 * len(found))(*found), len(found))

    @overload
    def generate(
        self, *, stream: Literal[False] = False, max_new_tokens: int | None = None, logprobs: int | None = None
    ) -> Answer: ...
    @overload
    def generate(
        self, *, stream: Literal[True], max_new_tokens: int | None = None, logprobs: int | None = None
    ) -> Stream: ...
    def generate(
        self,
        *,
        stream: bool = False,
        max_new_tokens: int | None = None,
        logprobs: int | None = None,
        **unknown: Any,
    ) -> Answer | Stream:
        """Continues the text up to the model's own end, the end of the context or max_new_tokens.

        stream: returns an iterator, which computes a token when the next one is requested. logprobs: records the
        logprob of each token and of this many likeliest ones. Raises UnknownOption for other options; the options of
        sampling belong to LLM.conversation.
        """
        for name in unknown:
            raise refuse_unknown(name, ("stream", "max_new_tokens", "logprobs"), ELSEWHERE)
        made = Stream(self, max_new_tokens, logprobs)
        return made if stream else made.answer()

    def send(
        self,
        message: str | Message | Sequence[Message],
        *,
        stream: bool = False,
        max_new_tokens: int | None = None,
        logprobs: int | None = None,
        **template: Any,
    ) -> Answer | Stream:
        """Adds one or more messages to the chat and returns the model's answer, like `prompt` and `generate`. A text is
        a message of the user.

        From the first message on, options of sampling that the caller did not set have the model's defaults for chats.
        template: further inputs of the chat template, such as tools and documents.
        """
        for name in template:
            if ELSEWHERE.get(name) in ("max_new_tokens", "logprobs", "max_context"):
                raise refuse_unknown(name, ("stream", "max_new_tokens", "logprobs"), ELSEWHERE)
        check_limits(max_new_tokens, logprobs)
        self._sample_as_chats_do()
        if isinstance(message, str):
            message = [{"role": "user", "content": message}]
        self.prompt([message] if isinstance(message, Mapping) else list(message), **template)
        made = Stream(self, max_new_tokens, logprobs)
        return made if stream else made.answer()

    def rewind(self, count: int) -> Conversation:
        """Goes back to the first `count` ids, without running them again. Returns the conversation. Random numbers that
        were drawn stay drawn. Raises Error, with nothing changed, if a state tensor cannot go back: it is recurrent, or
        a sliding window has overwritten its older rows."""
        L.call("clave_llm_rewind", self._handle.pointer, integer("count", count, 0, _MAX_COUNT))
        return self

    def undo(self, *, question: bool = True) -> Conversation:
        """Removes the last turn of the chat, or only its answer if `question` is False. Returns the conversation. If
        the state cannot go back, the next token runs the remaining ids again. Raises Error if there is no turn."""
        L.call("clave_llm_undo", self._handle.pointer, question)
        return self

    def reset(self) -> Conversation:
        """Resets the conversation to its state after creation, and returns it."""
        L.call("clave_llm_reset", self._handle.pointer)
        return self

    def fork(self) -> Conversation:
        """Returns another conversation that continues from the same state."""
        handle = L.Handle(
            "clave_llm_fork", "clave_llm_conversation_destroy", self._handle.pointer, keep=(self._handle, self._options)
        )
        made = Conversation(self.llm, self._options, handle, self._given)
        made._chats = self._chats
        return made

    def close(self) -> None:
        """Frees the conversation's memory now. The conversation cannot be used afterwards."""
        self._handle.close()

    def __repr__(self) -> str:
        return f"<clave.Conversation of {self.llm!r}>"

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes ids, state and messages to a file. A failure leaves no partial file."""
        L.call("clave_llm_save", self._handle.pointer, os.fsencode(path))

    def load(self, path: str | os.PathLike[str]) -> Conversation:
        """Restores a conversation that was saved with the same program, and returns it. Raises Error for a file of
        another program and for a damaged one."""
        L.call("clave_llm_restore", self._handle.pointer, os.fsencode(path))
        return self

    def _sample_as_chats_do(self) -> None:
        """Sets the chat defaults of the sampling options at the first message."""
        if self._chats:
            return
        how = Sampling.of(self._given, self.llm.sampling, self.llm.chat_sampling, "chat")
        sampler = NativeOptions(how).sampler
        L.call("clave_llm_set_sampler", self._handle.pointer, C.byref(sampler))
        self._chats = True

    def _next(self, token: L.LLMToken) -> None:
        try:
            L.call("clave_llm_next", self._handle.pointer, C.byref(token))
        except Error:
            self._raise_own()
            raise

    def _raise_own(self) -> None:
        """Raises the exception that the caller's logits function raised, if it raised one."""
        raised = self._options.raised.take()
        try:
            if raised is not None:
                raise raised from None
        finally:
            del raised  # its traceback has this frame

    def _token(self, n_top: int) -> Token:
        chosen, top = L.Logprob(), (L.Logprob * n_top)()
        L.call("clave_llm_logprobs", self._handle.pointer, C.byref(chosen), top, n_top)
        return Token(chosen.id, chosen.logprob, [(t.id, t.logprob) for t in top])

    def _flush(self) -> str:
        text, size = C.c_void_p(), C.c_size_t()
        L.call("clave_llm_flush", self._handle.pointer, C.byref(text), C.byref(size))
        return _text(text, size.value)


def _text(address: Any, size: int) -> str:
    return C.string_at(address, size).decode() if size else ""


def template_inputs(
    messages: Any, tools: Any, documents: Any, add_generation_prompt: bool, arguments: Mapping[str, Any]
) -> L.TemplateInputs:
    """Returns the inputs of a chat template as JSON. Raises Error if messages is not a list of dicts, or for values
    that JSON cannot hold."""
    found = messages if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable) else list(messages)
    if not isinstance(found, list) or not all(isinstance(m, Mapping) for m in found):
        raise Error(f'messages: expected a list of dicts with "role" and "content", got {str(found)[:80]!r}')
    try:
        given = {"messages": found, "tools": tools, "documents": documents, "arguments": arguments or None}
        texts = {name: None if v is None else json.dumps(v).encode() for name, v in given.items()}
    except (TypeError, ValueError) as e:
        raise Error(f"messages, tools, documents and arguments of a chat must be JSON: {e}") from e
    return L.TemplateInputs(add_generation_prompt=add_generation_prompt, **texts)
