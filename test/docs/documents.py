"""Reads the fenced blocks of our documents, and names their sections."""

import re

BLOCK = re.compile(
    r"(?:^ *<!-- (?P<mark>[^>]*?) -->\n)?^(?P<indent> *)```(?P<language>\w+)\n(?P<text>.*?)^ *```", re.M | re.S
)


def blocks(path, language):
    """Yields (mark, text) of each block; mark: the comment on the line before the block, or ''."""
    for m in BLOCK.finditer(path.read_text()):
        if m["language"] == language:
            indent = m["indent"]
            lines = [line.removeprefix(indent) for line in m["text"].splitlines()]
            yield (m["mark"] or "").strip(), "\n".join(lines) + "\n"


def slug(heading):
    """Returns the anchor that sites that show Markdown use for a section."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
