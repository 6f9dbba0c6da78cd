"""Store: order of versions, tombstones, indexes, differences of a new list."""

from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from karmada_vc_agent.kube.codec import RawCodec, Unreadable
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object, labels_of

Change = tuple[int | None, int | None]


def obj(version: int, name: str = "web", uid: str = "u1", **labels: str) -> Object:
    metadata = {"name": name, "namespace": "edge", "uid": uid, "resourceVersion": str(version)}
    return {"kind": "Thing", "metadata": {**metadata, "labels": labels}}


def version_of(thing: Object | None) -> int | None:
    return int(thing["metadata"]["resourceVersion"]) if thing is not None else None


def teams(thing: Object) -> Iterable[str]:
    team = labels_of(thing).get("team")
    return (team,) if team else ()


def new_store() -> tuple[Store[Object], list[Change]]:
    """Return a store with an index, and the changes its handler is told of."""
    store: Store[Object] = Store(RawCodec(), {"team": teams})
    told: list[Change] = []
    store.add_handler(lambda old, new: told.append((version_of(old), version_of(new))))
    return store, told


def test_changes_are_stored_and_notified() -> None:
    store, told = new_store()
    store.apply(obj(1))
    store.apply(obj(2))
    store.remove(obj(3))
    assert told == [(None, 1), (1, 2), (2, None)]
    assert len(store) == 0


def test_older_version_from_the_watch_is_dropped() -> None:
    store, told = new_store()
    store.apply(obj(5))
    store.apply(obj(4))
    assert store.get("edge", "web") == obj(5)
    assert told == [(None, 5)]


def test_versions_are_compared_as_numbers() -> None:
    store, _ = new_store()
    store.apply(obj(9))
    store.apply(obj(10))
    assert store.get("edge", "web") == obj(10)


def test_older_version_of_another_object_of_that_name_is_stored() -> None:
    store, _ = new_store()
    store.apply(obj(5, uid="u1"))
    store.apply(obj(4, uid="u2"))
    assert store.get("edge", "web") == obj(4, uid="u2")


def test_versions_that_are_no_numbers_count_as_newer() -> None:
    store: Store[Object] = Store(RawCodec())
    strange = obj(1)
    strange["metadata"]["resourceVersion"] = "abc"
    store.apply(obj(5))
    store.apply(strange)
    assert store.get("edge", "web") == strange


def test_response_to_a_write_is_stored_and_notified_only_by_the_watch() -> None:
    store, told = new_store()
    store.apply(obj(1))
    store.observe(obj(2))
    assert store.get("edge", "web") == obj(2)
    assert told == [(None, 1)]
    store.apply(obj(2))
    assert told == [(None, 1), (2, 2)]


def test_answer_older_than_what_the_watch_has_shown_is_dropped() -> None:
    store, _ = new_store()
    store.apply(obj(5))
    store.observe(obj(4))
    assert store.get("edge", "web") == obj(5)


def test_answer_about_an_object_seen_deleted_does_not_bring_it_back() -> None:
    store, _ = new_store()
    store.apply(obj(1))
    store.remove(obj(3))
    store.observe(obj(2))
    assert store.get("edge", "web") is None


def test_answer_about_an_object_that_a_list_lacked_does_not_bring_it_back() -> None:
    store, _ = new_store()
    store.apply(obj(1))
    store.replace_all([])
    store.observe(obj(2))
    assert store.get("edge", "web") is None


def test_response_about_an_object_deleted_before_a_list_is_dropped() -> None:
    store, _ = new_store()
    store.replace_all([], "7")
    store.observe(obj(6))
    assert store.get("edge", "web") is None


def test_answer_newer_than_the_list_is_stored() -> None:
    store, _ = new_store()
    store.replace_all([], "7")
    store.observe(obj(8))
    assert store.get("edge", "web") == obj(8)


def test_list_notifies_an_observed_object_that_the_watch_has_not_shown() -> None:
    store, told = new_store()
    store.observe(obj(5))
    store.replace_all([obj(5)], "6")
    store.replace_all([obj(5)], "7")
    assert told == [(5, 5)]


def test_new_object_of_a_deleted_name_is_observed() -> None:
    store, _ = new_store()
    store.apply(obj(1))
    store.remove(obj(2))
    store.observe(obj(3, uid="u2"))
    assert store.get("edge", "web") == obj(3, uid="u2")


def test_deletion_of_an_object_replaced_meanwhile_is_not_notified() -> None:
    store, told = new_store()
    store.observe(obj(5, uid="u2"))
    store.remove(obj(4, uid="u1"))
    assert store.get("edge", "web") == obj(5, uid="u2")
    assert told == []


def test_deletion_of_an_uncached_object_is_not_notified() -> None:
    store, told = new_store()
    store.remove(obj(4))
    assert told == []


def test_list_notifies_the_differences_only() -> None:
    store, told = new_store()
    for name in ("kept", "changed", "gone"):
        store.apply(obj(1, name, name))
    told.clear()
    store.replace_all([obj(1, "kept", "kept"), obj(3, "changed", "changed"), obj(2, "new", "new")])
    assert sorted(told, key=str) == sorted([(1, None), (1, 3), (None, 2)], key=str)
    assert {thing["metadata"]["name"] for thing in store} == {"kept", "changed", "new"}


def test_store_is_synced_after_its_first_list() -> None:
    store, _ = new_store()
    store.apply(obj(1))
    assert not store.is_synced
    store.replace_all([])
    assert store.is_synced


def test_list_older_than_an_observed_answer_keeps_the_answer() -> None:
    store, _ = new_store()
    store.observe(obj(5))
    store.replace_all([obj(4)])
    assert store.get("edge", "web") == obj(5)


def test_list_from_before_an_object_was_created_does_not_remove_it() -> None:
    store, told = new_store()
    store.observe(obj(5))
    store.replace_all([], "4")
    assert store.get("edge", "web") == obj(5)
    assert told == []
    store.replace_all([], "6")
    assert store.get("edge", "web") is None


def test_index_follows_changes() -> None:
    store, _ = new_store()
    store.apply(obj(1, "one", "u1", team="red"))
    store.apply(obj(2, "two", "u2", team="red"))
    store.apply(obj(3, "one", "u1", team="blue"))
    assert store.by_index("team", "red") == [obj(2, "two", "u2", team="red")]
    assert store.by_index("team", "blue") == [obj(3, "one", "u1", team="blue")]
    store.remove(obj(4, "two", "u2"))
    assert store.by_index("team", "red") == []


def test_handler_added_later_is_notified_of_existing_objects() -> None:
    store, _ = new_store()
    store.apply(obj(1))
    told: list[Change] = []
    store.add_handler(lambda old, new: told.append((version_of(old), version_of(new))))
    assert told == [(None, 1)]


def test_store_may_change_while_it_is_iterated() -> None:
    store, _ = new_store()
    for name in ("a", "b", "c"):
        store.apply(obj(1, name, name))
    for thing in store:
        store.remove(thing)
    assert len(store) == 0


NAMES = st.sampled_from(["a", "b", "c"])
TEAMS = st.sampled_from(["", "red", "blue"])


class ServerWatchAndAnswers(RuleBasedStateMachine):
    """A server changes; the store hears of it in order by the watch, and at any time by answers.

    The model: what the server had at the version up to which the watch has been heard, or a
    newer state where an answer brought it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.store, _ = new_store()
        self.mirror: dict[str, int] = {}
        self.store.add_handler(self.follow)
        self.version = 0
        self.live: dict[str, Object] = {}
        self.events: list[tuple[str, Object]] = []
        self.answers: list[Object] = []

    def follow(self, old: Object | None, new: Object | None) -> None:
        thing = new or old
        assert thing is not None
        name = thing["metadata"]["name"]
        if new is None:
            self.mirror.pop(name, None)
        else:
            self.mirror[name] = version_of(new) or 0

    @rule(name=NAMES, team=TEAMS)
    def write(self, name: str, team: str) -> None:
        self.version += 1
        old = self.live.get(name)
        uid = old["metadata"]["uid"] if old else f"uid-{self.version}"
        labels = {"team": team} if team else {}
        self.live[name] = obj(self.version, name, uid, **labels)
        self.events.append(("MODIFIED" if old else "ADDED", self.live[name]))
        self.answers.append(self.live[name])

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if name in self.live:
            self.version += 1
            gone = self.live.pop(name)
            self.events.append(("DELETED", obj(self.version, name, gone["metadata"]["uid"])))

    @rule(count=st.integers(1, 3))
    def watch(self, count: int) -> None:
        for kind, thing in self.events[:count]:
            if kind == "DELETED":
                self.store.remove(thing)
            else:
                self.store.apply(thing)
        del self.events[:count]

    @rule(pick=st.integers(0, 20))
    def answer(self, pick: int) -> None:
        if self.answers:
            self.store.observe(self.answers.pop(pick % len(self.answers)))

    @rule()
    def list_again(self) -> None:
        self.events.clear()
        self.store.replace_all(list(self.live.values()), str(self.version))

    @invariant()
    def indexes_show_what_is_stored(self) -> None:
        for team in ("red", "blue"):
            found = {thing["metadata"]["name"] for thing in self.store.by_index("team", team)}
            assert found == {t["metadata"]["name"] for t in self.store if team in teams(t)}

    @invariant()
    def everything_is_right_once_the_watch_is_heard(self) -> None:
        if self.events:
            return
        assert {t["metadata"]["name"]: t for t in self.store} == self.live

    @invariant()
    def handlers_know_all_that_is_there_once_the_watch_is_heard(self) -> None:
        if not self.events:
            assert self.mirror.keys() == self.live.keys()


ServerWatchAndAnswers.TestCase.settings = settings(
    max_examples=60, stateful_step_count=20, deadline=None
)
test_store_ends_like_the_server = ServerWatchAndAnswers.TestCase


def broken(thing: Object) -> Iterable[str]:
    if "bad" in labels_of(thing):
        raise TypeError("unhashable type: 'list'")
    return ("all",)


def test_index_that_fails_at_an_object_costs_only_its_entry() -> None:
    faults: list[str] = []
    store: Store[Object] = Store(RawCodec(), {"broken": broken, "team": teams})
    store.on_fault = faults.append
    store.apply(obj(1, bad="1", team="a"))
    store.apply(obj(2, "db", "u2", team="a"))
    assert len(store.by_index("team", "a")) == 2
    assert store.by_index("broken", "all") == [obj(2, "db", "u2", team="a")]
    store.apply(obj(3, team="a"))
    assert len(store.by_index("broken", "all")) == 2
    assert set(faults) == {"index"}


def test_handler_that_fails_does_not_keep_a_change_from_the_others() -> None:
    faults: list[str] = []
    told: list[Change] = []
    store: Store[Object] = Store(RawCodec())
    store.on_fault = faults.append

    def fails(old: Object | None, new: Object | None) -> None:
        raise KeyError("a bug")

    store.add_handler(fails)
    store.add_handler(lambda old, new: told.append((version_of(old), version_of(new))))
    store.apply(obj(1))
    store.remove(obj(1))
    assert told == [(None, 1), (1, None)]
    assert faults == ["handler", "handler"]


def test_unreadable_object_does_not_count_as_deleted() -> None:
    store, told = new_store()
    store.replace_all([obj(1), obj(1, "db", "u2")], "1")
    store.replace_all([], "2", [Unreadable(("edge", "web"), "odd")])
    assert [thing["metadata"]["name"] for thing in store] == ["web"]
    assert store.unreadable == {("edge", "web"): "odd"}
    store.replace_all([], "3", [Unreadable(None, "no object")])
    assert len(store) == 1
    store.replace_all([], "4")
    assert len(store) == 0
    assert not store.unreadable
    assert told[-1] == (1, None)


def test_listener_that_fails_at_a_list_does_not_keep_it_from_the_store() -> None:
    store, told = new_store()
    faults: list[str] = []
    store.on_fault = faults.append

    def fails(_: bool) -> None:
        raise KeyError("odd")

    store.on_replaced = fails
    store.replace_all([obj(1)], "1")
    assert (len(store), store.is_synced, len(told)) == (1, True, 1)
    assert faults == ["handler"]
