"""Chats on a pseudo-terminal: editing, messages of several lines, pastes, commands; scripted chats."""

import ctypes
import json
import platform
import re
import signal
import subprocess
import time
from pathlib import Path

import _models
import pytest
from _terminal import Terminal

from clave import LLM

TEMPLATE = "{% for m in messages %}[{{ m.role[0] }}{{ m.content }}]{% endfor %}[a"
PROMPT = "2004h> "  # after the sequence that enables bracketed paste


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    ranks = _models.byte_ranks(folder / "bytes.tiktoken")
    said = {"chat_template": TEMPLATE, "max_context": 200}
    _models.export(folder / "m.clv", tokenizer=ranks, llm=said, context=200)
    return folder


@pytest.fixture(scope="module")
def llm(folder):
    return LLM(folder / "m.clv", "cpu")


class Chat(Terminal):
    """A chat on a terminal; ask types a line and waits for the next prompt."""

    def __init__(self, build, folder, *args):
        super().__init__([build / "clave", "generate", "m.clv", "--chat", "--device", "cpu", *args], folder)
        self.folder, self.prompts = folder, 1
        self.wait_for(PROMPT)

    def ask(self, text, n=1, end="\n"):
        self.type(text + end)
        self.prompts += n
        return self.wait_for(PROMPT, self.prompts)

    def messages(self, llm):
        """Returns the messages so far, read from a saved file."""
        before = len(self.seen)
        self.ask("/save talk")
        assert "clave: note: saved" in self.seen[before:]
        return [(m["role"][0], m["content"]) for m in llm.conversation().load(self.folder / "talk").messages]

    def close(self):
        self.type("\x04")
        assert self.end() == 0 and "tokens/s" in self.seen


@pytest.fixture
def chat(build, folder):
    return Chat(build, folder, "-n", 3)


def answers(llm, *messages, system=None, n=3, **how):
    """Returns the chat of these messages with the answers of clave.LLM, and its ids."""
    talk, first = llm.conversation(**how), [{"role": "system", "content": system}] if system else []
    for m in messages:
        talk.send([*first, {"role": "user", "content": m}], max_new_tokens=n)
        first = []
    return [(m["role"][0], m["content"]) for m in talk.messages]


def test_a_chat(chat, llm):
    chat.ask("hi")
    chat.ask("so")
    assert chat.messages(llm) == answers(llm, "hi", "so")
    assert chat.seen.count("the answer was cut off by --max-new-tokens") == 2
    chat.close()


def test_editing(chat, llm):
    """Left, Home, End, Delete, Ctrl-W, history, characters of several bytes."""
    chat.ask("bd\x1b[Dc\x1b[Ha\x1b[Fe")
    assert chat.messages(llm)[0] == ("u", "abcde")
    chat.ask("Größe: 日本x\x1b[D\x1b[3~")
    assert chat.messages(llm)[2] == ("u", "Größe: 日本")
    chat.ask("/undo")
    chat.ask("\x1b[A\x1b[A\x1b[A!")  # recalls /undo, /save talk, then the previous message
    assert chat.messages(llm)[2] == ("u", "Größe: 日本!")
    chat.type("dropped")
    chat.wait_for("dropped")
    chat.type("\x03")
    chat.wait_for("^C")
    chat.ask("one two\x17three")
    assert chat.messages(llm)[4] == ("u", "one three")
    chat.close()


def test_messages_of_several_lines(chat, llm):
    chat.type("a\\\n")
    chat.wait_for("2004h. ")
    chat.type("\\\n")
    chat.wait_for("2004h. ", 2)
    chat.ask("b")
    assert chat.messages(llm)[0] == ("u", "a\n\nb")
    chat.type('"""\n')
    chat.wait_for("2004h. ", 3)
    chat.type("c\n")
    chat.wait_for("2004h. ", 4)
    chat.ask('d"""')
    assert chat.messages(llm)[2] == ("u", "c\nd")
    chat.ask('"""e"""')
    assert chat.messages(llm)[4] == ("u", "e")
    chat.close()


def test_a_paste_is_one_message(chat, llm):
    chat.ask("x\x1b[200~a\r\tb\nß\n\x1b[201~y")
    assert chat.messages(llm)[0] == ("u", "xa\n\tb\nßy")
    chat.close()


def test_commands(build, folder, llm):
    greedy = {"sampling": "greedy"}
    chat = Chat(build, folder, "-n", 3, "--sampling", "greedy")
    chat.ask("/help")
    assert "/regen" in chat.seen and "stops an answer, Ctrl-D ends the chat" in chat.seen
    chat.ask("hi")
    chat.ask("so")
    one = answers(llm, "hi", **greedy)
    chat.ask("/undo")
    assert chat.messages(llm) == one
    chat.ask("/regen")
    assert chat.messages(llm) == one
    chat.ask("/save first")
    chat.ask("/system Be brief.")
    assert chat.messages(llm) == []
    chat.ask("hi")
    assert chat.messages(llm) == answers(llm, "hi", system="Be brief.", **greedy)
    chat.ask("/set temperature=3")
    chat.ask("/regen")
    assert chat.messages(llm)[:2] == [("s", "Be brief."), ("u", "hi")]
    assert chat.messages(llm) != answers(llm, "hi", system="Be brief.", **greedy)
    chat.ask("/set")
    assert "temperature=3 top-k=0" in chat.seen
    chat.ask("/set temperature=0")
    chat.ask("/set max-new-tokens=5")
    chat.ask("/load first")
    chat.ask("so")
    assert "user: hi\r\nassistant: " in chat.seen and chat.messages(llm)[:3] == [*one, ("u", "so")]
    assert len(chat.messages(llm)[3][1].encode()) >= 3
    chat.ask("/reset")
    assert chat.messages(llm) == []
    chat.ask(" /reset is text")
    assert chat.messages(llm)[1] == ("u", " /reset is text")
    chat.close()


def test_exit(chat):
    chat.ask("hi")
    chat.type("/exit\n")
    assert chat.end() == 0 and "tokens/s" in chat.seen


@pytest.mark.parametrize(
    "command, said",
    [
        ("/rset", "unknown chat command /rset; did you mean /reset?"),
        ("/xyzzy", "unknown chat command /xyzzy; /help lists the commands"),
        ("/undo 3", '/undo: expected no argument, got "3"'),
        ("/save", "/save needs an argument: FILE"),
        ("/load nowhere", "nowhere: no such file or directory"),
        ("/undo", "the chat has no message to remove"),
        ("/set temperature=hot", '--temperature: expected a number from 0 to 1000000, got "hot"'),
        ("/set temprature=1", '/set: unknown option "temprature"; did you mean temperature?'),
        ("/set chat=1", '/set: expected NAME=VALUE, such as temperature=0.7, got "chat=1"'),
        ("/save no/such/folder", "no/such/folder"),
    ],
)
def test_wrong_commands(chat, llm, command, said):
    """The error is shown, and the chat continues."""
    chat.ask(command)
    assert f"clave: {said}" in chat.seen or said in chat.seen.split("clave: ")[1]
    chat.ask("hi")
    assert chat.messages(llm) == answers(llm, "hi")
    chat.close()


def test_messages_that_do_not_fit(chat, llm):
    chat.ask("hi")
    chat.ask("x" * 200)
    assert "no space for an answer in the context of 200 tokens: 17 too many" in chat.seen
    assert chat.messages(llm) == answers(llm, "hi")
    chat.ask("so")
    assert chat.messages(llm) == answers(llm, "hi", "so")
    chat.close()


def test_answers_end_with_the_context(build, folder, llm):
    chat = Chat(build, folder)
    chat.ask("hi")
    assert "the model's context is full; /undo, /regen or /reset frees part of it" in chat.seen
    assert len(chat.messages(llm)) == 2 and len(llm.conversation().load(folder / "talk").ids) == 200
    chat.ask("/undo")
    assert chat.messages(llm) == []
    chat.close()


def test_color(build, folder):
    chat = Chat(build, folder, "-n", 3, "--color")
    chat.ask("hi")
    assert "\x1b[1;32m\x1b[?2004h> " in chat.seen and "\x1b[0m" in chat.seen
    chat.close()


def test_without_an_editor(build, folder, llm):
    """Standard error is not a terminal: lines come as the terminal passes them, and a paste is one message, too."""
    command = f"exec {build / 'clave'} generate m.clv --chat --device cpu -n 3 2>notes"
    t = Terminal(["/bin/sh", "-c", command], folder)
    t.type("hi\n\x1b[200~so\nfar\x1b[201~\n/save talk\n\x04")
    assert t.end() == 0
    messages = [(m["role"][0], m["content"]) for m in llm.conversation().load(folder / "talk").messages]
    assert messages == answers(llm, "hi", "so\nfar")
    (folder / "notes").write_text("")
    t = Terminal(["/bin/sh", "-c", command], folder)
    while "> " not in (folder / "notes").read_text():
        time.sleep(0.01)
    t.type("hi\x03")
    assert t.end() == 130


def blocked(thread):
    """Returns the signals that a thread blocks, as bits."""
    return int(re.search(r"SigBlk:\s*(\w+)", (thread / "status").read_text())[1], 16)


@pytest.mark.by_turn(4)
def test_interrupts_of_other_threads(build, folder):
    """The wait for a line ends, no matter which thread receives Ctrl-C, even one of a driver."""
    tgkill = {"x86_64": 234, "aarch64": 131}.get(platform.machine())
    if tgkill is None:
        pytest.skip("no number of tgkill for this processor")
    t = Terminal([build / "clave", "generate", "m.clv", "--chat", "--device", "opencl"], folder)
    t.wait_for(PROMPT)
    others = [thread for thread in Path(f"/proc/{t.pid}/task").iterdir() if thread.name != str(t.pid)]
    others = [int(thread.name) for thread in others if not blocked(thread) >> signal.SIGINT - 1 & 1]
    if not others:
        pytest.skip("this driver's threads take no signals")
    time.sleep(0.1)  # it waits
    assert ctypes.CDLL(None).syscall(tgkill, t.pid, others[0], signal.SIGINT) == 0
    assert t.end() == 130


# ---------------------------------------------------------------- without a terminal


@pytest.fixture
def clave(build, folder):
    def run(*args, input=None):
        command = [build / "clave", "generate", "m.clv", "--device", "cpu", *map(str, args)]
        return subprocess.run(command, cwd=folder, input=input, capture_output=True, timeout=60)

    return run


def script(folder, *messages):
    roles = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    chat = [{"role": roles[r], "content": text} for r, text in messages]
    (folder / "chat.json").write_text(json.dumps(chat))
    return chat


def test_scripted_chats(clave, folder, llm):
    """Each message of the user is answered in turn, unless the file has the answer."""
    script(folder, ("s", "S"), ("u", 'a,]"\\'), ("a", "A"), ("u", "b"), ("u", "c"))
    p = clave("--chat-file", "chat.json", "-n", 3)
    talk = llm.conversation()
    first = [{"role": "system", "content": "S"}, {"role": "user", "content": 'a,]"\\'}]
    first += [{"role": "assistant", "content": "A"}, {"role": "user", "content": "b"}]
    want = [talk.send(first, max_new_tokens=3), talk.send("c", max_new_tokens=3)]
    assert p.returncode == 0 and p.stdout.decode() == "".join(f"{a}\n" for a in want)
    same = clave("--chat-file", "-", "-n", 3, input=(folder / "chat.json").read_bytes())
    assert same.stdout == p.stdout
    script(folder, ("u", "b"))
    with_system = clave("--chat-file", "chat.json", "--system", "S", "-n", 3).stdout.decode()
    assert with_system == llm.chat([first[0], {"role": "user", "content": "b"}], max_new_tokens=3) + "\n"
    script(folder, ("u", "a"), ("a", ""), ("t", "1"), ("t", "2"))
    assert clave("--chat-file", "chat.json", "-n", 3).stdout.count(b"\n") >= 1


@pytest.mark.parametrize(
    "text, said",
    [
        ('{"role": "user"}', "chat.json: expected a JSON array of messages"),
        ("[", "chat.json: "),
        ("[]", "chat.json: expected a user message without an answer"),
        (
            '[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]',
            "expected a user message without an answer",
        ),
        ("[5]", 'chat.json: message 1: expected {"role": ..., "content": ...}, got no "role"'),
        (
            '[{"role": "user", "content": "a"}, {"content": "b"}]',
            'chat.json: message 2: expected {"role": ..., "content": ...}, got no "role"',
        ),
        ('[{"role": "system", "content": "a"}]', "begins with a system message, and --system sets a second one"),
    ],
)
def test_wrong_scripts(clave, folder, text, said):
    (folder / "chat.json").write_text(text)
    p = clave("--chat-file", "chat.json", "--system", "S")
    assert p.returncode == 1 and said in p.stderr.decode() and p.stdout == b"" and p.stderr.count(b"\n") == 1


def test_short_flags(clave, folder, llm):
    (folder / "prompt.txt").write_text("seed")
    want = llm.generate("seed", max_new_tokens=4)
    for args in (["-p", "seed"], ["-f", "prompt.txt"], ["--prompt-file", "prompt.txt"], ["-f", "-"]):
        p = clave(*args, "-n", 4, "-t", 1, "-s", 7, input=b"seed")
        assert p.returncode == 0 and p.stdout.decode() == want, p.stderr
    assert clave("-p", "seed", "-c", 6, "--output-ids", "ids").returncode == 0
    assert len((folder / "ids").read_text().split()) == 2
    for args, code, said in (
        (["-p", "a", "-c", "201"], 1, "max_context: 201 exceeds the 200 tokens"),
        (["-p", "a", "-x"], 2, "generate has no flag -x"),
        (["-p", "a", "-temp", "1"], 2, "generate has no flag -temp; did you mean --temperature?"),
        (["-p", "a", "-t", "0"], 2, '--threads: expected an integer from 1 to 4096, got "0"'),
        (["-p", "a", "--prompt", "b"], 2, "--prompt is given twice"),
        (["-p", "a", "-f", "b"], 2, "--prompt-file and --prompt exclude each other"),
        (["-p"], 2, "--prompt needs a value: TEXT"),
        (["-f", "nowhere"], 1, "nowhere: No such file"),
        (["-p", "a", "--chat-file", "b"], 2, "--chat-file excludes --prompt"),
        (["-p", "a", "--top-logprobs", "3"], 2, "--top-logprobs needs --logprobs"),
    ):
        p = clave(*args)
        assert p.returncode == code and said in p.stderr.decode() and p.stdout == b"", p.stderr


def test_log_probabilities(clave, folder, llm):
    answer = llm.generate("seed", max_new_tokens=4, logprobs=2)
    assert clave("-p", "seed", "-n", 4, "--logprobs", "likely.jsonl", "--top-logprobs", 2).returncode == 0
    lines = [json.loads(line) for line in (folder / "likely.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == answer.ids
    for line, token in zip(lines, answer.logprobs, strict=True):
        assert line["logprob"] == pytest.approx(token.logprob, abs=1e-6)
        assert [(t["id"], t["logprob"]) for t in line["top"]] == [(i, pytest.approx(p, abs=1e-6)) for i, p in token.top]
        assert line["text"] == (llm.tokenizer.decode([token.id]) if token.id < 256 else None)


def test_verbose_prompts(clave):
    p = clave("-p", "ab", "-n", 1, "--verbose-prompt")
    assert p.stderr.startswith(b'{"id": 97, "text": "a"}\n{"id": 98, "text": "b"}\n')
    p = clave("--chat", "-p", "b", "-n", 1, "--verbose-prompt")
    tokens = [json.loads(line) for line in p.stderr.decode().splitlines() if line.startswith("{")]
    assert "".join(t["text"] for t in tokens) == "[ub][a"


def test_greeting(build, folder):
    """A terminal shows the model's name and where to find help; without a terminal there is no greeting."""
    chat = Chat(build, folder, "-n", 1)
    assert "m. Write a message; /help lists commands, Ctrl-D ends the chat.\r\n" in chat.seen[: chat.seen.index("> ")]
    chat.ask("hi")
    chat.close()
    command = [build / "clave", "generate", "m.clv", "--chat", "--device", "cpu", "-n", "1"]
    p = subprocess.run(command, cwd=folder, input=b"hi", capture_output=True, timeout=60, check=True)
    assert b"Write a message" not in p.stdout + p.stderr
