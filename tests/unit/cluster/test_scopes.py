"""Scopes: the end of a virtual cluster drops all that is kept of it, and nothing of others."""

from operator import itemgetter

from karmada_vc_agent.cluster.virtual_clusters import Scopes


def test_end_drops_all_that_is_kept_of_one() -> None:
    scopes = Scopes()
    ended: list[str] = []
    scopes.ended.subscribe(ended.append)
    by_name: dict[str, int] = scopes.keep()
    each = scopes.keep_each(list[str])
    by_key: dict[tuple[str, str], int] = scopes.keep_by(itemgetter(0))
    for name in ("branch-a", "branch-b"):
        by_name[name] = 1
        each[name].append("x")
        by_key[name, "web"] = by_key[name, "shop"] = 1
    for _ in range(2):
        scopes.end("branch-a")
    assert by_name == {"branch-b": 1}
    assert each == {"branch-b": ["x"]}
    assert by_key == {("branch-b", "web"): 1, ("branch-b", "shop"): 1}
    assert ended == ["branch-a"] * 2


def test_value_added_after_the_end_is_kept_until_the_next() -> None:
    scopes = Scopes()
    each = scopes.keep_each(list[str])
    each["branch-a"].append("before")
    scopes.end("branch-a")
    each["branch-a"].append("after")
    assert each["branch-a"] == ["after"]
