"""Compares our tokenizer with a library's: ids, text, and the text of a stream."""

from clave import Error


def encoded(ours, text, options):
    """Returns the ids, or None if ours refuses a text (for example, without an unknown token)."""
    try:
        return ours.encode(text, **options)
    except Error:
        return None


def differences(ours, texts, encode, decode, **options):
    """Yields (what, text, expected, got) of all differences; encode(text) and decode(ids, skip) are functions of the
    other library."""
    for text in texts:
        ids = encode(text)
        got = encoded(ours, text, options)
        if got != ids:
            yield "encode", text, ids, got
        for skip in (False, True) if ids is not None else ():
            back = decode(ids, skip)
            if (got := ours.decode(ids, skip_special=skip)) != back:
                yield f"decode, skip {skip}", text, back, got
            if (got := "".join(ours.stream(ids, skip_special=skip))) != back:
                yield f"stream, skip {skip}", text, back, got


def same(ours, texts, encode, decode, **options):
    found = list(differences(ours, texts, encode, decode, **options))
    assert not found, f"{len(found)} differences, the first: {[ascii(x)[:400] for x in found[0]]}"
