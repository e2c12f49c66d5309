"""clave generate as a command: text and ids, files, flags, Ctrl-C, chats on a terminal."""

import json
import os
import re
import signal
import subprocess
import time

import _models
import pytest
from _terminal import Terminal

PROMPT = "seed"
FIRST = list(PROMPT.encode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generate")
    ranks = _models.byte_ranks(folder / "bytes.tiktoken")
    _models.export(folder / "ids.clv")
    _models.export(folder / "m.clv", tokenizer=ranks, llm={"bos": 1, "chat_template": "chatml"})
    _models.export(folder / "long.clv", tokenizer=ranks, context=200000)
    (folder / "prompt.txt").write_text(" ".join(map(str, FIRST)) + "\n")
    return folder


@pytest.fixture
def clave(build, folder):
    def run(*args, input=None):
        env = {k: v for k, v in os.environ.items() if k != "CLAVE_DEVICE"} | {"CLAVE_DEVICE": "cpu"}
        command = [build / "clave", "generate", *map(str, args)]
        return subprocess.run(command, cwd=folder, env=env, input=input, capture_output=True, timeout=60)

    return run


def decode(ids):
    return bytes(i for i in ids if i < 256).decode(errors="replace")


def numbers(path):
    return [int(word) for word in path.read_text().split()]


def refused(p, code, part):
    assert p.returncode == code and p.stdout == b"", p
    lines = p.stderr.decode().splitlines()
    errors = [line for line in lines if line.startswith("clave: ") and not line.startswith("clave: note: ")]
    assert len(errors) == 1 and part in errors[0], p.stderr
    assert code == 2 or all(line.startswith("clave: ") for line in lines), p.stderr


def test_text(clave, folder):
    want = _models.reference([1, *FIRST], 20)
    p = clave("m.clv", "--prompt", PROMPT, "--max-new-tokens", 20, "--output-ids", "out", "--stats-json", "stats")
    assert p.returncode == 0 and p.stdout.decode() == decode(want)
    assert numbers(folder / "out") == want
    stats = json.loads((folder / "stats").read_text())
    assert list(stats) == [
        *("prompt_tokens", "prompt_ms", "decode_tokens", "decode_ms"),
        *("ttft_ms", "load_ms", "peak_rss_mb", "answered_by", "stop_reason"),
    ]
    assert (stats["prompt_tokens"], stats["decode_tokens"], stats["stop_reason"]) == (5, 19, "max_new_tokens")
    assert stats["answered_by"] == "cpu"
    assert re.search(
        r"prompt +5 tokens.*\ndecode +19 tokens.*\nfirst token after .* max_new_tokens\n", p.stderr.decode()
    )
    assert clave("m.clv", "--prompt", "-", "--max-new-tokens", 20, input=PROMPT.encode()).stdout == p.stdout


def test_ids(clave, folder):
    want = _models.reference(FIRST, 20)
    p = clave("ids.clv", "--prompt-ids", "prompt.txt", "--max-new-tokens", 20, "--output-ids", "out")
    assert p.returncode == 0 and p.stdout.decode() == " ".join(map(str, want)) + "\n"
    assert numbers(folder / "out") == want
    more = clave("ids.clv", "--prompt-ids", "-", "--max-new-tokens", 20, input=b"\n".join(b"%d" % i for i in FIRST))
    assert more.stdout == p.stdout
    with_text = clave("ids.clv", "--tokenizer", "bytes.tiktoken", "--prompt-ids", "prompt.txt", "--max-new-tokens", 20)
    assert with_text.stdout.decode() == decode(want)


def test_json_programs(clave, folder):
    import clave as package

    package.load(folder / "ids.clv").save(folder / "p.json")
    os.rename(folder / "consts.safetensors", folder / "other.safetensors")
    args = ("p.json", "--prompt-ids", "prompt.txt", "--max-new-tokens", 3)
    refused(clave(*args), 1, "consts.safetensors")
    p = clave(*args, "--consts", "other.safetensors")
    assert p.stdout.decode().split() == [str(i) for i in _models.reference(FIRST, 3)]


def test_stops(clave, folder):
    plain = clave("m.clv", "--prompt", PROMPT, "--max-new-tokens", 30).stdout.decode()
    stop = plain[9:12]
    p = clave("m.clv", "--prompt", PROMPT, "--stop", "never", "--stop", stop, "--stats-json", "stats")
    assert p.stdout.decode() == plain[: plain.index(stop)]
    assert json.loads((folder / "stats").read_text())["stop_reason"] == "stop_text"
    p = clave("m.clv", "--prompt", PROMPT, "--stats-json", "stats", "--output-ids", "out")
    assert json.loads((folder / "stats").read_text())["stop_reason"] == "context_full"
    assert numbers(folder / "out") == _models.reference([1, *FIRST], 59)


def test_stop_ids(clave, folder):
    want = _models.reference(FIRST, 12)
    _models.export(folder / "stop.clv", llm={"stop_ids": [want[9]]}, tokenizer=folder / "bytes.tiktoken")
    n = want.index(want[9]) + 1
    args = ("stop.clv", "--prompt", PROMPT, "--output-ids", "out", "--max-new-tokens", 12)
    assert clave(*args).stdout.decode() == decode(want[: n - 1])
    assert numbers(folder / "out") == want[:n]
    assert clave(*args, "--ignore-stop-ids").stdout.decode() == decode(want)


def test_sampling(clave):
    args = ("ids.clv", "--prompt-ids", "prompt.txt", "--temperature", 2, "--top-k", 50, "--top-p", 0.9)
    one, again, other = (clave(*args, "--seed", seed).stdout for seed in (1, 1, 2))
    assert one == again != other
    greedy = clave("ids.clv", "--prompt-ids", "prompt.txt", "--max-new-tokens", 1).stdout
    p = clave(*args[:3], "--top-k", 3, "--max-new-tokens", 1)
    assert p.stdout == greedy and b"have no effect without --temperature" in p.stderr
    never = clave(*args[:3], "--max-new-tokens", 1, "--logit-bias", f"{int(greedy)}=-inf").stdout
    assert never != greedy
    forced = clave(*args[:3], "--max-new-tokens", 2, "--logit-bias", "7=100", "--logit-bias", "8=99").stdout
    assert forced == b"7 7\n"
    turns = clave(
        *args[:3], "--max-new-tokens", 2, "--logit-bias", "7=100", "--logit-bias", "8=99", "--presence-penalty", 5
    )
    assert turns.stdout == b"7 8\n"


def test_sampling_of_the_model(clave, folder):
    """--sampling model uses the file's options, unless the command line sets them; greedy is the default."""
    said = {"sampling": {"do_sample": True, "temperature": 2, "top_k": 40, "repetition_penalty": 1.5}}
    _models.export(folder / "says.clv", llm=said)
    args = ("says.clv", "--prompt-ids", "prompt.txt", "--max-new-tokens", 12)
    spelt = ("--temperature", 2, "--top-k", 40, "--repetition-penalty", 1.5)
    model = clave(*args, "--sampling", "model", "--seed", 3).stdout
    assert model == clave(*args, *spelt, "--seed", 3).stdout
    greedy = clave(*args).stdout
    assert greedy == clave(*args, "--sampling", "greedy").stdout == clave("ids.clv", *args[1:]).stdout != model
    own = clave(*args, "--sampling", "model", "--temperature", 0, "--repetition-penalty", 0)
    assert own.stdout == greedy and not own.stderr.startswith(b"clave: note")
    p = clave("ids.clv", *args[1:], "--sampling", "model")
    says = b"ids.clv has no sampling settings; set --temperature, --top-k and the other options\n"
    assert p.stderr == b"clave: --sampling model: " + says
    assert p.returncode == 1 and not p.stdout
    for wrong, part in (
        ({"top_k": -1}, "llm.sampling.top_k: expected"),
        ({"do_sample": 1}, "expected true or false"),
    ):
        _models.export(folder / "wrong.clv", llm={"sampling": wrong})
        assert part in clave("wrong.clv", *args[1:]).stderr.decode()


@pytest.mark.parametrize(
    "args, part",
    [
        (["m.clv", "--prompt", "a", "--sampling", "hot"], '--sampling: expected greedy or model, got "hot"'),
        ([], "PROG"),
        (["m.clv"], "--prompt, --prompt-ids, --chat or --perplexity"),
        (["m.clv", "--prompt", "a", "--prompt-ids", "prompt.txt"], "exclude each other"),
        (["m.clv", "--prompt", "a", "--system", "b"], "--system needs --chat"),
        (["m.clv", "--prompt", "a", "--pattern", "gpt2"], "--pattern needs --tokenizer"),
        (["m.clv", "--prompt", "a", "--chat-template", "phi3"], "--chat-template needs --chat"),
        (["m.clv", "--chat", "--prompt-ids", "prompt.txt"], "--prompt-ids exclude each other"),
        (["m.clv", "--prompt", "a", "--temperature", "hot"], '"hot"'),
        (["m.clv", "--prompt", "a", "--temperature", "nan"], '"nan"'),
        (["m.clv", "--prompt", "a", "--top-p", "1.5"], "from 0 to 1"),
        (["m.clv", "--prompt", "a", "--top-k", "-1"], '"-1"'),
        (["m.clv", "--prompt", "a", "--max-new-tokens", "0"], '"0"'),
        (["m.clv", "--prompt", "a", "--logit-bias", "x=1"], '"x=1"'),
        (["m.clv", "--prompt", "a", "--logit-bias", "1=one"], '"1=one"'),
        (["m.clv", "--prompt", "a", "--temprature", "1"], "did you mean --temperature?"),
    ],
)
def test_malformed(clave, args, part):
    refused(clave(*args), 2, part)


@pytest.mark.parametrize(
    "args, part",
    [
        (["nowhere.clv", "--prompt", "a"], "nowhere.clv"),
        (["m.clv", "--prompt", "a", "--tokenizer", "nowhere"], "nowhere"),
        (["m.clv", "--prompt", "a", "--device", "opencl:99"], "opencl:99"),
        (["m.clv", "--prompt", "x" * 100], "prompt of 101 tokens after 0 tokens leaves no space for an answer"),
        (["m.clv", "--prompt", "a", "--logit-bias", "300=1"], "bias of id 300 is out of range: the vocabulary has 300"),
        (["m.clv", "--prompt", "a", "--stop", ""], "stop text 0 is empty"),
        (["m.clv", "--prompt", "a", "--output-ids", "no/such/file"], "no/such/file"),
        (["m.clv", "--prompt", "a", "--tokenizer", "bytes.tiktoken", "--pattern", "gpt5"], "gpt5"),
        (["garbage.clv", "--prompt", "a"], "the program's tokenizer; garbage.clv"),
        (["ids.clv", "--prompt", "a"], "needs a tokenizer"),
        (["ids.clv", "--prompt-ids", "nowhere"], "nowhere"),
        (["ids.clv", "--prompt-ids", "bad.txt"], 'bad.txt: expected a token id, got "2x" as number 2'),
        (
            ["ids.clv", "--prompt-ids", "big.txt"],
            "id 300 at position 1 of the prompt is out of range: the model has ids below 300",
        ),
        (["ids.clv", "--prompt-ids", "huge.txt"], "expected a token id"),
        (["ids.clv", "--prompt-ids", "empty.txt"], "the prompt is empty"),
        (["ids.clv", "--chat", "--prompt", "a"], "no chat template"),
    ],
)
def test_errors(clave, folder, args, part):
    import clave as package
    from clave import _library

    program = package.load(folder / "ids.clv")
    _library.call("clave_program_set_section", program.handle.pointer, b"TOKN", b"garbage", 7)
    program.save(folder / "garbage.clv")
    for name, text in {"bad": "1 2x", "big": "1 300", "huge": "1 99999999999999999999999", "empty": " \n"}.items():
        (folder / f"{name}.txt").write_text(text)
    p = clave(*args)
    if "--output-ids" in args:  # the text is already printed
        assert p.returncode == 1 and part in p.stderr.decode()
    else:
        refused(p, 1, part)


def test_empty_prompts(clave):
    refused(clave("ids.clv", "--tokenizer", "bytes.tiktoken", "--prompt", ""), 1, "the prompt is empty")
    p = clave("m.clv", "--prompt", "", "--max-new-tokens", 5)
    assert p.stdout.decode() == decode(_models.reference([1], 5))


@pytest.mark.parametrize(
    "llm, part",
    [
        ({"max_context": "long"}, "llm.max_context: expected a number of tokens, got a string"),
        ({"bos": 300}, "llm.bos is 300"),
        ({"bos": "<s>"}, "llm.bos: expected a token id, got a string"),
        ({"stop_ids": 5}, "llm.stop_ids: expected a list of ids, got a number"),
        ({"stop_ids": [1, 300]}, "llm.stop_ids is 300"),
        ({"chat_template": 7}, "llm.chat_template: expected a string, got a number"),
        (7, "llm: expected an object, got a number"),
    ],
)
def test_bad_metadata(clave, folder, llm, part):
    import clave as package

    program = package.load(folder / "ids.clv")
    program.metadata = {"llm": llm}
    program.save(folder / "bad.clv")
    refused(clave("bad.clv", "--prompt-ids", "prompt.txt"), 1, part)


def test_other_programs(clave, root):
    refused(
        clave(root / "examples/mnist/mnist.clv", "--prompt", "a"),
        1,
        "not a language model: expected the inputs tokens and position and the output logits, got 1 inputs",
    )


def test_max_context(clave, folder):
    import clave as package

    program = package.load(folder / "ids.clv")
    program.metadata = {"llm": {"max_context": 10}}
    program.save(folder / "short.clv")
    p = clave("short.clv", "--prompt-ids", "prompt.txt")
    assert p.stdout.decode().split() == [str(i) for i in _models.reference(FIRST, 6)]


def interrupt(process, wait):
    time.sleep(wait)
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=30)


def test_ctrl_c(build, folder):
    command = [build / "clave", "generate", "long.clv", "--prompt", PROMPT, "--max-new-tokens", "190000"]
    command += ["--device", "cpu", "--stats-json", "stats", "--output-ids", "out"]
    p = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.read(1)
    out, err = interrupt(p, 0.1)
    assert p.returncode == 130 and b"tokens/s" in err and err.endswith(b"interrupted\n")
    stats, ids = json.loads((folder / "stats").read_text()), numbers(folder / "out")
    assert stats["stop_reason"] == "interrupted" and len(ids) == stats["decode_tokens"] + 1
    assert len(out) > 0


def test_progress_leaves_text_alone(build, folder):
    """Kernels are built for the prompt and again for the first single token, after text on the same line."""
    command = [str(build / "clave"), "generate", "ids.clv", "--prompt-ids", "prompt.txt", "--max-new-tokens", "3"]
    t = Terminal([*command, "--device", "opencl"], folder, CLAVE_CACHE_DIR="off")
    assert t.end() == 0
    want = " ".join(str(i) for i in _models.reference(FIRST, 3))
    assert "building kernels" in t.seen and want + "\r\n" in t.seen


def test_ctrl_c_on_a_terminal(build, folder):
    """Ctrl-C ends the answer, not the chat; at the prompt it ends the chat."""
    import clave as package

    program = package.load(folder / "long.clv")
    program.metadata = {"llm": {"chat_template": "chatml"}}
    program.save(folder / "long_chat.clv")
    command = [str(build / "clave"), "generate", "long_chat.clv", "--chat", "--max-new-tokens", "190000"]
    t = Terminal([*command, "--device", "cpu"], folder)
    t.wait_for("2004h> ")
    t.type("hi\n")
    time.sleep(0.5)
    t.type("\x03")
    t.wait_for("2004h> ", 2)
    t.type("\x03")
    assert t.end() == 130 and "tokens/s" in t.seen


def test_chat_without_a_terminal(clave):
    args = ("m.clv", "--chat", "--sampling", "greedy", "--max-new-tokens", 5)
    piped, given = clave(*args, input=b"hi"), clave(*args, "-p", "hi")
    assert piped.returncode == 0 and piped.stdout == given.stdout
    ids = list(b"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    assert given.stdout.decode() == decode(_models.reference(ids, 5))
    refused(clave(*args, "--system", "Be brief.", "--prompt", "hi"), 1, "leaves no space")


def test_chat_templates_by_name(clave):
    args = ("m.clv", "--chat", "--prompt", "hi", "--temperature", 0, "-n", 5, "--chat-template")
    ids = list(b"<|user|>\nhi<|end|>\n<|assistant|>\n")
    assert clave(*args, "phi3").stdout.decode() == decode(_models.reference(ids, 5))
    refused(
        clave(*args, "vicuna"),
        1,
        "unknown chat template 'vicuna'; the built-in templates are llama3.1, llama3, chatml, gemma",
    )


def test_tokens_that_only_the_template_has(clave, folder):
    """A note names the tokens, including letters beyond ASCII, whether char is signed or not."""
    import clave as package

    program = package.load(folder / "m.clv")
    program.metadata = {"llm": {"chat_template": "<|kullanıcı|>{{ messages[0].content }}<|end of it|><|end|>"}}
    program.save(folder / "unknown.clv")
    note = "the chat template writes <|kullanıcı|>, <|end|>, which the tokenizer does not encode as special tokens"
    assert note in clave("unknown.clv", "--chat", "-p", "a", "-n", 1).stderr.decode()


def test_chats_without_a_template(clave, build, folder):
    """The error comes before the prompt for the first message."""
    import clave as package

    program = package.load(folder / "m.clv")
    program.metadata = {"llm": {"chat_template": "a\n{% include 'x' %}"}}
    program.save(folder / "includes.clv")
    refused(clave("includes.clv", "--chat", "-p", "a"), 1, "chat template: line 2, column 4: {% include %} is not supp")
    for name, part in (("includes.clv", "line 2, column 4"), ("ids.clv", "ids.clv has no chat template")):
        t = Terminal([str(build / "clave"), "generate", name, "--chat", "--device", "cpu"], folder)
        assert t.end() == 1 and part in t.seen and "2004h" not in t.seen
