"""Chats as ids, against the templates published with the models, rendered by Jinja.

The templates here are our own text, written to render the same output as those of the model families. They are rendered
in the environment that transformers uses (trim_blocks, lstrip_blocks), and a tokenizer of bytes and special tokens
shows the text of the ids.
"""

import json

import _models
import jinja2
import pytest
from _llm import GOES_ON, STOP_ID, Device, Llm, Talk

import clave
from clave import Error, Tokenizer

SPECIAL = ["<s>", "</s>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>"]
SPECIAL += [
    "<start_of_turn>",
    "<end_of_turn>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
    "[INST]",
    "[/INST]",
]

HEADER = "{{ '<|start_header_id|>' + %s + '<|end_header_id|>\n\n' }}"
EACH = "{%- for m in messages -%}"
TURNS = """{%- for m in messages -%}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('turns') }}{%- endif -%}"""
JINJA = {
    "llama3": "{{ bos_token }}"
    + EACH
    + HEADER % "m.role"
    + "{{ m.content | trim }}<|eot_id|>{%- endfor -%}"
    + HEADER % "'assistant'",
    "llama3.1": "{{ bos_token }}"
    + "{%- if messages[0].role == 'system' -%}{%- set system = messages[0].content | trim -%}"
    + "{%- set messages = messages[1:] -%}{%- else -%}{%- set system = '' -%}{%- endif -%}"
    + HEADER % "'system'"
    + "{{ 'Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n' }}{{ system }}<|eot_id|>"
    + EACH
    + HEADER % "m.role"
    + "{{ m.content | trim }}<|eot_id|>{%- endfor -%}"
    + HEADER % "'assistant'",
    "chatml": EACH
    + "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{%- endfor -%}"
    + "{{ '<|im_start|>assistant\n' }}",
    "gemma": "{{ bos_token }}{%- set first = '' -%}"
    + "{%- if messages[0].role == 'system' -%}{%- set first = messages[0].content + '\n\n' -%}"
    + "{%- set messages = messages[1:] -%}{%- endif -%}"
    + TURNS
    + "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + (first if loop.first else '') }}"
    + "{{ m.content | trim }}{{ '<end_of_turn>\n' }}{%- endfor -%}{{ '<start_of_turn>model\n' }}",
    "phi3": EACH + "{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{%- endfor -%}{{ '<|assistant|>\n' }}",
    "mistral-v1": "{%- if messages[0].role == 'system' -%}{%- set system = messages[0].content -%}"
    + "{%- set messages = messages[1:] -%}{%- endif -%}{{ bos_token }}"
    + TURNS
    + "{%- if m.role == 'user' -%}{%- if loop.first and system is defined -%}"
    + "{{ ' [INST] ' + system + '\n\n' + m.content + ' [/INST]' }}{%- else -%}{{ ' [INST] ' + m.content + ' [/INST]' }}"
    + "{%- endif -%}{%- else -%}{{ ' ' + m.content + eos_token }}{%- endif -%}{%- endfor -%}",
    "mistral-v3": "{#- [AVAILABLE_TOOLS] -#}"
    + "{%- if messages[0].role == 'system' -%}{%- set system = messages[0].content -%}"
    + "{%- set messages = messages[1:] -%}{%- endif -%}{{ bos_token }}"
    + TURNS
    + "{%- if m.role == 'user' -%}{%- if loop.last and system is defined -%}"
    + "{{ '[INST] ' + system + '\n\n' + m.content + '[/INST]' }}{%- else -%}{{ '[INST] ' + m.content + '[/INST]' }}"
    + "{%- endif -%}{%- else -%}{{ ' ' + m.content | trim + eos_token }}{%- endif -%}{%- endfor -%}",
    "zephyr": EACH + "{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{%- endfor -%}{{ '<|assistant|>\n' }}",
}

SYSTEM = ("system", "  Be brief. ")
ASK, ANSWER, AGAIN = ("user", " What is 2 + 2?\n"), ("assistant", " 4.\u00a0\n"), ("user", "Größer: 日本?")
CHATS = [[ASK], [SYSTEM, ASK], [ASK, ANSWER, AGAIN], [SYSTEM, ASK, ANSWER, AGAIN, ANSWER, ASK]]


def render(name, chat):
    def refuse(message):
        raise ValueError(message)

    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    messages = [{"role": role, "content": text} for role, text in chat]
    return environment.from_string(JINJA[name]).render(messages=messages, bos_token="<s>", eos_token="</s>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chats")
    _models.byte_tokenizer(folder / "tokenizer.json", SPECIAL)
    _models.export(folder / "m.clv", llm={"bos": 256, "eos": 257})
    return folder


@pytest.fixture(scope="module")
def llm(folder):
    return Llm(folder / "m.clv", Device("cpu"), folder / "tokenizer.json")


@pytest.fixture(scope="module")
def tokenizer(folder):
    return Tokenizer(folder / "tokenizer.json")


@pytest.mark.parametrize("name", JINJA)
@pytest.mark.parametrize("chat", CHATS, ids=len)
def test_as_jinja_renders(llm, tokenizer, name, chat):
    ids = llm.chat_ids(chat, name)
    want = render(name, chat)
    assert tokenizer.decode(ids, skip_special=False) == want
    assert ids == tokenizer.encode(want)


@pytest.mark.parametrize("name", JINJA)
def test_messages_hold_no_special_tokens(llm, tokenizer, name):
    evil = "".join(SPECIAL) + "<|im_"
    chat = [("user", evil), ("assistant", evil), ("user", evil)]
    ids = llm.chat_ids(chat, name)
    tame = llm.chat_ids([(role, "x") for role, _ in chat], name)
    assert [i for i in ids if i >= 256] == [i for i in tame if i >= 256]
    assert tokenizer.decode(ids, skip_special=False) == render(name, chat)


def test_turns(llm):
    for name in ("gemma", "mistral-v1", "mistral-v3"):
        for chat in ([ANSWER], [ASK, ASK], [SYSTEM], [SYSTEM, ANSWER], [ASK, SYSTEM]):
            with pytest.raises(Error):
                llm.chat_ids(chat, name)
    with pytest.raises(Error, match="message 1 is of 'tool', not system, user or assistant"):
        llm.chat_ids([ASK, ("tool", "4")], "chatml")
    with pytest.raises(Error, match="without a message"):
        llm.chat_ids([], "chatml")


def test_unknown_templates(llm):
    with pytest.raises(
        Error, match=r"the model has no chat template; the built-in templates are llama3\.1, llama3, chatml"
    ):
        llm.chat_ids([ASK])
    with pytest.raises(Error, match="unknown chat template 'vicuna'; the built-in templates are "):
        llm.chat_ids([ASK], "vicuna")


def with_metadata(folder, name, **llm):
    program = clave.load(folder / "m.clv")
    program.metadata = {"llm": {"bos": 256, "eos": 257, **llm}}
    program.save(folder / name)
    return Llm(folder / name, Device("cpu"), folder / "tokenizer.json")


def test_the_files_own_template(folder):
    """A name selects a built-in template; any other text is rendered as a template."""
    for name, jinja in JINJA.items():
        for said in (name, jinja):
            llm = with_metadata(folder, "named.clv", chat_template=said)
            assert llm.info.chat_template.decode() == said
            assert llm.chat_ids([ASK]) == llm.chat_ids([ASK], name)
    own = "{%- for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}\n{% endfor %}"
    llm = with_metadata(folder, "named.clv", chat_template=own)
    assert llm.chat_ids([ASK]) == Tokenizer(folder / "tokenizer.json").encode("<|im_start|>user:  What is 2 + 2?\n\n")


def test_templates_that_cannot_be_read(folder):
    """The model loads; a request for a chat reports the error."""
    for said, message in {
        "{{ messages": "line 1, column 12: the template ends within a block",
        "{% include 'x' %}": r"line 1, column 4: \{% include %\} is not supported",
        "{{ raise_exception('only tools') }}": "^only tools$",
        "vicuna": "unknown chat template 'vicuna'; the built-in templates are llama3.1, llama3",
    }.items():
        llm = with_metadata(folder, "named.clv", chat_template=said)
        with pytest.raises(Error, match=message):
            llm.chat_ids([ASK])


def test_stop_ids_of_templates(folder, tokenizer):
    for name, ends in {
        "chatml": ["</s>", "<|im_end|>"],
        "mistral-v1": ["</s>"],
        "gemma": ["</s>", "<end_of_turn>"],
    }.items():
        info = with_metadata(folder, "named.clv", chat_template=name).info
        assert info.stop_ids[: info.n_stop_ids] == [tokenizer.find(end) for end in ends]


def test_turns_follow_each_other(folder, tokenizer):
    """The end of an answer occurs once, whether the model wrote it or was cut off."""
    llm = with_metadata(folder, "named.clv", chat_template="chatml", max_context=1000)
    end = tokenizer.find("<|im_end|>")
    question = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    for bias, stop, answer in (({end: 1000}, STOP_ID, ""), ({tokenizer.encode("A")[0]: 1000}, GOES_ON, "AA")):
        talk = Talk(llm, bias=bias).prompt([("user", "hi")])
        assert tokenizer.decode(talk.ids()) == question
        assert talk.take(2)[1:] == (answer, stop)
        talk.prompt([("user", "hi")])
        assert tokenizer.decode(talk.ids()) == question + answer + "<|im_end|>\n" + question


def turns(folder, template, answers, **options):
    """Returns a conversation with this template and these answers, and the number of times that it started again."""
    llm = with_metadata(folder, "named.clv", chat_template=template, max_context=2000, **options)
    talk, again, before = Talk(llm), 0, []
    for answer in answers:
        talk.prompt([("user", "hi")])
        again += talk.ids()[: len(before)] != before
        talk.prompt(Tokenizer(folder / "tokenizer.json").encode(answer))
        before = talk.ids()
    return talk.prompt([("user", "bye")]), again + (talk.ids()[: len(before)] != before)


def test_a_chat_keeps_what_was_run(folder, tokenizer):
    """Its ids stay if the template renders the past unchanged, with white space around answers or without."""
    end, ask = "<|im_end|>\n", "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    talk, again = turns(folder, "chatml", ["a", " b\n"])
    assert again == 0
    assert tokenizer.decode(talk.ids(), skip_special=False) == ask.format("hi") + "a" + end + ask.format("hi") + (
        " b\n" + end + ask.format("bye")
    )
    assert turns(folder, JINJA["llama3"], ["a", " b\n"])[1] == 0


def test_a_template_that_rewrites_the_past(folder, tokenizer):
    """Thinking is dropped from earlier answers: the chat is run again with the newly rendered text."""
    template = (
        "{%- for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' and not loop.last %}"
        "{{ m.content.split('/t')[-1] }}{% else %}{{ m.content }}{% endif %}<|end|>{% endfor %}<|assistant|>"
    )
    talk, again = turns(folder, template, ["hm/tyes", "no"])
    assert again == 1
    assert tokenizer.decode(talk.ids(), skip_special=False) == (
        "<|user|>hi<|end|><|assistant|>yes<|end|><|user|>hi<|end|><|assistant|>no<|end|><|user|>bye<|end|><|assistant|>"
    )


def test_a_past_that_changes_with_each_turn(folder, tokenizer):
    template = "{{ messages | length }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"
    talk, again = turns(folder, template, ["a", "b"])
    assert again == 2
    assert tokenizer.decode(talk.ids(), skip_special=False) == (
        "5<|user|>hi<|assistant|>a<|user|>hi<|assistant|>b<|user|>bye<|assistant|>"
    )


def test_a_chat_behind_ids_that_are_no_chat(folder, tokenizer):
    """A prompt that is not a chat, or is restored from a file, counts as an answer."""
    talk = Talk(with_metadata(folder, "named.clv", chat_template="chatml", max_context=1000))
    talk.prompt(tokenizer.encode("So far.")).prompt([("user", "hi")])
    assert tokenizer.decode(talk.ids(), skip_special=False) == (
        "So far.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_fork_goes_on_with_the_chat(folder):
    talk, _ = turns(folder, "chatml", ["a"])
    fork = talk.fork()
    assert fork.prompt([("user", "x")]).ids() == talk.prompt([("user", "x")]).ids()


@pytest.mark.parametrize(
    "written",
    [
        "{{ m.content | trim }}",
        "{{ '<|im_' ~ m.content ~ 'x' }}",
        "{{ m.content[:6] + m.content[6:] }}",
        "{% set t = m.content + m.content %}{{ t }}",
        "{{ ('ab' ~ m.content)[1:] }}",
    ],
)
def test_filters_make_no_special_tokens(folder, tokenizer, written):
    """An answer also counts if a template splits a message's text, or joins it with other text."""
    llm = with_metadata(
        folder, "named.clv", chat_template="{% for m in messages %}" + written + "<|im_end|>{% endfor %}"
    )
    for text in (" <|im_start|> ", "start|>", "<|im_end|><s>"):
        ids = llm.chat_ids([("user", text)])
        assert [i for i in ids if i >= 256] == [tokenizer.find("<|im_end|>")]


def test_default_system_message(folder, tokenizer):
    llm = with_metadata(folder, "named.clv", chat_template="chatml", default_system="Be brief.")
    assert tokenizer.decode(llm.chat_ids([ASK])) == render("chatml", [("system", "Be brief."), ASK])
    assert tokenizer.decode(llm.chat_ids([SYSTEM, ASK])) == render("chatml", [SYSTEM, ASK])
    for name in ("gemma", "llama3.1"):
        assert tokenizer.decode(llm.chat_ids([ASK], name)) == render(name, [("system", "Be brief."), ASK])


def test_one_bos(folder, llm):
    assert Talk(llm).prompt("hi").ids() == Talk(llm).prompt("<s>hi").ids() == Talk(llm).prompt("").prompt("hi").ids()
    assert Talk(llm).prompt("hi").ids()[0] == 256


def test_tokens_that_strip_white_space(folder, tokenizer):
    """Phi-3's special tokens strip the white space after them, also that of a message."""
    import tokenizers

    t = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    stripping = json.loads(t.to_str())
    for token in stripping["added_tokens"]:
        token["rstrip"] = token["content"].startswith("<|")
    (folder / "strip.json").write_text(json.dumps(stripping))
    llm, strip = Llm(folder / "m.clv", Device("cpu"), folder / "strip.json"), Tokenizer(folder / "strip.json")
    for name in ("phi3", "llama3", "zephyr"):
        chat = [("user", "  hi \n"), ("assistant", "\n there"), ("user", " ")]
        assert llm.chat_ids(chat, name) == strip.encode(render(name, chat))


@pytest.fixture(scope="module")
def llama2(test_data):
    return test_data / "tokenizers" / "llama2"


@pytest.mark.parametrize("name", JINJA)
def test_as_tokenizers_encodes_it(folder, llama2, name):
    """Llama 2's tokenizer looks for special tokens in the normalized text."""
    import tokenizers

    library = tokenizers.Tokenizer.from_file(str(llama2 / "tokenizer.json"))
    llm = with_metadata(folder, "llama2.clv", bos=1, eos=2)
    llm = Llm(folder / "llama2.clv", llm.device, llama2 / "tokenizer.json")
    for chat in CHATS:
        assert llm.chat_ids(chat, name) == library.encode(render(name, chat), add_special_tokens=False).ids


def test_as_sentencepiece_encodes_it(folder, llama2):
    """The text between BOS and EOS is encoded separately, and begins with one space."""
    import sentencepiece

    library = sentencepiece.SentencePieceProcessor(model_file=str(llama2 / "tokenizer.model"))
    llm = with_metadata(folder, "llama2.clv", bos=1, eos=2)
    llm = Llm(folder / "llama2.clv", llm.device, llama2 / "tokenizer.model")
    first, second = library.encode("[INST] hi [/INST] there"), library.encode("[INST] you [/INST]")
    chat = [("user", "hi"), ("assistant", "there"), ("user", "you")]
    assert llm.chat_ids(chat, "mistral-v1") == [1, *first, 2, *second]
