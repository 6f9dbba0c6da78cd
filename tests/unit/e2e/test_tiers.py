"""The smoke tier stays small: what is added to it takes the place of something."""

import re
from pathlib import Path

E2E = Path(__file__).parents[3] / "e2e"
SMOKE = re.compile(r"^@pytest\.mark\.smoke\n(?:@.*\n)*def (test_\w+)", re.MULTILINE)


def test_smoke_tier_has_few_stories() -> None:
    paths = E2E.glob("test_*.py")
    stories = [story for path in paths for story in SMOKE.findall(path.read_text("utf-8"))]
    assert 40 <= len(stories) <= 55
