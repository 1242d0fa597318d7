"""Text that tries to be everything except text, and a reader that says whether it got through."""

from collections.abc import Sequence
from html.parser import HTMLParser

HOSTILE = (
    "<script>window.owned=1</script><img src=x onerror=\"window.owned=1;alert('x')\"> "
    "![p](https://evil.example/a.png) [l](javascript:alert(1)) <a href='https://evil.example'>e</a> "
    '"><svg onload=alert(2)> $$\\href{https://evil.example}{x}$$ <https://evil.example/b> '
    "<iframe src=https://evil.example></iframe> | `a` | {{7*7}} ${window.owned=1}"
)
"""One line."""

HOSTILE_DOCUMENT = f"""# Title {HOSTILE}

{HOSTILE}

<div onclick="window.owned=1"><style>body{{background:url(https://evil.example/c.png)}}</style>
<img src="https://evil.example/d.png"></div>

| a | b |
|---|---|
| {HOSTILE.replace("|", " ")} | ![p][r] |

```mermaid
graph LR; A-->B; click A "https://evil.example"

![p](https://evil.example/e.png)
```

[r]: https://evil.example/f.png
"""
"""A Markdown document."""

OWN_TAGS = frozenset(
    "div section p span strong em code pre br hr ul ol li h3 h4 h5 h6 table thead tbody tr th td blockquote "
    "details summary a".split()
)
"""What our own markup is made of; nothing in it can fetch or run anything, and links lead to this page."""


class Reader(HTMLParser):
    """Reads markup as a browser would, and collects elements, attributes and text."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag not in {"br", "hr"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.text += data


def read_own(markup: str) -> Reader:
    """Read markup of ours; fails if anything but our own elements is in it."""
    assert "\n" not in markup and markup.startswith("<div ")
    reader = Reader(markup)
    assert reader.open == []
    assert set(reader.tags) <= OWN_TAGS
    assert reader.attributes <= {"class", "style", "role", "scope", "href"}
    assert all(link.startswith("?library=") for link in reader.links)
    return reader


def says(markup: str, *words: str, no: Sequence[str] = ()) -> None:
    """Check that markup of ours says all of these words, and none of `no`."""
    text = read_own(markup).text
    assert [each for each in words if each not in text] == [] == [each for each in no if each in text], text
