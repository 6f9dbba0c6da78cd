"""VirtualClusterSources: who is served where two sources have a name, and what each replaces."""

from karmada_vc_agent.cluster.registration import VirtualClusterSources
from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from tests.fakes import objects

A, B, C = (objects.virtual_cluster(name) for name in "abc")
OTHER_B = objects.virtual_cluster("b", provider="other")


def test_each_source_replaces_its_own_only() -> None:
    registry = VirtualClusters()
    sources = VirtualClusterSources(registry)
    file, given = sources.add("the settings file", [A]), sources.add("objects")
    given.put(B)
    file.replace_all([C])
    assert dict(registry) == {"b": B, "c": C}
    given.remove("b")
    given.remove("b")
    assert dict(registry) == {"c": C}


def test_older_source_wins_a_name_and_gives_it_up_to_the_younger() -> None:
    registry = VirtualClusters()
    sources = VirtualClusterSources(registry)
    file, given = sources.add("the settings file"), sources.add("objects")
    given.put(OTHER_B)
    assert given.rival("b") is None
    file.replace_all([B])
    assert dict(registry) == {"b": B}
    assert given.rival("b") is file
    assert file.rival("b") is None
    file.replace_all([])
    assert dict(registry) == {"b": OTHER_B}
    assert given.rival("b") is None
    assert "b" in given


def test_already_served_one_is_not_notified_again() -> None:
    registry = VirtualClusters([A])
    changes: list[tuple[VirtualCluster | None, VirtualCluster | None]] = []
    registry.changed.subscribe(lambda old, new: changes.append((old, new)))
    sources = VirtualClusterSources(registry)
    sources.add("the settings file", [A]).replace_all([A])
    given = sources.add("objects")
    given.put(B)
    given.put(B)
    assert changes == [(None, B)]


def test_name_that_only_a_younger_source_has_is_free() -> None:
    registry = VirtualClusters()
    sources = VirtualClusterSources(registry)
    groups, labels = sources.add("a NodeGroup"), sources.add("a node label")
    labels.put(OTHER_B)
    assert groups.rival("b") is None
    groups.put(B)
    assert labels.rival("b") is groups
    assert dict(registry) == {"b": B}


SHOP, MART = (objects.virtual_cluster(name, former_names=("b",)) for name in ("shop", "mart"))


def test_names_on_the_host_are_of_one_only() -> None:
    registry = VirtualClusters()
    sources = VirtualClusterSources(registry)
    file, given = sources.add("the settings file", [B]), sources.add("another object")
    found = sources.add("a NodeGroup")
    given.put(SHOP)
    assert given.rival("shop") is file
    assert dict(registry) == {"b": B}
    file.remove("b")
    assert given.rival("shop") is None
    assert found.rival("b") is given
    found.put(OTHER_B)
    assert found.rival("b") is given
    assert dict(registry) == {"shop": SHOP}
    file.put(MART)
    assert given.rival("shop") is found.rival("b") is file
    assert dict(registry) == {"mart": MART}


def test_first_of_one_source_keeps_its_names() -> None:
    """It runs: another object, by mistake or not, takes nothing from it."""
    registry = VirtualClusters()
    given = VirtualClusterSources(registry).add("another object", [SHOP])
    for later in (MART, B):
        given.put(later)
        assert given.rival(later.name) is given
    assert dict(registry) == {"shop": SHOP}
    given.remove("shop")
    assert dict(registry) == {"mart": MART}
    assert given.rival("b") is given


def test_taken_name_is_reported_with_its_holder() -> None:
    sources = VirtualClusterSources(VirtualClusters())
    file, given = sources.add("the settings file", [B]), sources.add("another object")
    for vc in (OTHER_B, SHOP, C):
        given.put(vc)
    assert given.taken("b") == "the settings file already defines a virtual cluster of this name"
    on_host = "its name on the host is b (formerNames)"
    of_b = "and so is that of virtual cluster b of the settings file"
    assert given.taken("shop") == f"{on_host}, {of_b}"
    assert given.taken("c") == file.taken("b") == ""
    file.replace_all([MART])
    of_mart = "and so is that of virtual cluster mart of the settings file"
    assert given.taken("b") == given.taken("shop") == f"{on_host}, {of_mart}"
    file.replace_all([])
    given.remove("b")
    given.put(MART)
    assert given.taken("mart").endswith("virtual cluster shop of another object")
