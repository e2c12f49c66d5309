"""Rendering of chat templates against Jinja2, which has them compiled and its values at hand: microseconds of each.

Ours reads the messages as JSON each time, and is called over ctypes, whose call is in its time.

    PYTHONPATH=python:test/jinja .venv/bin/python bench/templates.py
"""

import ctypes
import statistics
import timeit

import _jinja
import families

from clave import _library

TURNS = [{"role": "user", "content": "What is 2 + 2, and why?"}, {"role": "assistant", "content": "It is 4. " * 20}]
MESSAGES = [{"role": "system", "content": "Answer in a sentence."}, *TURNS * 4, TURNS[0]]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Where"}},
    "required": ["city"],
}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Says it", "parameters": PARAMETERS}}
CONTEXT = {"messages": MESSAGES, "tools": [TOOL], "bos_token": "<s>", "eos_token": "</s>"}


def microseconds(function, count):
    return min(timeit.repeat(function, number=count, repeat=5)) / count * 1e6


def render_of(name):
    """A call of clave_template_render alone: inputs are JSON that lies ready."""
    template = _jinja.Template(families.FAMILIES[name])
    inputs, library = template.inputs(**CONTEXT), _library.library()
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    render, free = library.clave_template_render, library.clave_text_free
    render.restype = ctypes.c_void_p
    arguments = template.handle, ctypes.byref(inputs), ctypes.byref(text), ctypes.byref(size)

    def run():
        render(*arguments)
        free(text)

    return run, template


def main():
    ratios = []
    for name, source in families.FAMILIES.items():
        try:
            _jinja.reference(source, **CONTEXT)
        except _jinja.RAISED:
            continue  # it does not take these messages
        compiled = _jinja.chat_template_utils._compile_jinja_template(source)
        theirs = microseconds(lambda c=compiled: c.render(add_generation_prompt=True, documents=None, **CONTEXT), 100)
        run, _template = render_of(name)
        ours = microseconds(run, 1000)
        ratios.append(theirs / ours)
        print(f"{name:16} jinja2 {theirs:8.1f}  clave {ours:7.1f}  {ratios[-1]:5.1f} times")
    print(f"{len(ratios)} templates, geometric mean {statistics.geometric_mean(ratios):.1f} times")


if __name__ == "__main__":
    main()
