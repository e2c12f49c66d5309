"""Language models: text in, text out."""

from __future__ import annotations

import ctypes as C
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from clave import _library as L
from clave.conversation import Answer, Conversation, Message, Prompt, Stream, answer_each, template_inputs
from clave.errors import Error
from clave.sampling import NativeOptions, Sampling
from clave.session import Device
from clave.tokenizer import Tokenizer

DEFAULT_NEW_TOKENS = 256


class LLM:
    """A program that docs/llm.md calls a language model, with its tokenizer, on a device.

    path: of a .clv, or a .json with its constants. device: a Device, or the spec of one ("cpu", "opencl", ...).
    tokenizer: a file or Hugging Face folder instead of the one that the .clv carries. chat_template: instead of the
    model's, a built-in's name, a Jinja text, or a file. max_context: tokens of prompts and answers together, at most
    as many as the program was made for. For any number of threads; each has conversations of its own.

        llm = clave.LLM("model.clv")
        for piece in llm.generate("Once upon a time", stream=True, temperature=0.8):
            print(piece, end="")
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        device: Device | str | None = None,
        *,
        tokenizer: str | os.PathLike[str] | None = None,
        chat_template: str | os.PathLike[str] | None = None,
        max_context: int | None = None,
    ) -> None:
        if max_context is not None and not 0 < max_context < 2**32:
            raise Error(f"max_context: expected a number of tokens, got {max_context}")
        self.device = device if isinstance(device, Device) else Device(device)
        options = L.LLMOptions(
            tokenizer=None if tokenizer is None else os.fsencode(tokenizer),
            chat_template=None if chat_template is None else os.fsencode(chat_template),
            max_context=max_context or 0,
        )
        made = ("clave_llm_load", "clave_llm_destroy", os.fsencode(path), self.device.handle.pointer, C.byref(options))
        self._handle = L.Handle(*made, keep=(self.device,))
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
        self.page_rows: int = info.page_rows
        """Tokens of a page of the memory that conversations share; 0: each has its own."""
        self._lock, self._idle = threading.Lock(), dict[Any, Conversation]()
        self.tokenizer: Tokenizer | None = Tokenizer.borrowed(info.tokenizer, self._handle) if info.tokenizer else None
        """None: a model of ids only."""

    def conversation(self, **options: Any) -> Conversation:
        """A text that is made in steps. options: those of clave.Sampling."""
        return self._conversation(NativeOptions(Sampling.of(options, self.sampling)))

    def _conversation(self, native: NativeOptions) -> Conversation:
        made = ("clave_llm_conversation_create", "clave_llm_conversation_destroy", self._handle.pointer)
        handle = L.Handle(*made, C.byref(native.struct), keep=(self._handle, native))
        return Conversation(self, native, handle)

    def _take(self, native: NativeOptions) -> Conversation:
        """One for an answer: the last that gave one, if it may be used again."""
        with self._lock:
            idle = self._idle.pop(native.lasting, None)
            self._idle.clear()  # one at most keeps its memory
        return idle._begin_again(native) if idle else self._conversation(native)

    def _answer(
        self, prompt: Prompt, options: dict[str, Any], stream: bool, how: tuple[Any, Any], template: dict[str, Any]
    ) -> Answer | Stream:
        native = NativeOptions(Sampling.of(options, self.sampling))

        def give_back(talk: Conversation) -> None:
            with self._lock:
                if native.lasting is not None and not self._idle:
                    self._idle[native.lasting] = talk

        made = Stream(self._take(native).prompt(prompt, **template), *how, give_back)
        return made if stream else made.answer()

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
        return self._answer(prompt, options, stream, (max_new_tokens, logprobs), {})

    def generate_each(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int | None = DEFAULT_NEW_TOKENS,
        logprobs: int | None = None,
        **options: Any,
    ) -> list[Answer]:
        """What the model writes behind each of several prompts, as generate has it, all with the same options: where
        their state may lie in pages (docs/kv_cache.md), the model runs over all of them at once."""
        streams = [Stream(self.conversation(**options).prompt(prompt), max_new_tokens, logprobs) for prompt in prompts]
        return answer_each(streams)

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
        """The answer to messages, or to a text of the user's: as generate, up to the model's own end.

        tools, documents, template_arguments: what the chat template sees beside the messages.
        """
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        template = {"tools": tools, "documents": documents, **(template_arguments or {})}
        return self._answer(list(messages), options, stream, (max_new_tokens, logprobs), template)

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
        inputs = template_inputs(messages, tools, documents, add_generation_prompt, arguments)
        if tokenize:
            ids = L.Ids()
            L.call("clave_llm_render_ids", self._handle.pointer, C.byref(inputs), C.byref(ids))
            found = ids.items[: ids.count]
            L.library().clave_ids_free(C.byref(ids))
            return found
        text, size = C.c_void_p(), C.c_size_t()
        L.call("clave_llm_render", self._handle.pointer, C.byref(inputs), C.byref(text), C.byref(size))
        rendered = C.string_at(text, size.value).decode()
        L.library().clave_text_free(text)
        return rendered
