"""Language models: text in, text out."""

from __future__ import annotations

import ctypes as C
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, overload

from clave import _library as L
from clave.arguments import choice, flag, integer, refuse_unknown
from clave.arguments import path as path_of
from clave.command import CACHE_TYPES
from clave.conversation import Answer, Conversation, Message, Prompt, Stream, answer_each, check_limits, template_inputs
from clave.errors import Error
from clave.sampling import ELSEWHERE, NativeOptions, Sampling
from clave.session import Device, open_device
from clave.tokenizer import Tokenizer

DEFAULT_NEW_TOKENS = 256
_log = logging.getLogger("clave")


class LLM(L.Uncopied):
    """A language model (see docs/reference/language_models.md) with its tokenizer, on a device.

    path: a .clv file, a .json file with its constants, a .gguf file, or a folder with a language model in ONNX. device:
    a Device, or the spec of one ("cpu", "opencl", ...). tokenizer: a file or Hugging Face folder, in place of the
    tokenizer in the .clv. chat_template: the name of a built-in, a Jinja text or a file, in place of the model's.
    max_context: tokens of prompts and answers together, at most the program's own. kv: element type of the cache of a
    .gguf file, "f32", "f16" (the default), "bf16" or "int8". Several threads may use a model, each with its own
    conversations. Raises Error if the program is not a language model or an argument is invalid.

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
        kv: str | None = None,
        **unknown: Any,
    ) -> None:
        for name in unknown:
            raise refuse_unknown(name, ("device", "tokenizer", "chat_template", "max_context", "kv"), ELSEWHERE)
        if max_context is not None:
            max_context = integer("max_context", max_context, 1, 2**32 - 1, ", or None")
        file = path_of("path", path)
        options = L.LLMOptions(
            tokenizer=None if tokenizer is None else path_of("tokenizer", tokenizer),
            chat_template=None if chat_template is None else path_of("chat_template", chat_template),
            max_context=max_context or 0,
            kv=None if kv is None else choice("kv", kv, (*CACHE_TYPES, None)).encode(),
        )
        self.device = open_device(device)
        made = ("clave_llm_load", "clave_llm_destroy", file, self.device.handle.pointer, C.byref(options))
        self._handle, self._path = L.Handle(*made, keep=(self.device,)), os.fsdecode(file)
        info = L.LLMInfo()
        L.call("clave_llm_get_info", self._handle.pointer, C.byref(info))
        self.max_context: int = info.max_context
        """Capacity of the context in tokens, for prompts and answers together."""
        self.n_vocab: int = info.n_vocab
        """Number of logits of a token."""
        self.bos: int | None = info.bos if info.bos >= 0 else None
        """Id with which a prompt begins, or None."""
        self.stop_ids: list[int] = info.stop_ids[: info.n_stop_ids]
        """Ids that end an answer."""
        self.chat_template: str | None = info.chat_template.decode() if info.chat_template else None
        """The name of a built-in template, or a Jinja text; None: not a chat model."""
        self.sampling: Sampling | None = Sampling.of_native(info.sampling.contents) if info.sampling else None
        """The model authors' settings, which sampling="model" selects; None: the program has none."""
        self.chat_sampling: Sampling = Sampling.of_native(info.chat_sampling.contents)
        """The default of chats: the model authors' settings or, if the program has none, temperature 0.8 and min_p
        0.05."""
        self.page_rows: int = info.page_rows
        """Tokens per page of the memory that conversations share; 0: each conversation has its own memory."""
        self._noted = set[str]()
        self._lock, self._idle = threading.Lock(), dict[Any, tuple[L.Handle, NativeOptions]]()
        self.tokenizer: Tokenizer | None = Tokenizer.borrowed(info.tokenizer, self._handle) if info.tokenizer else None
        """The tokenizer; None: the model works on ids only."""

    def close(self) -> None:
        """Frees the model. A second call does nothing. Its weights stay until all conversations are closed or deleted.
        Any other use of the model or of its tokenizer then raises Error."""
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
        """Creates a conversation, a text that grows in steps. options: those of clave.Sampling."""
        return self._conversation(NativeOptions(self._sampling(options, "greedy")), options)

    def _sampling(self, options: Mapping[str, Any], default: str) -> Sampling:
        return Sampling.of(options, self.sampling, self.chat_sampling, default)

    def _conversation(self, native: NativeOptions, given: Mapping[str, Any]) -> Conversation:
        made = ("clave_llm_conversation_create", "clave_llm_conversation_destroy", self._handle.pointer)
        handle = L.Handle(*made, C.byref(native.struct), keep=(self._handle, native))
        return Conversation(self, native, handle, given)

    def _take(self, native: NativeOptions, given: Mapping[str, Any]) -> Conversation:
        """Returns a conversation for one answer. Reuses the state of the last conversation if the options allow it."""
        with self._lock:
            handle, options = self._idle.pop(native.fixed_options, (None, native))
            self._idle.clear()  # at most one idle conversation keeps its memory
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
        """Starts an answer. template: further inputs of the chat template; None: the prompt is not a chat."""
        native = NativeOptions(self._sampling(options, "greedy" if template is None else "chat"))
        check_limits(*limits)

        def keep_idle(talk: Conversation) -> None:
            with self._lock:
                if native.fixed_options is not None and not self._idle and not self._handle.is_closed:
                    self._idle[native.fixed_options] = talk._handle, talk._options

        return Stream(self._take(native, options).prompt(prompt, **(template or {})), *limits, keep_idle)

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
        """Continues a text, ids, or messages ({"role": ..., "content": ...}).

        Returns an Answer, which is a str with ids, stop_reason and logprobs. stream: returns an iterator over pieces of
        text. max_new_tokens: None for no limit except the context. logprobs: records the logprob of each token and of
        this many likeliest ones. options: those of clave.Sampling.
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
        """Continues each of several prompts, like `generate`, all with the same options. If the program keeps its state
        in pages (docs/howto/kv_cache.md), the model runs all of them at once."""
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
        """Answers messages, or a text of the user, like `generate`, up to the model's own end. Options of sampling that
        are not set come from chat_sampling.

        tools, documents, template_arguments: further inputs of the chat template. If the template ignores tools or
        documents, the logger "clave" warns.
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
        """Answers several chats, like `chat`; all at once, under the conditions of `generate_each`."""
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
        """Returns messages as the model's chat template writes them. add_generation_prompt: appends the beginning of
        the assistant's answer. tokenize: returns ids; special tokens in the texts of messages are encoded as plain
        text. arguments: further inputs of the template.

        Raises Error with the message that the template raises, or with line and column if it is malformed.
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
        """Warns once if the chat template ignores tools or documents."""
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
            return  # the template needs messages, or the next call reports the error
        for name, is_ignored in ignored.items():
            if is_ignored:
                _log.warning("the chat template ignores %s: the model does not see them", name)


def _messages(messages: str | Sequence[Message]) -> Any:
    """Returns a list of messages. A text is a message of the user."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return messages if isinstance(messages, Mapping) or not isinstance(messages, Iterable) else list(messages)


def _listed(prompts: Any) -> list[Any]:
    """Returns a list of prompts. Raises Error for a single text, whose letters would be read as prompts."""
    if isinstance(prompts, str | bytes | Mapping) or not isinstance(prompts, Iterable):
        raise Error(f"prompts: expected a list of prompts, got {prompts!r}"[:200])
    return list(prompts)
