"""How chats sample by default: as the program says, otherwise at temperature 0.8 with min_p 0.05; --bos."""

import json
import os
import subprocess

import _models
import pytest

import clave
from clave import LLM, Error, Sampling

USUAL = Sampling(temperature=0.8, min_p=0.05)
# The sampling that a program specifies, and that of its chats.
SAID = {
    "nothing": (None, USUAL),
    "null": ({}, USUAL),
    "samples": ({"do_sample": True, "temperature": 3.0, "top_p": 0.5}, Sampling(temperature=3, top_p=0.5, top_k=50)),
    "greedy": ({"do_sample": False, "temperature": 3.0}, Sampling()),
    "penalty": ({"repetition_penalty": 1.5}, Sampling(temperature=0.8, min_p=0.05, repetition_penalty=1.5)),
    "no temperature": ({"do_sample": True}, Sampling(temperature=1, top_k=50)),
}
CHAT = "{% for m in messages %}[{{ m.role[0] }}{{ m.content }}]{% endfor %}[a"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat_sampling")
    ranks = _models.byte_ranks(folder / "bytes.tiktoken")
    _models.export(folder / "m.clv", tokenizer=ranks, llm={"bos": 1, "chat_template": CHAT, "stop_ids": []})
    program = clave.load(folder / "m.clv")
    for name, (sampling, _) in SAID.items():
        said = {"bos": None, "chat_template": CHAT, "stop_ids": []}
        program.metadata = {"llm": said if sampling is None else said | {"sampling": sampling}}
        program.save(folder / f"{name}.clv")
    return folder


@pytest.fixture
def run(build, folder):
    def run(*args, text=None):
        command = [str(build / "clave"), "generate", *map(str, args), "--output-ids", "ids", "-n", "6"]
        env = os.environ | {"CLAVE_DEVICE": "cpu"}
        p = subprocess.run(command, cwd=folder, env=env, input=text, capture_output=True, timeout=60, check=False)
        return [int(i) for i in (folder / "ids").read_text().split()] if p.returncode == 0 else p

    return run


def flags(s):
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
    return [x for n in names for x in (f"--{n.replace('_', '-')}", getattr(s, n))]


@pytest.mark.parametrize("name", SAID)
def test_chats(run, folder, name):
    """The command line, a file and Python agree; other prompts are greedy, or use the given options."""
    llm, want = LLM(folder / f"{name}.clv", "cpu"), SAID[name][1]
    assert llm.chat_sampling == want
    (folder / "chat.json").write_text(json.dumps([{"role": "user", "content": "hi"}]))
    plain = run(f"{name}.clv", "--prompt", "[uhi][a", *flags(want))
    greedy = run(f"{name}.clv", "--prompt", "[uhi][a")
    assert (
        greedy
        == llm.generate("[uhi][a", max_new_tokens=6).ids
        == llm.conversation().prompt("[uhi][a").generate(max_new_tokens=6).ids
    )
    assert (plain == greedy) == (want.temperature == 0)
    chats = [("--chat", "-p", "hi"), ("--chat-file", "chat.json")]
    for chat in chats:
        assert run(f"{name}.clv", *chat) == run(f"{name}.clv", *chat, "--seed", 0) == plain
        assert run(f"{name}.clv", *chat, "--sampling", "greedy") == greedy
        assert run(f"{name}.clv", *chat, "--temperature", 0) == greedy or want.repetition_penalty
    assert llm.chat("hi", max_new_tokens=6).ids == plain == llm.chat("hi", max_new_tokens=6).ids
    assert llm.chat_each(["hi", "hi"], max_new_tokens=6)[1].ids == plain
    assert llm.conversation().send("hi", max_new_tokens=6).ids == plain
    assert llm.conversation(sampling="greedy").send("hi", max_new_tokens=6).ids == greedy
    seeded = run(f"{name}.clv", "--chat", "-p", "hi", "--seed", 7)
    assert (
        seeded
        == llm.chat("hi", max_new_tokens=6, seed=7).ids
        == llm.conversation(seed=7).send("hi", max_new_tokens=6).ids
    )
    other = run(f"{name}.clv", "--chat", "-p", "hi", "--temperature", 5, "--seed", 2)
    assert other == llm.chat("hi", max_new_tokens=6, temperature=5, seed=2).ids
    assert llm.generate("[uhi][a", max_new_tokens=6, sampling="chat").ids == plain


def test_conversations_that_become_chats(folder):
    """A conversation is greedy until the first message; a fork samples like its source."""
    llm = LLM(folder / "nothing.clv", "cpu")
    talk = llm.conversation()
    first = talk.send("hi", max_new_tokens=4)
    assert talk.fork().send("so", max_new_tokens=4) == talk.fork().send("so", max_new_tokens=4)
    assert first == llm.chat("hi", max_new_tokens=4)
    with pytest.raises(Error, match="does not say how to sample"):
        llm.chat("hi", sampling="model")


# ---------------------------------------------------------------- the beginning of texts


@pytest.mark.parametrize("name, bos", [("m", 1), ("nothing", None)])
def test_bos(run, folder, name, bos):
    shown = {}
    for how in (None, "auto", "yes", "no"):
        for kind, prompt in (("--prompt", "AB"), ("--prompt-ids", "p.ids"), ("--prompt", "\x01AB"), ("--prompt", "")):
            (folder / "p.ids").write_text("65 66")
            shown[how, kind, prompt] = run(f"{name}.clv", kind, prompt, *(["--bos", how] if how else []))
    text, ids = list(b"AB"), [65, 66]
    head = [] if bos is None else [bos]
    for how in (None, "auto"):
        assert shown[how, "--prompt", "AB"] == _models.reference(head + text, 6)
        assert shown[how, "--prompt-ids", "p.ids"] == _models.reference(ids, 6)
        if bos:
            assert shown[how, "--prompt", "\x01AB"] == _models.reference([1, *text], 6)
            assert shown[how, "--prompt", ""] == _models.reference([1], 6)
        else:
            assert shown[how, "--prompt", ""].returncode == 1
    assert shown["no", "--prompt", "AB"] == shown["no", "--prompt-ids", "p.ids"] == _models.reference(text, 6)
    assert b"--bos no adds no token to it" in shown["no", "--prompt", ""].stderr
    if bos:
        assert (
            shown["yes", "--prompt", "AB"] == shown["yes", "--prompt-ids", "p.ids"] == _models.reference([1, *text], 6)
        )
        assert shown["yes", "--prompt", "\x01AB"] == _models.reference([1, *text], 6)
        assert shown["yes", "--prompt", ""] == _models.reference([1], 6)
    else:
        assert b"has no BOS token" in shown["yes", "--prompt", "AB"].stderr
    refused = run(f"{name}.clv", "--chat", "-p", "hi", "--bos", "no")
    assert refused.returncode == 2 and b"--bos and --chat exclude each other" in refused.stderr
