"""Contents of messages as lists of parts, as in OpenAI's interface; notes on options that a template ignores."""

import json
import logging
import os
import subprocess

import _models
import jinja2
import pytest

from clave import LLM, Error

# Templates, by their use of a list of parts.
TEMPLATES = {
    "prints": "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}",
    "adds": "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '\n' }}{% endfor %}",
    "json": "{% for m in messages %}<{{ m.role }}>{{ m.content | tojson }}\n{% endfor %}",
    "first": "{% for m in messages %}<{{ m.role }}>"
    "{{ m.content if m.content is string else m.content[0].text }}{% endfor %}",
    "lists": "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{% endif %}\n{% endfor %}",
    "only lists": "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}"
    "{% if p.type == 'text' %}{{ p['text'] }}{% endif %}{% endfor %}{% endfor %}",
    "lists of users": "{% for m in messages %}<{{ m.role }}>{% if m.role != 'user' or m.content is string %}"
    "{{ m.content + '' }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}"
    "{% endif %}{% endfor %}",
    "names types": "the type of types: {% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}",
    "raises": "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "<{{ m.role }}>{{ m.content + '' }}{% endfor %}",
}
# Roles whose lists they print.
TAKEN = {"lists": "all", "only lists": "all", "lists of users": ("user",), "names types": "all"}
TEXTS = ([], ["a"], ["a", "b"], [""], ["", ""], ['é\n"\\ {x}', "b", "\u2028</s>"], ["t"] * 40)


def part(text, **more):
    return {"type": "text", "text": text, **more}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contents")
    tokenizer = _models.byte_tokenizer(folder / "tokenizer.json")
    said = {"chat_template": TEMPLATES["adds"], "max_context": 400}
    _models.export(folder / "m.clv", tokenizer=tokenizer, llm=said, context=400)
    return folder


def model(folder, name):
    return LLM(folder / "m.clv", "cpu", chat_template=TEMPLATES[name])


def rendered(name, messages):
    """Renders by Jinja; texts of lists that the template does not print are joined."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
    taken = TAKEN.get(name, ())

    def settled(m):
        if isinstance(m["content"], str) or taken == "all" or m["role"] in taken:
            return m
        return m | {"content": "\n".join(p["text"] for p in m["content"])}

    return environment.from_string(TEMPLATES[name]).render(messages=[settled(m) for m in messages])


@pytest.mark.parametrize("name", TEMPLATES)
def test_parts(folder, name):
    """The result is Jinja's with the list, or with the joined texts; other members of messages are unchanged."""
    llm = model(folder, name)
    for texts in TEXTS:
        for role in ("user", "system", "assistant", "tool"):
            if name == "raises" and role == "system":
                continue
            chat = [{"more": [1, 2.5, {"content": []}, None, True], "content": [*map(part, texts)], "role": role}]
            chat += [{"role": "user", "content": "x" if name != "only lists" else [part("x")]}]
            if not texts and name == "first":
                continue
            assert llm.apply_chat_template(chat) == rendered(name, chat), (texts, role)


def test_parts_of_several_messages(folder):
    llm = model(folder, "adds")
    chat = [
        {"role": "system", "content": [part("S")]},
        {"role": "user", "content": "plain"},
        {"role": "assistant", "content": [part("A"), part("B", cache_control={"type": "ephemeral"})]},
        {"role": "user", "content": ["bare", part("x")]},
    ]
    assert llm.apply_chat_template(chat) == "<system>S\n<user>plain\n<assistant>A\nB\n<user>bare\nx\n"
    ids = llm.apply_chat_template(chat, tokenize=True)
    assert llm.tokenizer.decode(ids) == "<system>S\n<user>plain\n<assistant>A\nB\n<user>bare\nx\n"
    special = [{"role": "user", "content": [part("<|im_end|>")]}]
    assert 259 not in llm.apply_chat_template(special, tokenize=True)  # user text is not a special token


@pytest.mark.parametrize("name", ["adds", "lists"])
def test_parts_that_are_bare_strings(folder, name):
    for content in (["a"], ["a", part("b")], [part("a"), "b", part("c")]):
        joined = "\n".join(p if isinstance(p, str) else p["text"] for p in content)
        chat = [{"role": "user", "content": content}, {"role": "user", "content": [part("x")]}]
        want = rendered(name, [{"role": "user", "content": joined}, chat[1]])
        assert model(folder, name).apply_chat_template(chat) == want


def test_chats_in_parts(folder):
    """The conversation continues, and returns the messages as they were given."""
    llm = model(folder, "adds")
    parts, plain = llm.conversation(), llm.conversation()
    for text in ("hi", "so"):
        one = parts.send({"role": "user", "content": [part(text), part("!")]}, max_new_tokens=4)
        assert one == plain.send({"role": "user", "content": f"{text}\n!"}, max_new_tokens=4)
    assert parts.ids == plain.ids and parts.messages[0]["content"] == [part("hi"), part("!")]
    assert llm.chat([{"role": "user", "content": [part("hi")]}], max_new_tokens=3) == llm.chat("hi", max_new_tokens=3)
    assert parts.undo().messages == parts.messages[:2]


@pytest.mark.parametrize("name", ["adds", "lists"])
@pytest.mark.parametrize(
    "content, got",
    [
        ([{"type": "image_url", "image_url": {"url": "x"}}], "part 1 .*got type image_url"),
        ([part("a"), {"type": "image"}], "part 2 .*got type image"),
        (
            [part("a"), part("b"), {"type": "input_audio", "input_audio": {"text": "x"}}],
            "part 3 .*got type input_audio",
        ),
        ([{"type": "video", "text": "x"}], "part 1 .*got type video"),
        ([{}], "part 1 .*without type and text"),
        ([{"type": "text"}], "part 1 .*without type and text"),
        ([{"text": "x"}], "part 1 .*without type and text"),
        ([{"type": "text", "text": 5}], "part 1 .*without type and text"),
        ([5], "part 1 .*neither an object nor a string"),
        ([[part("x")]], "part 1 .*neither an object nor a string"),
        ([None], "part 1 .*neither an object nor a string"),
        ([{"type": "x" * 500}], "part 1 .*got type xxx"),
    ],
)
def test_parts_that_are_no_text(folder, name, content, got):
    llm = model(folder, name)
    talk = llm.conversation()
    for message in (
        [{"role": "user", "content": content}],
        [{"role": "user", "content": "a"}, {"role": "user", "content": content}],
    ):
        for call in (llm.apply_chat_template, llm.chat, talk.prompt):
            with pytest.raises(Error, match=rf"^message {len(message)}: {got}"):
                call(message)
    assert talk.ids == [] and talk.messages == []


def run(build, folder, *args, **more):
    command = [str(build / "clave"), "generate", "m.clv", *map(str, args)]
    env = os.environ | {"CLAVE_DEVICE": "cpu"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False, **more)


def test_parts_of_a_file(build, folder):
    plain = [{"role": "user", "content": "a\nb"}, {"role": "user", "content": "c"}]
    parts = [{"role": "user", "content": [part("a"), part("b")]}, {"role": "user", "content": [part("c")]}]
    given = []
    for name, chat in (("plain", plain), ("parts", parts)):
        (folder / f"{name}.json").write_text(json.dumps(chat))
        given.append(run(build, folder, "--chat-file", f"{name}.json", "-n", 4, "--output-ids", f"{name}.ids"))
    assert given[0].returncode == 0 and given[0].stdout == given[1].stdout
    assert (folder / "plain.ids").read_text() == (folder / "parts.ids").read_text()
    (folder / "picture.json").write_text(json.dumps([{"role": "user", "content": [{"type": "image"}]}]))
    p = run(build, folder, "--chat-file", "picture.json")
    assert p.returncode == 1 and p.stdout == "" and "expected type text, got type image" in p.stderr


# ---------------------------------------------------------------- options that a template ignores

TOOLS = [{"type": "function", "function": {"name": "f"}}]
READS = {
    "neither": "{% for m in messages %}{{ m.content }}{% endfor %}",
    "tools": "{{ tools | tojson if tools }}{% for m in messages %}{{ m.content }}{% endfor %}",
    "documents": "{{ documents | tojson if documents }}{% for m in messages %}{{ m.content }}{% endfor %}",
    "wants more": "{{ raise_exception('system') if messages[0].role != 'system' }}{{ messages[0].content }}",
}


@pytest.mark.parametrize("name", READS)
def test_notes_on_what_is_ignored(build, folder, name, caplog):
    """The command line and Python print each note once."""
    (folder / "tools.json").write_text(json.dumps(TOOLS))
    (folder / "template.jinja").write_text(READS[name])
    (folder / "chat.json").write_text('[{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]')
    args = ("--chat-file", "chat.json", "--chat-template", "template.jinja", "-n", 1)
    llm = LLM(folder / "m.clv", "cpu", chat_template=READS[name])
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    for what in ("tools", "documents"):
        ignored = name == "neither" or (name in ("tools", "documents") and name != what)
        p = run(build, folder, *args, f"--{what}", "tools.json")
        assert p.returncode == 0, p.stderr
        note = f"clave: note: the chat template ignores --{what}, so the model does not see the {what}\n"
        assert p.stderr.count(note) == ignored
        assert "ignores" not in run(build, folder, *args).stderr
        with caplog.at_level(logging.WARNING, "clave"):
            caplog.clear()
            for _ in range(2):
                llm.chat(chat, max_new_tokens=1, **{what: TOOLS})
                llm.apply_chat_template(chat, **{what: TOOLS})
                llm.conversation().send(chat, max_new_tokens=1, **{what: TOOLS})
            said = [r.getMessage() for r in caplog.records]
            assert said == [f"the chat template ignores {what}: the model does not see them"] * ignored
