"""Writes docs/kinds.md: `hack/update-kinds`."""

from pathlib import Path

from kinds_page.page import page

PAGE = Path(__file__).parents[2] / "docs" / "kinds.md"

if __name__ == "__main__":
    PAGE.write_text(page())
