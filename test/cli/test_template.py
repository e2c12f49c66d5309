"""clave template: the exact text, and refusals."""

import json

import pytest

MESSAGES = [{"role": "user", "content": "Hi <b>\n"}]


@pytest.fixture
def files(tool):
    (tool.folder / "m.json").write_text(json.dumps(MESSAGES))
    (tool.folder / "t.json").write_text('[{"name": "f"}]')
    (tool.folder / "t.jinja").write_text(
        "{{ bos_token }}{{ messages[0].content }}{{ tools | tojson }}{{ documents | tojson }}{{ x }}{{ eos_token }}"
        "{% if add_generation_prompt %}A{% endif %}\n"
    )
    return "t.jinja", "--messages", "m.json"


def test_text(tool, files):
    assert tool.good("template", *files) == "Hi <b>\nnullnullA"
    every = ("--tools", "t.json", "--documents", "t.json", "--arg", 'x="é"', "--bos", "<s>", "--eos", "</s>")
    want = '<s>Hi <b>\n[{"name": "f"}][{"name": "f"}]é</s>'
    assert tool.good("template", *files, *every, "--no-generation-prompt") == want
    assert json.loads(tool.good("template", *files, "--json")) == {"text": "Hi <b>\nnullnullA"}
    assert tool.good("template", "t.jinja", "--messages", "-", stdin=None, input=json.dumps(MESSAGES)).startswith("Hi")


def test_built_in(tool, files):
    want = "<|im_start|>user\nHi <b>\n<|im_end|>\n<|im_start|>assistant\n"
    assert tool.good("template", "chatml", *files[1:]) == want


def test_parts(tool, files):
    """Contents in parts are passed as chats pass them: joined, or as a list if the template prints its texts."""
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    (tool.folder / "parts.json").write_text(json.dumps(parts))
    (tool.folder / "lists.jinja").write_text("{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}")
    (tool.folder / "image.json").write_text('[{"role": "user", "content": [{"type": "image"}]}]')
    assert tool.good("template", "t.jinja", "--messages", "parts.json") == "a\nbnullnullA"
    assert tool.good("template", "chatml", "--messages", "parts.json").startswith("<|im_start|>user\na\nb<|im_end|>")
    assert tool.good("template", "lists.jinja", "--messages", "parts.json") == "<a><b>"
    says = tool.bad(1, "template", "t.jinja", "--messages", "image.json")
    assert says.startswith("message 1: part 1 of its content: expected type text, got type image")


def test_notes_on_what_is_ignored(tool, files):
    """The notes are those of generate, on standard error."""
    note = "clave: note: the chat template ignores --{0}, so the model does not see the {0}\n"
    given = ("--tools", "t.json", "--documents", "t.json")
    p = tool.run("template", "chatml", *files[1:], *given)
    assert p.returncode == 0 and p.stderr == note.format("tools") + note.format("documents")
    p = tool.run("template", *files, *given)
    assert p.returncode == 0 and p.stderr == ""
    (tool.folder / "r.jinja").write_text("{{ raise_exception('two') if messages[0].content == '?' }}x")
    p = tool.run("template", "r.jinja", *files[1:], *given)
    assert (p.returncode, p.stdout, p.stderr) == (0, "x", "")


def test_raised(tool, files):
    (tool.folder / "r.jinja").write_text("{{ 'lost' }}{{ raise_exception('Only one turn.') }}")
    assert tool.bad(1, "template", "r.jinja", *files[1:]) == "Only one turn."


def test_refused(tool, files):
    (tool.folder / "i.jinja").write_text("\n {% include 'x' %}")
    assert "i.jinja: " in (error := "i.jinja: " + tool.bad(1, "template", "i.jinja", *files[1:])) and "line 2" in error
    (tool.folder / "bad.json").write_text('[{"role": }]')
    assert "bad.json: JSON column 11" in tool.bad(1, "template", "t.jinja", "--messages", "bad.json")
    missing = tool.bad(1, "template", "lama3", *files[1:])
    assert missing.startswith("lama3: no such file or directory; built-in templates are llama3.1, llama3, chatml")
    (tool.folder / "one.json").write_text(' {"role": "user"}')
    for flag, what in (("--messages", "messages"), ("--tools", "functions"), ("--documents", "documents")):
        other = () if flag == "--messages" else files[1:]
        says = tool.bad(1, "template", "t.jinja", *other, flag, "one.json")
        assert says == f"one.json: expected a JSON array of {what}"
    for name in ("messages", "tools", "documents", "add_generation_prompt"):
        assert f"--arg {name}: this variable is set by its own flag" in tool.bad(
            2, "template", *files, "--arg", f"{name}=[]"
        )
    assert "needs --messages" in tool.bad(2, "template", "t.jinja")
    assert "--arg: expected NAME=JSON" in tool.bad(2, "template", *files, "--arg", "x")
    assert "not JSON" in tool.bad(2, "template", *files, "--arg", "x=yes")
