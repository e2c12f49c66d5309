"""Compares rendering of chat templates with Jinja2: microseconds of CPU time, the minimum of five alternating turns.

Our time includes the ctypes call and parsing the messages from JSON; Jinja2 gets Python values. "load" is parsing or
compiling the template. The last lines time the calls of Python programs: LLM.apply_chat_template, the one of
transformers' tokenizers, and the start of a chat turn.

    PYTHONPATH=python:test/jinja .venv/bin/python bench/templates.py
"""

import ctypes
import json
import pathlib
import statistics
import time
import timeit

import _jinja
import families
import tokenizers
import transformers

import clave
from clave import _library

TINYLM = pathlib.Path(__file__).resolve().parent.parent / "examples/tinylm/tinylm.clv"
TURNS = [{"role": "user", "content": "What is 2 + 2, and why?"}, {"role": "assistant", "content": "It is 4. " * 20}]
MESSAGES = [{"role": "system", "content": "Answer in a sentence."}, *TURNS * 4, TURNS[0]]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Where"}},
    "required": ["city"],
}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Says it", "parameters": PARAMETERS}}
CONTEXT = {"messages": MESSAGES, "tools": [TOOL], "bos_token": "<s>", "eos_token": "</s>"}


def microseconds(*calls):
    """Returns the time of each of several (function, times), in alternation."""
    times = [[] for _ in calls]
    for _ in range(5):
        for least, (function, n) in zip(times, calls, strict=True):
            least.append(timeit.timeit(function, number=n, timer=time.process_time) / n * 1e6)
    return [min(t) for t in times]


def render_of(name):
    """Returns a call of clave_template_render alone, with prepared JSON."""
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


def compile_theirs(source):
    return _jinja.chat_template_utils._compile_jinja_template.__wrapped__(source)  # bypasses its cache


def compare(name):
    """Returns microseconds: rendering by Jinja2 and by clave, then loading by Jinja2 and by clave."""
    source = families.FAMILIES[name]
    compiled, (run, _template) = compile_theirs(source), render_of(name)
    return microseconds(
        (lambda: compiled.render(add_generation_prompt=True, documents=None, **CONTEXT), 100),
        (run, 1000),
        (lambda: compile_theirs(source), 2),
        (lambda: _jinja.Template(source), 100),
    )


def compare_python(name):
    """Returns microseconds: transformers, clave, and clave's part in json.dumps."""
    source = families.FAMILIES[name]
    llm = clave.LLM(TINYLM, device="cpu", chat_template=source)
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE()), bos_token="<s>", eos_token="</s>"
    )
    theirs.chat_template = source
    return microseconds(
        (lambda: theirs.apply_chat_template(MESSAGES, tools=[TOOL], tokenize=False, add_generation_prompt=True), 100),
        (lambda: llm.apply_chat_template(MESSAGES, tools=[TOOL]), 100),
        (lambda: [json.dumps(x) for x in (MESSAGES, [TOOL])], 100),
    )


def compare_turn():
    """Returns microseconds of a turn in a chat of ten: its text, its ids, and the part in json.dumps. Also returns the
    number of ids."""
    llm, messages = clave.LLM(TINYLM, device="cpu", chat_template=families.FAMILIES["chatml"]), TURNS * 10 + TURNS[:1]
    calls = [lambda t=t: llm.apply_chat_template(messages, tokenize=t) for t in (False, True)]
    times = microseconds(*((call, 100) for call in calls), (lambda: json.dumps(messages), 100))
    return *times, len(calls[1]())


def main():
    ratios, loaded, called = [], [], []
    for name, source in families.FAMILIES.items():
        try:
            _jinja.reference(source, **CONTEXT)
        except _jinja.RAISED:
            continue  # the template rejects these messages
        theirs, ours, load_theirs, load_ours = compare(name)
        ratios.append(theirs / ours)
        loaded.append((theirs + load_theirs) / (ours + load_ours))
        print(
            f"{name:16} jinja2 {theirs:6.1f}  clave {ours:5.1f}  {ratios[-1]:5.1f} times"
            f"   with load {theirs + load_theirs:8.0f} {ours + load_ours:6.1f} {loaded[-1]:5.0f} times"
        )
    for name in ("chatml", "qwen25", "qwen3", "llama31", "glm"):
        theirs, ours, dumps = compare_python(name)
        called.append(theirs / ours)
        print(
            f"{name:16} transformers {theirs:6.1f}  clave {ours:5.1f}, of it json.dumps {dumps:5.1f}  "
            f"{called[-1]:5.1f} times"
        )
    text, ids, dumps, count = compare_turn()
    print(f"a turn of ten, {count} ids: text {text:.0f}, ids {ids:.0f}, of each json.dumps {dumps:.0f}")
    means = [statistics.geometric_mean(x) for x in (ratios, loaded, called)]
    print(f"{len(ratios)} templates, geometric means: {means[0]:.1f} times, with load {means[1]:.0f}, ", end="")
    print(f"called from Python {means[2]:.1f}")


if __name__ == "__main__":
    main()
