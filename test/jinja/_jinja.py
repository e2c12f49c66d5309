"""Chat templates through ctypes, and transformers' own templates as reference."""

import ctypes as C
import json
import os
import warnings

import jinja2
from transformers.utils import chat_template_utils

from clave import _library as L


class Inputs(C.Structure):
    _fields_ = [
        ("size", C.c_size_t),
        ("messages", C.c_char_p),
        ("tools", C.c_char_p),
        ("documents", C.c_char_p),
        ("arguments", C.c_char_p),
        ("bos", C.c_char_p),
        ("eos", C.c_char_p),
        ("add_generation_prompt", C.c_bool),
        ("name", C.c_char_p),
        ("now", C.c_int64),
    ]


def _call(name, *args):
    getattr(L.library(), name).restype = C.c_void_p
    L.call(name, *args)


def _json(value):
    return None if value is None else json.dumps(value, ensure_ascii=False).encode()


class Template:
    """A template, made from its text, or with `load` from an argument of clave_template_load."""

    def __init__(self, source=None, load=None):
        self.handle = C.c_void_p()
        if load is not None:
            _call("clave_template_load", os.fsencode(load), C.byref(self.handle))
            return
        text = source.encode()
        _call("clave_template_create", text, C.c_size_t(len(text)), C.byref(self.handle))

    def __del__(self):
        function = L.library().clave_template_destroy
        function.restype = None
        function(self.handle)

    def render(self, messages=None, add_generation_prompt=True, now=0, name=None, **kwargs):
        inputs = self.inputs(messages, add_generation_prompt, now, name, **kwargs)
        return self.render_inputs(inputs)

    def inputs(self, messages=None, add_generation_prompt=True, now=0, name=None, **kwargs):
        bos, eos = kwargs.pop("bos_token", None), kwargs.pop("eos_token", None)
        tools, documents = kwargs.pop("tools", None), kwargs.pop("documents", None)
        return Inputs(
            size=C.sizeof(Inputs),
            messages=_json(messages),
            tools=_json(tools),
            documents=_json(documents),
            arguments=_json(kwargs) if kwargs else None,
            bos=bos.encode() if bos is not None else None,
            eos=eos.encode() if eos is not None else None,
            add_generation_prompt=add_generation_prompt,
            name=name.encode() if name else None,
            now=now,
        )

    def render_inputs(self, inputs):
        text, size = C.c_void_p(), C.c_size_t()
        _call("clave_template_render", self.handle, C.byref(inputs), C.byref(text), C.byref(size))
        out = C.string_at(text, size.value).decode()
        L.library().clave_text_free(text)
        return out


def reference(source, messages=None, add_generation_prompt=True, tools=None, documents=None, **kwargs):
    """Returns the text that transformers' template renders, or raises its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of Python's compiler about the code that Jinja2 makes
        compiled = chat_template_utils._compile_jinja_template(source)
    if messages is not None:
        kwargs["messages"] = messages
    return compiled.render(add_generation_prompt=add_generation_prompt, tools=tools, documents=documents, **kwargs)


RAISED = (jinja2.exceptions.TemplateError, TypeError, ValueError, ZeroDivisionError, OverflowError, KeyError)
RAISED += (IndexError, AttributeError, RecursionError, AssertionError, SyntaxError, NameError)
