"""Writes markup for `gr.Markdown` from untrusted text: instructions, names, whole documents.

Everything here returns one line of HTML that begins with a block element. Markdown readers pass such a line through
as it is, so nothing in it is read as Markdown, and Gradio's sanitiser goes over it once more in the browser.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_DOCUMENT = 40_000
"""Characters of a document that are shown."""

SHORT = 12
"""Digits of a hash that are shown."""

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"
_BLANK = re.compile(r"\s+")


def plain(text: str) -> str:
    """Return one line of text without what cannot be seen: control characters, direction overrides, zero widths.

    The joiners that scripts such as Persian or Hindi are written with stay.
    """
    text = _BLANK.sub(" ", text)
    return "".join(char for char in text if char in _JOINERS or unicodedata.category(char) not in _HIDDEN)


def escape(text: str) -> str:
    """Make foreign text harmless in HTML, in attributes and in Markdown at once.

    Every character other than letters, digits, marks and spaces becomes a numeric reference, so that no grammar sees
    a bracket, a quotation mark, a dollar sign or a web address in it. A reader sees the text as it is.
    """
    return "".join(
        letter if letter == " " or unicodedata.category(letter)[0] in "LMN" else f"&#{ord(letter)};"
        for letter in plain(text)
    )


def block(markup: str, style: str = "") -> str:
    """Wrap markup into one element on one line.

    Args:
        markup: Markup whose foreign parts are escaped.
        style: Names of classes of the stylesheet.
    """
    one_line = markup.replace("\n", " ")
    return f'<div class="rh {style}">{one_line}</div>'


def paragraph(text: str, style: str = "") -> str:
    """A paragraph of foreign text."""
    return f'<p class="{style}">{escape(text)}</p>' if text else ""


def count(number: int, noun: str) -> str:
    """A number with its noun, in the singular or the plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def named(text: str) -> str:
    """Foreign text in which what stands between backticks is a name."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(code(part) if number % 2 else escape(part) for number, part in enumerate(parts))


def code(text: str) -> str:
    """A foreign name, path or command in a fixed-width font."""
    return f"<code>{escape(text)}</code>"


def hashed(digest: str) -> str:
    """A hash, shortened; the whole of it is its title."""
    return f'<code title="{escape(digest)}">{escape(digest[:SHORT])}</code>'


def whole(digest: str) -> str:
    """A hash in full; it may be broken anywhere."""
    return f'<code class="hash">{escape(digest)}</code>'


def to_library(spec: str, text: str, before: str = "") -> str:
    """A link that opens this page with a Library, or with the comparison of two.

    Args:
        spec: The Library: `org/name@v1.0.0`, or a folder on this computer.
        text: What the link says; foreign or own text.
        before: The Library to compare it with; empty for none.
    """
    query = urlencode({"library": spec, **({"before": before} if before else {})}, safe="/@")
    return f'<a href="{escape(f"?{query}")}">{escape(text)}</a>'


def bullets(items: Iterable[str], style: str = "") -> str:
    """A list of markup whose foreign parts are escaped; nothing for no items."""
    rows = "".join(f"<li>{item}</li>" for item in items)
    return f'<ul class="{style}">{rows}</ul>' if rows else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], style: str = "") -> str:
    """A table; the first cell of a row names it. Headings and cells are markup whose foreign parts are escaped.

    In the style `cards`, other cells also hold their heading, without unit and interval, which a narrow window shows.
    """
    titles = "".join(f'<th scope="col">{title}</th>' for title in head)
    names = [re.split(r"&#44;|&#91;", re.sub(r"<[^>]*>", "", title))[0].strip() for title in head]
    labels = [f'<span class="label">{name} </span>' if name and "cards" in style else "" for name in names]
    lines = (
        f'<th scope="row">{row[0]}</th>'
        + "".join(f"<td>{label if cell else ''}{cell}</td>" for label, cell in zip(labels[1:], row[1:], strict=False))
        for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    whole = f'<table class="{style}"><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{whole}</div>'


def callout(kind: str, title: str, *markup: str) -> str:
    """A framed message.

    Args:
        kind: `empty`, `note`, `warning` or `error`; decides its look.
        title: Foreign or own text.
        markup: What follows, with its foreign parts escaped.
    """
    return f'<section class="callout {kind}"><p class="title">{escape(title)}</p>{"".join(markup)}</section>'


def notice(kind: str, title: str, *texts: str) -> str:
    """A framed message of its own, with paragraphs of foreign or own text."""
    return block(callout(kind, title, *map(paragraph, texts)))


def faint(text: str) -> str:
    """A quiet paragraph of its own, of foreign or own text."""
    return block(paragraph(text, "faint"))


def folded(title: str, markup: str) -> str:
    """Markup behind a title that opens it; nothing for no markup. Foreign parts of both are escaped."""
    return f"<details><summary>{title}</summary>{markup}</details>" if markup else ""


def preformatted(text: str, style: str = "") -> str:
    """Foreign text with its lines kept, in a fixed-width font."""
    return f'<pre class="{style}">{_lines(text)}</pre>'


def diff(text: str) -> str:
    """A unified diff with colored lines; added and removed lines keep their signs, so color is not needed."""
    styles = {"+": "added", "-": "removed", "@": "place"}
    kinds = ("file" if line[:3] in {"+++", "---"} else styles.get(line[:1], "same") for line in text.split("\n"))
    rows = zip(kinds, text.split("\n"), strict=True)
    lines = "&#10;".join(f'<span class="{kind}">{_lines(line) or " "}</span>' for kind, line in rows)
    return f'<pre class="diff">{lines}</pre>'


def _lines(text: str) -> str:
    # Blank space is kept here; `escape` would join the lines.
    return "&#10;".join(
        "&#32;".join(escape(part) for part in line.expandtabs(4).split(" ")) for line in text.split("\n")
    )


def document(text: str) -> str:
    """Render a foreign Markdown document.

    HTML in it is shown as text. Pictures become their description, links become their text and their address in
    plain letters: nothing can be fetched and nothing can be clicked.
    """
    excerpt, rest = text[:MAX_DOCUMENT], len(text) - MAX_DOCUMENT
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": 40}).enable("table")
    markup = "".join(_render(reader.parse(excerpt)))
    more = paragraph(f"{rest} more characters are not shown.", "faint") if rest > 0 else ""
    return block(markup + more, "document")


_TEXTS = {
    **dict.fromkeys(("text", "html_inline", "text_special"), "{}"),
    "code_inline": "<code>{}</code>",
    "softbreak": " ",
    "hardbreak": "<br>",
    "image": '<span class="faint">[picture: {}]</span>',
}
"""Markup of inline tokens; braces stand for their text."""
_HEADINGS = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6", "h6": "h6"}
_BLOCKS = {"p", "blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"}


def _render(tokens: Sequence[Token]) -> Iterable[str]:
    for token in tokens:
        if token.type == "inline":
            yield from _render_inline(token.children or ())
        elif token.type in {"fence", "code_block", "html_block"}:
            yield preformatted(token.content.rstrip("\n"))
        elif token.type == "hr":
            yield "<hr>"
        elif token.tag in _BLOCKS or token.tag in _HEADINGS:
            tag = _HEADINGS.get(token.tag, token.tag)
            if not token.hidden:
                yield f"<{tag}>" if token.nesting == 1 else f"</{tag}>"


def _render_inline(tokens: Sequence[Token]) -> Iterable[str]:
    addresses: list[str] = []
    for token in tokens:
        if token.type in _TEXTS:
            yield _TEXTS[token.type].format(escape(token.content))
        elif token.type == "link_open":
            addresses.append(str(token.attrGet("href") or ""))
        elif token.type == "link_close":
            yield f' <span class="faint">({escape(addresses.pop())})</span>'
        elif token.tag in {"strong", "em"}:
            yield f"<{token.tag}>" if token.nesting == 1 else f"</{token.tag}>"
