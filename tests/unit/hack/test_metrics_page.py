"""The table of docs/metrics.md is what the metrics declare of themselves."""

import re

import pytest

from generate.metrics_page import DOCUMENT, page
from karmada_vc_agent.feature_list import FEATURES

PAGE = (
    "# Metrics\n\n| name | type | labels | meaning |\n|---|---|---|---|\n| old | | | |\n\nMore.\n"
)


def test_page_is_up_to_date() -> None:
    text = DOCUMENT.read_text()
    assert text == page(text), "run hack/update-metrics"


def test_what_is_around_the_table_stays() -> None:
    made = page(PAGE, ())
    assert made.startswith("# Metrics\n\n| name |")
    assert made.endswith(" |\n\nMore.\n")
    assert "| old |" not in made


def test_family_of_a_feature_has_a_row_with_its_decision() -> None:
    checkpoint = next(each for each in FEATURES if each.name == "checkpoint")
    made = page(PAGE, (checkpoint,))
    meaning = r"Age of the state .* \(\[ADR 42\]\(adr/0042-a-checkpoint-on-the-host\.md\)\)\."
    assert re.search(
        rf"\| `checkpoint_age_seconds` \| gauge \| `member_cluster` \| {meaning} \|", made
    )


def test_page_without_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"docs/metrics\.md has no table"):
        page("# Metrics\n")
