"""Language models: text in, text out."""

from __future__ import annotations

import ctypes as C
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, overload

from clave import _library as L
from clave.arguments import flag, integer, refuse_unknown
from clave.arguments import path as path_of
from clave.conversation import Answer, Conversation, Message, Prompt, Stream, answer_each, check_limits, template_inputs
from clave.errors import Error
from clave.sampling import ELSEWHERE, NativeOptions, Sampling
from clave.session import Device, open_device
from clave.tokenizer import Tokenizer

DEFAULT_NEW_TOKENS = 256
_log = logging.getLogger("clave")


class LLM(L.Uncopied):
    """A program that docs/reference/language_models.md calls a language model, with its tokenizer, on a device.

    path: of a .clv, or a .json with its constants. device: a Device, or the spec of one ("cpu", "opencl", ...).
    tokenizer: a file or Hugging Face folder instead of the one that the .clv carries. chat_template: instead of the
    model's, a built-in's name, a Jinja text, or a file. max_context: tokens of prompts and answers together, at most
    as many as the program was made for. For any number of threads; each has conversations of its own.

        llm = clave.LLM("model.clv")
        for piece in llm.generate("Once upon a time", stream=True, temperature=0.8):
            print(piece, end="")
        with clave.LLM("model.clv") as other:
            print(other.chat("Who is there?"))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        device: Device | str | None = None,
        *,
        tokenizer: str | os.PathLike[str] | None = None,
        chat_template: str | os.PathLike[str] | None = None,
        max_context: int | None = None,
        **unknown: Any,
    ) -> None:
        for name in unknown:
            raise refuse_unknown(name, ("device", "tokenizer", "chat_template", "max_context"), ELSEWHERE)
        if max_context is not None:
            max_context = integer("max_context", max_context, 1, 2**32 - 1, ", or None")
        file = path_of("path", path)
        options = L.LLMOptions(
            tokenizer=None if tokenizer is None else path_of("tokenizer", tokenizer),
            chat_template=None if chat_template is None else path_of("chat_template", chat_template),
            max_context=max_context or 0,
        )
        self.device = open_device(device)
        made = ("clave_llm_load", "clave_llm_destroy", file, self.device.handle.pointer, C.byref(options))
        self._handle, self._path = L.Handle(*made, keep=(self.device,)), os.fsdecode(file)
        info = L.LLMInfo()
        L.call("clave_llm_get_info", self._handle.pointer, C.byref(info))
        self.max_context: int = info.max_context
        """Tokens; prompts and what is generated share it."""
        self.n_vocab: int = info.n_vocab
        """Logits of a token."""
        self.bos: int | None = info.bos if info.bos >= 0 else None
        """What a prompt begins with."""
        self.stop_ids: list[int] = info.stop_ids[: info.n_stop_ids]
        """Ids that end an answer."""
        self.chat_template: str | None = info.chat_template.decode() if info.chat_template else None
        """The name of a built-in template, or a Jinja text; None: not a chat model."""
        self.sampling: Sampling | None = Sampling.of_native(info.sampling.contents) if info.sampling else None
        """How its authors sample, which sampling="model" asks for; None: the program does not say."""
        self.chat_sampling: Sampling = Sampling.of_native(info.chat_sampling.contents)
        """How chats sample by default: as the model's authors do; if the program does not say, at temperature 0.8 with
        min_p 0.05."""
        self.page_rows: int = info.page_rows
        """Tokens of a page of the memory that conversations share; 0: each has its own."""
        self._noted = set[str]()
        self._lock, self._idle = threading.Lock(), dict[Any, tuple[L.Handle, NativeOptions]]()
        self.tokenizer: Tokenizer | None = Tokenizer.borrowed(info.tokenizer, self._handle) if info.tokenizer else None
        """None: a model of ids only."""

    def close(self) -> None:
        """Frees the model; a second call does nothing. Conversations that are still there keep its weights until they
        are closed or go. Whatever else uses it or its tokenizer afterwards is an Error."""
        with self._lock:
            self._idle.clear()
        self._handle.close()

    def __repr__(self) -> str:
        return f"<clave.LLM {self._path}, context {self.max_context}, {self.n_vocab} tokens; {self.device!r}>"

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def conversation(self, **options: Any) -> Conversation:
        """A text that is made in steps. options: those of clave.Sampling."""
        return self._conversation(NativeOptions(self._sampling(options, "greedy")), options)

    def _sampling(self, options: Mapping[str, Any], default: str) -> Sampling:
        return Sampling.of(options, self.sampling, self.chat_sampling, default)

    def _conversation(self, native: NativeOptions, given: Mapping[str, Any]) -> Conversation:
        made = ("clave_llm_conversation_create", "clave_llm_conversation_destroy", self._handle.pointer)
        handle = L.Handle(*made, C.byref(native.struct), keep=(self._handle, native))
        return Conversation(self, native, handle, given)

    def _take(self, native: NativeOptions, given: Mapping[str, Any]) -> Conversation:
        """One for an answer: with the state of the last that gave one, if it may be used again."""
        with self._lock:
            handle, options = self._idle.pop(native.lasting, (None, native))
            self._idle.clear()  # one at most keeps its memory
        if handle is None:
            return self._conversation(native, given)
        L.call("clave_llm_reset", handle.pointer)
        L.call("clave_llm_set_sampler", handle.pointer, C.byref(native.sampler))
        return Conversation(self, options, handle, given)

    def _answer(
        self,
        prompt: Prompt,
        options: dict[str, Any],
        limits: tuple[Any, Any],
        template: dict[str, Any] | None = None,
    ) -> Stream:
        """template: what the chat template sees beside messages; None: the prompt is no chat."""
        native = NativeOptions(self._sampling(options, "greedy" if template is None else "chat"))
        check_limits(*limits)

        def give_back(talk: Conversation) -> None:
            with self._lock:
                if native.lasting is not None and not self._idle and not self._handle.is_closed:
                    self._idle[native.lasting] = talk._handle, talk._options

        return Stream(self._take(native, options).prompt(prompt, **(template or {})), *limits, give_back)

    @overload
    def generate(
        self,
        prompt: Prompt,
        *,
        stream: Literal[False] = False,
        max_new_tokens: int | None = DEFAULT_NEW_TOKENS,
        logprobs: int | None = None,
        **options: Any,
    ) -> Answer: ...
    @overload
    def generate(
        self,
        prompt: Prompt,
        *,
        stream: Literal[True],
        max_new_tokens: int | None = DEFAULT_NEW_TOKENS,
        logprobs: int | None = None,
        **options: Any,
    ) -> Stream: ...
    def generate(
        self,
        prompt: Prompt,
        *,
        stream: bool = False,
        max_new_tokens: int | None = DEFAULT_NEW_TOKENS,
        logprobs: int | None = None,
        **options: Any,
    ) -> Answer | Stream:
        """What the model writes behind a text, ids, or messages ({"role": ..., "content": ...}).

        An Answer, a str that has ids, stop_reason and logprobs, too; stream: an iterator over pieces of text.
        max_new_tokens: None for no limit but the context. logprobs: of each token, and of so many likeliest ones.
        options: those of clave.Sampling.
        """
        stream = flag("stream", stream)
        made = self._answer(prompt, options, (max_new_tokens, logprobs))
        return made if stream else made.answer()

    def generate_each(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int | None = DEFAULT_NEW_TOKENS,
        logprobs: int | None = None,
        **options: Any,
    ) -> list[Answer]:
        """What the model writes behind each of several prompts, as generate has it, all with the same options: where
        their state may lie in pages (docs/howto/kv_cache.md), the model runs over all of them at once."""
        native = NativeOptions(self._sampling(options, "greedy"))
        check_limits(max_new_tokens, logprobs)
        talks = [self._conversation(native, options).prompt(prompt) for prompt in _listed(prompts)]
        return answer_each([Stream(talk, max_new_tokens, logprobs) for talk in talks])

    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        stream: bool = False,
        max_new_tokens: int | None = None,
        logprobs: int | None = None,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        template_arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Answer | Stream:
        """The answer to messages, or to a text of the user's: as generate, up to the model's own end, sampled as
        chat_sampling says where the options do not.

        tools, documents, template_arguments: what the chat template sees beside the messages. A template that ignores
        tools or documents is a warning of the logger "clave".
        """
        template = {"tools": tools, "documents": documents, **(template_arguments or {})}
        made = self._answer(_messages(messages), options, (max_new_tokens, logprobs), template)
        return made if stream else made.answer()

    def chat_each(
        self,
        chats: Sequence[str | Sequence[Message]],
        *,
        max_new_tokens: int | None = None,
        logprobs: int | None = None,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        template_arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> list[Answer]:
        """The answer to each of several chats, as `chat` has it, made together as generate_each makes them."""
        native = NativeOptions(self._sampling(options, "chat"))
        check_limits(max_new_tokens, logprobs)
        template = {"tools": tools, "documents": documents, **(template_arguments or {})}
        talks = [self._conversation(native, options).prompt(_messages(c), **template) for c in _listed(chats)]
        return answer_each([Stream(talk, max_new_tokens, logprobs) for talk in talks])

    @overload
    def apply_chat_template(
        self,
        messages: Sequence[Message],
        *,
        tokenize: Literal[False] = False,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        add_generation_prompt: bool = True,
        **arguments: Any,
    ) -> str: ...
    @overload
    def apply_chat_template(
        self,
        messages: Sequence[Message],
        *,
        tokenize: Literal[True],
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        add_generation_prompt: bool = True,
        **arguments: Any,
    ) -> list[int]: ...
    def apply_chat_template(
        self,
        messages: Sequence[Message],
        *,
        tokenize: bool = False,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        add_generation_prompt: bool = True,
        **arguments: Any,
    ) -> str | list[int]:
        """Messages as the model's chat template writes them, up to where the assistant answers; tokenize: their ids,
        in which texts of messages are no special tokens. arguments: what else the template asks for.

        Error: what the template raises, or what of it cannot be read, with line and column.
        """
        self._note_ignored(tools, documents)
        inputs = template_inputs(messages, tools, documents, add_generation_prompt, arguments)
        if tokenize:
            ids = L.Ids()
            L.call("clave_llm_render_ids", self._handle.pointer, C.byref(inputs), C.byref(ids))
            found = ids.items[: ids.count]
            L.library().clave_ids_free(C.byref(ids))
            return found
        return self._render(inputs)

    def _render(self, inputs: L.TemplateInputs) -> str:
        text, size = C.c_void_p(), C.c_size_t()
        L.call("clave_llm_render", self._handle.pointer, C.byref(inputs), C.byref(text), C.byref(size))
        rendered = C.string_at(text, size.value).decode()
        L.library().clave_text_free(text)
        return rendered

    def _note_ignored(self, tools: Any, documents: Any) -> None:
        """A warning, once, where the chat template writes the same with what it is given as without."""
        given = {"tools": tools, "documents": documents}
        new = {name: value for name, value in given.items() if value and name not in self._noted}
        if not new:
            return
        self._noted.update(new)
        inputs = template_inputs([], new.get("tools"), new.get("documents"), True, {})
        ignored = {name: C.c_bool() for name in given}
        try:
            L.call("clave_llm_template_ignores", self._handle.pointer, C.byref(inputs), *map(C.byref, ignored.values()))
        except Error:
            return  # it wants other messages, or the call that follows says what is wrong
        for name, is_ignored in ignored.items():
            if is_ignored:
                _log.warning("the chat template ignores %s: the model does not see them", name)


def _messages(messages: str | Sequence[Message]) -> Any:
    """A text is the user's message."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return messages if isinstance(messages, Mapping) or not isinstance(messages, Iterable) else list(messages)


def _listed(prompts: Any) -> list[Any]:
    """Several prompts; a text is one, and would be taken letter by letter."""
    if isinstance(prompts, str | bytes | Mapping) or not isinstance(prompts, Iterable):
        raise Error(f"prompts: expected a list of prompts, got {prompts!r}"[:200])
    return list(prompts)
