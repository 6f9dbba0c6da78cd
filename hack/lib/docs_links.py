"""A hook of mkdocs: links out of docs/ name a file of the repository, which is not on the site."""

import re
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\[((?:[^\]\\]|\\.)*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, /, *, page: Any, **_: Any) -> str:
    """Return a page with such links as text. Raises FileNotFoundError for a broken one."""
    source = _ROOT / "docs" / page.file.src_uri

    def plain(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = (source.parent / target).resolve()
        if path.is_relative_to(_ROOT / "docs") and path.suffix and path.exists():
            return match[0]
        if not path.exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {target}, which is not there")
        name = f"`{path.relative_to(_ROOT)}`"
        return text if text.strip("`") == name.strip("`") else f"{text} ({name})"

    return _LINK.sub(plain, markdown)
