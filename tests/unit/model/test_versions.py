"""Which versions were measured, and what is said of others."""

import pytest

from compatibility import pairs
from karmada_vc_agent.model import versions


def test_range_of_hosts_is_what_is_measured() -> None:
    hosts = {tuple(map(int, pairs.parse(each).host.split("."))) for each in pairs.MEASURED}
    major, oldest, newest = *versions.OLDEST, versions.NEWEST[1]
    assert hosts == {(major, minor) for minor in range(oldest, newest + 1)}


@pytest.mark.parametrize(
    ("version", "nearest"),
    [
        ("v1.29.15", "1.30"),
        ("v1.30.0", ""),
        ("v1.34.4-gke.1047000", ""),
        ("v1.37.2+k3s1", ""),
        ("v1.38.0-alpha.1", "1.37"),
        ("v2.0.0", "1.37"),
        ("1.29", "1.30"),
        ("", ""),
        ("v0.0.0-master+$Format:%H$", ""),
        ("v1.38\x1b[31m", ""),
    ],
)
def test_nearest_measured_version_is_named(version: str, nearest: str) -> None:
    text = versions.not_measured(version)
    assert bool(text) == bool(nearest)
    assert not text or f"the nearest that was is {nearest}: see docs" in text
    assert versions.is_too_old(version) == (nearest == "1.30")


def test_hub_without_the_definition_says_nothing() -> None:
    other = {"spec": {"versions": [{"name": "v1alpha2", "schema": {}}]}}
    assert list(versions.missing_fields(None)) == list(versions.missing_fields(other)) == []
