"""clave's language models through ctypes."""

import ctypes as C
import json
import os

import _sampler

from clave import _library as L

GOES_ON, STOP_ID, STOP_TEXT, CONTEXT_FULL = range(4)
CANCEL = C.CFUNCTYPE(C.c_bool, C.c_void_p)


class Message(C.Structure):
    _fields_ = [("role", C.c_char_p), ("content", C.c_char_p), ("content_size", C.c_size_t)]


def call(name, *args):
    """Calls a function that returns a status; raises clave.Error."""
    getattr(L.library(), name).restype = C.c_void_p
    L.call(name, *args)


def _void(name, *args):
    function = getattr(L.library(), name)
    function.restype = None
    function(*args)


class Device:
    def __init__(self, spec):
        self.handle = C.c_void_p()
        call("clave_device_open", spec.encode(), None, C.byref(self.handle))

    def __del__(self):
        _void("clave_device_destroy", self.handle)


def _messages(chat):
    """Returns [(role, text)] as an array."""
    texts = [(role.encode(), text.encode()) for role, text in chat]
    return (Message * len(texts))(*((role, text, len(text)) for role, text in texts))


class Llm:
    def __init__(self, path, device, tokenizer=None, max_context=0):
        self.device, self.handle = device, C.c_void_p()
        o = L.LLMOptions(tokenizer=os.fsencode(tokenizer) if tokenizer else None, max_context=max_context)
        call("clave_llm_load", os.fsencode(path), device.handle, C.byref(o), C.byref(self.handle))

    def __del__(self):
        _void("clave_llm_destroy", self.handle)

    @property
    def info(self):
        out = L.LLMInfo()
        call("clave_llm_get_info", self.handle, C.byref(out))
        return out

    def chat_ids(self, chat, template=None):
        out, messages = L.Ids(), _messages(chat)
        name = template.encode() if template else None
        call("clave_llm_chat_ids", self.handle, name, messages, C.c_size_t(len(chat)), C.byref(out))
        ids = out.items[: out.count]
        _void("clave_ids_free", C.byref(out))
        return ids


class Talk:
    """A conversation. options: those of the sampler, by name; stop: texts; cancel: a function that returns a bool;
    change: a function of the logits and the ids.

    warm_up: 1 lets the CPU backend answer while kernels are built. budget: bytes of the session.
    """

    def __init__(
        self,
        llm,
        stop=(),
        chunk=0,
        ignore_stop_ids=False,
        cancel=None,
        handle=None,
        warm_up=0,
        budget=0,
        change=None,
        owner=None,
        **options,
    ):
        self.llm, self.handle, self.owner = llm, handle or C.c_void_p(), owner
        if handle:
            return
        self.change = L.LOGITS_FN(lambda _, x, n, ids, m: change(x[:n], ids[:m], x)) if change else L.LOGITS_FN()
        stops = (C.c_char_p * len(stop))(*(s.encode() for s in stop))
        self.cancel = CANCEL(lambda _: cancel()) if cancel else CANCEL()
        session = L.SessionOptions(
            size=C.sizeof(L.SessionOptions),
            cancel=C.cast(self.cancel, C.c_void_p),
            warm_up=warm_up,
            memory_budget=budget,
        )
        o = L.ConversationOptions(
            sampler=C.pointer(_sampler.options(**options)),
            stop=stops,
            n_stop=len(stop),
            ignore_stop_ids=ignore_stop_ids,
            prefill_chunk=chunk,
            session=C.pointer(session),
            change_logits=self.change,
        )
        call("clave_llm_conversation_create", llm.handle, C.byref(o), C.byref(self.handle))

    def __del__(self):
        _void("clave_llm_conversation_destroy", self.handle)

    def prompt(self, prompt):
        """Prompts with ids, a text, or a chat [(role, text)]."""
        if isinstance(prompt, str):
            text = prompt.encode()
            call("clave_llm_prompt_text", self.handle, text, C.c_size_t(len(text)))
        elif prompt and isinstance(prompt[0], tuple):
            call("clave_llm_prompt_chat", self.handle, None, _messages(prompt), C.c_size_t(len(prompt)))
        else:
            call("clave_llm_prompt", self.handle, (C.c_uint32 * len(prompt))(*prompt), C.c_size_t(len(prompt)))
        return self

    def next(self):
        """Returns (id, text, stop); text: None without a tokenizer."""
        t = L.LLMToken()
        call("clave_llm_next", self.handle, C.byref(t))
        return t.id, None if t.text is None else C.string_at(t.text, t.text_size).decode(), t.stop

    @staticmethod
    def next_each(talks):
        """Returns (id, text, stop) of each conversation, in one call."""
        tokens, done = (L.LLMToken * len(talks))(), C.c_size_t()
        handles = (C.c_void_p * len(talks))(*(talk.handle.value for talk in talks))
        call("clave_llm_next_each", handles, C.c_size_t(len(talks)), tokens, C.byref(done))
        assert done.value == len(talks)
        return [(t.id, t.text and C.string_at(t.text, t.text_size).decode(), t.stop) for t in tokens]

    def score(self, ids):
        """Returns the log probability of each id after the current text."""
        out = (C.c_double * len(ids))()
        call("clave_llm_score", self.handle, (C.c_uint32 * len(ids))(*ids), C.c_size_t(len(ids)), out)
        return list(out)

    def flush(self):
        text, size = C.c_void_p(), C.c_size_t()
        call("clave_llm_flush", self.handle, C.byref(text), C.byref(size))
        return C.string_at(text, size.value).decode()

    def take(self, n):
        """Returns (ids, text, stop) of n tokens, or of fewer up to a stop."""
        ids, text, stop = [], "", GOES_ON
        while len(ids) < n and stop == GOES_ON:
            one, more, stop = self.next()
            ids.append(one)
            text += more or ""
        return ids, text, stop

    def ids(self):
        count = C.c_size_t()
        function = L.library().clave_llm_ids
        function.restype = C.POINTER(C.c_uint32)
        return function(self.handle, C.byref(count))[: count.value]

    def stats(self):
        out = L.LLMStats()
        _void("clave_llm_get_stats", self.handle, C.byref(out))
        return out

    def answered_by(self):
        function = L.library().clave_llm_answered_by
        function.restype = C.c_char_p
        return function(self.handle)

    def reset(self):
        call("clave_llm_reset", self.handle)
        return self

    def fork(self):
        handle = C.c_void_p()
        call("clave_llm_fork", self.handle, C.byref(handle))
        return Talk(self.llm, handle=handle, owner=self)

    def rewind(self, n):
        call("clave_llm_rewind", self.handle, C.c_size_t(n))
        return self

    def undo(self, question=True):
        call("clave_llm_undo", self.handle, C.c_bool(question))
        return self

    def messages(self):
        out = C.c_void_p()
        call("clave_llm_messages", self.handle, C.byref(out))
        text = C.string_at(out).decode()
        _void("clave_text_free", out)
        return [(m["role"], m["content"]) for m in json.loads(text)]

    def logprobs(self, count):
        """Returns (id, logprob) of the last token, and of the likeliest."""
        chosen, top = L.Logprob(), (L.Logprob * count)()
        call("clave_llm_logprobs", self.handle, C.byref(chosen), top, C.c_size_t(count))
        return (chosen.id, chosen.logprob), [(t.id, t.logprob) for t in top]

    def save(self, path):
        call("clave_llm_save", self.handle, os.fsencode(path))

    def restore(self, path):
        call("clave_llm_restore", self.handle, os.fsencode(path))
        return self
