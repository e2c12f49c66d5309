"""clave inspect of a language model begins with the most important facts."""

import json
import subprocess

import _models
import pytest
import torch

import clave

TOOLS = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"
PLAIN = "{% for m in messages %}{{ m.content }}{% endfor %}"
SOURCE = {"name": "A\nB", "architecture": "TestForCausalLM", "dtype": "f32"}
# The program's metadata, and how it is shown: in lines, and in JSON.
SAID = {
    "nothing": ({}, {"chat template": "no", "capabilities": "completion"}, {"chat_template": False, "license": None}),
    "template": ({"chat_template": PLAIN}, {"chat template": "yes", "capabilities": "completion, chat"}, {}),
    "tools": (
        {"chat_template": TOOLS, "max_context": 64, "source": SOURCE, "license": "\n MIT, say\nmore\n"},
        {
            "name": "A\\x0aB",
            "architecture": "TestForCausalLM",
            "context length": "64",
            "capabilities": "completion, chat, tools",
            "licence": "MIT, say",
        },
        {"capabilities": ["completion", "chat", "tools"], "name": "A\nB", "context_length": 64},
    ),
    "builtin": ({"chat_template": "chatml"}, {"capabilities": "completion, chat"}, {"chat_template": True}),
    "unreadable": ({"chat_template": "{% include 'x' %}"}, {"capabilities": "completion, chat"}, {}),
    "raises": ({"chat_template": "{{ raise_exception('no') }}"}, {"capabilities": "completion, chat"}, {}),
    "samples": (
        {"sampling": {"do_sample": True, "temperature": 0.5}},
        {"sampling": "do_sample yes, temperature 0.5"},
        {"sampling": {"do_sample": True, "temperature": 0.5}},
    ),
    "greedy": ({"sampling": {"do_sample": False}}, {"sampling": "greedy"}, {}),
    "wrong kinds": ({"source": 5, "sampling": "x", "license": [1], "chat_template": 7}, {"chat template": "no"}, {}),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    ranks = _models.byte_ranks(tmp_path_factory.mktemp("inspect") / "bytes.tiktoken")
    example, length = _models.arguments(3), torch.export.Dim("length", min=1, max=64)
    model = _models.Attends().eval()
    program = clave.export(model, example, dynamic_shapes=({1: length}, None))
    program.set_tokenizer(ranks)
    return program


def inspect(build, path, *args):
    p = subprocess.run(
        [build / "clave", "inspect", path, *args], capture_output=True, text=True, timeout=60, check=False
    )
    assert p.returncode == 0, p.stderr
    return p.stdout


@pytest.mark.parametrize("name", SAID)
def test_what_is_shown(build, tmp_path, program, name):
    said, lines, members = SAID[name]
    program.metadata = {"llm": said}
    program.save(tmp_path / "m.clv")
    text = inspect(build, tmp_path / "m.clv")
    head, rest = text.split("\n\n", 1)
    assert head.startswith("model ") and rest.startswith("program ")
    shown = dict(line[9:].split("  ", 1) for line in head.split("\n"))
    shown = {k.strip(): v.strip() for k, v in shown.items()}
    assert shown["embedding length"] == "16" and shown["tokenizer"] == "tiktoken cl100k, 100277 ids"
    count = sum(t.numel() for t in (_models.Attends().tokens, _models.Attends().places))
    assert shown["parameters"] == f"{count / 1000:.1f} thousand" and shown["quantisation"] == "F32 100.0 %"
    for key, value in lines.items():
        assert shown[key] == value
    for key in ("architecture", "licence", "context length", "name"):
        assert (key in shown) == (key in lines)
    document = json.loads(inspect(build, tmp_path / "m.clv", "--json"))
    model = document["language_model"]
    assert list(document)[-1] == "language_model" and document["metadata"]["llm"] == said
    assert model["parameters"] == count == sum(model["quantisation"].values()) and model["embedding_length"] == 16
    for key, value in members.items():
        assert model[key] == value


def test_other_programs(build, root):
    path = root / "examples/mnist/mnist.clv"
    assert inspect(build, path).startswith("program ")
    assert json.loads(inspect(build, path, "--json"))["language_model"] is None
