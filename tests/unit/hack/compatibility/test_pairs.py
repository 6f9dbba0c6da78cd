"""Pairs of versions: how they are written, and which are refused."""

from pathlib import Path

import pytest
import yaml

from compatibility import pairs
from control_planes import tools
from control_planes.errors import ControlPlanesError

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("text", pairs.MEASURED)
def test_each_measured_pair_is_pinned_and_is_written_as_it_is_read(text: str) -> None:
    assert str(pairs.parse(text)) == text


def test_hub_has_the_default_version_unless_it_is_named() -> None:
    default = tools.default_minor(tools.KUBERNETES)

    assert pairs.parse("1.32/1.17").hub == default
    assert pairs.parse("1.32/1.17/1.35").hub == "1.35"


@pytest.mark.parametrize(
    "text", ["1.32", "1.32/1.17/1.35/1.36", "one/two", "1.29/1.18", "1.32/1.1", "1.32/1.18+x"]
)
def test_what_is_no_pair_or_not_pinned_is_refused_before_anything_is_started(text: str) -> None:
    with pytest.raises(ControlPlanesError, match=r"no pair|not pinned"):
        pairs.parse(text)


def test_workflow_measures_the_pairs_that_a_plain_run_does() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "compatibility.yaml").read_text())
    matrix = workflow["jobs"]["pair"]["strategy"]["matrix"]["pair"]
    assert tuple(matrix) == pairs.MEASURED
