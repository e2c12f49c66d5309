"""Texts that tokenizers get wrong: scripts, emoji with joiners, combining marks, white space, controls, special tokens.

strings(n, seed) returns the same n texts everywhere; the first ones are fixed, the others are random combinations.
"""

import random

SCRIPTS = [
    "The quick brown fox jumps over the lazy dog",
    "don't I'll we've SHE'D they're it's o'clock",
    "Größe straße Ångström naïve café œuvre ĲSSEL",
    "Съешь же ещё этих мягких французских булок",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία ΣΊΣΥΦΟΣ",
    "שָׁלוֹם עוֹלָם דג סקרן שט בים",
    "مرحبا بالعالم صِف خَلقَ خَودِ كَمِثلِ",
    "नमस्ते दुनिया क्षत्रिय ज़िंदगी",
    "สวัสดีชาวโลก เป็นมนุษย์สุดประเสริฐ",
    "こんにちは世界 カタカナ ｶﾀｶﾅ 日本語の文章です。",
    "你好，世界！我能吞下玻璃而不伤身体。",
    "안녕하세요 세계 다람쥐 헌 쳇바퀴",
    "xin chào thế giới Tiếng Việt đẹp",
    "ಕನ್ನಡ తెలుగు தமிழ் മലയാളം ગુજરાતી ਪੰਜਾਬੀ",
    "ἀρχὴ ሰላም ልዑል ខ្មែរ ພາສາລາວ မြန်မာ བོད་སྐད།",
    "İstanbul ıIiİ ǅ ŉ ﬁ ﬂ ﬃ ẞ ſ K Å",
    "𝕳𝖊𝖑𝖑𝖔 𝒲𝑜𝓇𝓁𝒹 𐍈𐌰 𠜎𠜱 𓀀𓁐",
]
EMOJI = [
    "😀",
    "🚀",
    "👍🏽",
    "👩\u200d👩\u200d👧\u200d👦",
    "🏳️\u200d🌈",
    "🇩🇪🇯🇵",
    "❤️",
    "1️⃣",
    "🧑🏿\u200d🚀",
    "☃",
    "✈︎",
    "🤷🏻\u200d♀️",
    "‼️",
]
MARKS = [
    "e\u0301",
    "a\u0308\u0304",
    "q\u0307\u0323",
    "q\u0323\u0307",
    "\u0301",
    "n\u0303o\u0308",
    "\u1100\u1161\u11a8",
    "Å\u030a",
]
MARKS += ["Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳", "कि", "ก็", "\u0958", "ΐ", "\u0390", "가", "ｶﾞ"]
SPACES = [
    " ",
    "  ",
    "   ",
    "    ",
    " " * 9,
    "\t",
    "\t\t",
    "\n",
    "\n\n",
    " \n ",
    "\r\n",
    "\r",
    "\u00a0",
    "\u3000",
    "\u2003",
]
SPACES += ["\u2028", "\u2029", "\u0085", "\u200b", "\ufeff", "\u1680", "\u202f", "\u205f", "\x0b", "\x0c", " \t \n\n  "]
DIGITS = [
    "0",
    "7",
    "42",
    "100",
    "1234",
    "3.14159",
    "1,234,567.89",
    "-12e+30",
    "٣٤٥",
    "४५६",
    "①②",
    "Ⅷ",
    "½",
    "x²",
    "1st",
    "0xFF",
]
PUNCTUATION = [
    ".",
    ",",
    "!",
    "?!",
    "...",
    "…",
    "'",
    '"',
    "“q”",
    "’",
    "—",
    "-",
    "--",
    "_",
    "__init__",
    "(",
    ")",
    "[]",
    "{",
    "}",
    "<",
]
PUNCTUATION += [
    ">",
    "&&",
    "||",
    "#",
    "##",
    "##ing",
    "@",
    "$",
    "€",
    "%",
    "^",
    "~",
    "`",
    "```",
    "\\",
    "/",
    "//",
    "\\n",
    ":",
    ";",
    "+=",
]
CONTROLS = [
    "\0", "\x01", "\x07", "\x08", "\x1b[0m", "\x7f", "\u0080", "\u009f", "\u00ad", "\u200c", "\u200d", "\u200e",
    "\u202e", "\u2060", "\ufe0f", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\ue000", "\U000e0041", "\ud7ff",
]  # fmt: skip
SPECIALS = [
    "<s>", "</s>", "<unk>", "<pad>", "<0x41>", "<0x0A>", "▁", "▁▁", "▁the", "Ġ", "Ċ", "<|endoftext|>", "<|im_start|>",
    "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>", "[INST]", "[/INST]", "[CLS]", "[SEP]", "[MASK]", "[UNK]",
    "<mask>", "<bos>", "<eos>", "<start_of_turn>", "</s", "<s><s>", " <s> ", "<|", "|>", "a<s>b",
]  # fmt: skip
CODE = [
    "for (int i = 0; i < n; i++) {\n    x[i] += y[i];\n}\n",
    "def f(x):\n\treturn x ** 2  # square\n",
    "https://example.org/a/b?c=d&e=%20f#g",
    "user.name+tag@mail.example.com",
    '{"key": [1, 2.5, null], "ключ": "значение"}',
    "SELECT * FROM t WHERE a='b';",
    "camelCase snake_case SCREAMING_CASE kebab-case HTTPServer2",
    "$$\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt\\pi}{2}$$",
]
PARTS = [SCRIPTS, EMOJI, MARKS, SPACES, DIGITS, PUNCTUATION, CONTROLS, SPECIALS, CODE]
WEIGHTS = [6, 3, 3, 5, 3, 4, 2, 3, 2]
LONG = 3000


def _words(r):
    words = r.choice(SCRIPTS).split()
    first = r.randrange(len(words))
    return " ".join(words[first : first + r.randint(1, 4)])


def _part(r, extra):
    kind = r.choices(PARTS, WEIGHTS)[0]
    if kind is SCRIPTS:
        return _words(r)
    if extra and kind is SPECIALS and r.random() < 0.5:
        return r.choice(extra)
    return r.choice(kind)


def _letters(r):
    """Returns any characters of one block, assigned or not, except surrogates."""
    block = r.choice(
        [0x20, 0x80, 0x250, 0x370, 0x590, 0x900, 0xE00, 0x1100, 0x1E00, 0x2000, 0x3040, 0x4E00, 0xAC00, 0xF900]
    )
    block = r.choice([block, 0xFB00, 0xFF00, 0x1D400, 0x1F300, 0x20000, 0xE000])
    return "".join(chr(block + r.randrange(0x100)) for _ in range(r.randint(1, 12)))


def _text(r, extra):
    if r.random() < 0.1:
        return _letters(r)
    glue = r.choice(["", "", " ", " ", "  ", "\n"])
    return glue.join(_part(r, extra) for _ in range(r.randint(1, 12)))


def fixed():
    """Yields each part alone, and long texts: a word, a run of spaces, one character."""
    yield from ["", " ", "a", "\0"]
    for kind in PARTS:
        yield from kind
        yield from (f" {p} " for p in kind)
    yield from [
        "a" * LONG,
        " " * LONG,
        "ab" * LONG,
        "é" * LONG,
        "👍🏽" * (LONG // 8),
        "\n" * LONG,
        "0123456789" * (LONG // 10),
    ]
    yield " ".join(SCRIPTS) * 3
    yield "".join(chr(c) for c in range(0x100))


def strings(n, seed=0, extra=()):
    """Returns n texts; `extra`: more texts to insert, such as a tokenizer's own special tokens."""
    r = random.Random(seed)
    out = [*fixed(), *extra][:n]
    while len(out) < n:
        out.append(_text(r, list(extra)))
    return out
