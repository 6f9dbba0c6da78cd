"""Settings that features add to those of core."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import load_config, reload
from karmada_vc_agent.config.settings import AgentConfig, Fields, SourceSettings, with_features
from karmada_vc_agent.model.virtual_cluster import Range

HEAD = """
apiVersion: config.virtualcluster.kubeedge.io/v1alpha1
kind: AgentConfig
virtualClusters: [{name: a, nodeNames: [n]}]
"""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    most: Annotated[int, Range(1)] = 3
    """At most."""


class Brewing(Fields, frozen=True):
    brews_tea: bool = False
    """Whether it does."""
    brew_limits: Limits = Limits()
    """Limits."""


class ShelfSettings(SourceSettings, frozen=True, forbid_unknown_fields=True):
    shelf: str = ""
    """Where."""

    @property
    def is_used(self) -> bool:
        return bool(self.shelf)

    def problem(self) -> tuple[str, str] | None:
        return ("shelf", "has no pots") if self.shelf == "empty" else None


class Shelves(Fields, frozen=True):
    shelves: ShelfSettings = ShelfSettings()
    """Virtual clusters of shelves."""


STRUCT = with_features((Fields, Brewing, Shelves))


def load(folder: Path, text: str, **flags: Any) -> AgentConfig:
    path = folder / "agent.yaml"
    path.write_text(HEAD + text)
    return load_config(STRUCT, path, flags)


def test_they_are_read_from_file_and_flags(tmp_path: Path) -> None:
    config = load(tmp_path, "brewLimits: {most: 5}", brews_tea=True)
    assert config.of(Brewing) == Brewing(brews_tea=True, brew_limits=Limits(5))


def test_they_have_their_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, "").of(Brewing) == AgentConfig().of(Brewing) == Brewing()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("brewLimits: {most: 0}", "brewLimits.most: is 0, must be 1 or more"),
        ("brewLimits: {more: 1}", "brewLimits.more: is unknown"),
        ("shelves: {shelf: empty}", "shelves.shelf: has no pots"),
        ("brewsTee: true", 'brewsTee: is unknown; did you mean "brewsTea"?'),
    ],
)
def test_mistakes_in_them_are_reported_as_in_others(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text)
    assert problem in str(raised.value)


def test_they_wait_for_a_restart(tmp_path: Path) -> None:
    running, read = load(tmp_path, ""), load(tmp_path, "brewsTea: true")
    assert reload(running, read) == (running, ("brewsTea",))


def test_sources_of_virtual_clusters_are_taken_at_once(tmp_path: Path) -> None:
    running = load(tmp_path, "")
    assert not running.has_other_sources
    read = load(tmp_path, "bounds: {works: 7}\nshelves: {shelf: top, drain: true}")
    config, at_restart = reload(running, read)
    assert at_restart == ()
    assert config.has_other_sources
    assert config.removes_clusters
    assert config.sources["shelves"].settings.bounds.works == 7
    assert AgentConfig().sources == {}


def test_two_features_cannot_have_one_setting() -> None:
    with pytest.raises(ValueError, match="declared more than once: brew_limits, brews_tea"):
        with_features((Brewing, Brewing))
