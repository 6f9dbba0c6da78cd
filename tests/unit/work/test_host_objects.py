"""HostObjects: the write that makes the live object right, and its races."""

import pytest

from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import ConflictError, NotFoundError
from karmada_vc_agent.kube.flows import WRITE_ATTEMPTS
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import GroupVersionKind, Object, labels_of
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL
from karmada_vc_agent.work import host_objects
from karmada_vc_agent.work.host_objects import Applied, HostObjects, RecreationError
from karmada_vc_agent.work.rules.apply_plan import ForeignError
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer
from tests.fakes.world import fill

MAPS = Resource(GroupVersionKind("", "v1", "ConfigMap"), "configmaps", namespaced=True)
COLLECTION = "/api/v1/namespaces/hns/configmaps"
PATH = f"{COLLECTION}/settings"


def desired(value: str = "1", vc: str = "branch-a") -> Object:
    obj = objects.config_map(ns="hns", value=value)
    obj["metadata"]["labels"][CLUSTER_LABEL] = vc
    return obj


def as_it_is(obj: Object, _live: Object | None) -> Object:
    return obj


class Setting:
    """HostObjects with an informer store that a test fills when it wants to."""

    def __init__(self, host: FakeApiServer, client: ApiClient) -> None:
        self.host, self._client = host, client
        self.restart()
        host.seed(objects.namespace("hns"))
        self.look()

    def restart(self) -> None:
        """Go on as a new process, which has listed nothing."""
        self.store: Store[Object] = Store(RawCodec())
        self.host_objects = HostObjects(self._client, lambda _: self.store, scopes=Scopes())

    def look(self) -> None:
        fill(self.store, self.host, MAPS.path())
        self.host.requests.clear()

    async def apply(self, value: str = "1", vc: str = "branch-a") -> Applied:
        return await self.host_objects.apply(MAPS, desired(value, vc), as_it_is)

    async def applied(self, value: str = "1") -> Applied:
        outcome = await self.apply(value)
        assert isinstance(outcome, Applied)
        return outcome

    def sent(self) -> list[str]:
        return [request.method for request in self.host.requests]


@pytest.fixture
def setting(host: FakeApiServer, client: ApiClient) -> Setting:
    return Setting(host, client)


async def test_absent_object_is_created_with_one_request(setting: Setting) -> None:
    outcome = await setting.applied()
    assert outcome.was_written
    assert not outcome.was_recreated
    assert setting.sent() == ["POST"]
    assert setting.host.live(PATH)["data"] == {"value": "1"}


async def test_object_that_is_deleted_between_its_first_read_and_the_first_list_is_a_change(
    setting: Setting,
) -> None:
    """As after a restart: it was as it is to be, so nothing else would bring it back."""
    await setting.applied()
    setting.restart()
    changes: list[tuple[bool, bool]] = []
    setting.store.add_handler(lambda old, new: changes.append((old is None, new is None)))
    assert not (await setting.applied()).was_written
    assert changes == []
    setting.host.remove(PATH)
    setting.look()
    assert changes == [(False, True)]
    assert (await setting.applied()).was_recreated


async def test_object_that_another_changed_after_its_first_read_is_a_change(
    setting: Setting,
) -> None:
    await setting.applied()
    setting.restart()
    await setting.applied()
    setting.host.change(PATH, data={"value": "theirs"})
    values: list[object] = []
    setting.store.add_handler(lambda _, new: values.append((new or {})["data"]["value"]))
    setting.look()
    assert values == ["1", "theirs"]
    assert (await setting.applied()).was_written


async def test_response_is_cached_before_the_watch_shows_it(setting: Setting) -> None:
    outcome = await setting.applied()
    assert setting.host_objects.cached(MAPS, "hns", "settings") == outcome.live


async def test_object_as_we_left_it_costs_no_request(setting: Setting) -> None:
    await setting.apply()
    setting.look()
    assert not (await setting.applied()).was_written
    assert setting.sent() == []


async def test_object_that_the_server_completed_is_not_written_again(setting: Setting) -> None:
    """Defaults make live and desired differ for ever; only the remembered version helps."""
    completed = {**desired(), "immutable": False}
    setting.host.answer(json_of(setting.host.seed(completed)), 201)
    await setting.apply()
    setting.look()
    await setting.apply()
    assert setting.sent() == []


async def test_writes_of_one_virtual_cluster_are_remembered_up_to_a_number(
    setting: Setting, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_objects, "REMEMBERED", 2)
    setting.host_objects = HostObjects(client, lambda _: setting.store, scopes=Scopes())
    maps = [desired(vc=vc) for vc in ("branch-a", "branch-b", "branch-b", "branch-b")]
    for number, obj in enumerate(maps):
        obj["metadata"]["name"] = f"map-{number}"
        await setting.host_objects.apply(MAPS, obj, as_it_is)
        setting.host.remove(f"{COLLECTION}/map-{number}")
    setting.look()
    outcomes = [await setting.host_objects.apply(MAPS, obj, as_it_is) for obj in maps]
    recreated = [isinstance(each, Applied) and each.was_recreated for each in outcomes]
    assert recreated[0], "another virtual cluster took its place"
    assert not recreated[1], "it was remembered for ever"


def json_of(obj: Object) -> bytes:
    import orjson  # noqa: PLC0415 - one use

    return orjson.dumps(obj)


async def test_changed_manifest_replaces_the_object(setting: Setting) -> None:
    await setting.apply("1")
    assert (await setting.applied("2")).was_written
    assert setting.sent() == ["POST", "PUT"]
    assert setting.host.live(PATH)["data"] == {"value": "2"}


async def test_object_changed_on_the_host_is_put_right(setting: Setting) -> None:
    await setting.apply()
    setting.host.change(PATH, data={"value": "by hand"})
    setting.look()
    assert (await setting.applied()).was_written
    assert setting.host.live(PATH)["data"] == {"value": "1"}


async def test_object_recreated_with_the_same_generation_is_corrected(
    host: FakeApiServer, client: ApiClient
) -> None:
    """A generation counts from 1 again, so it says nothing of another object of the name."""
    host.seed(objects.namespace("hns"))
    apps = Resource(GroupVersionKind("apps", "v1", "Deployment"), "deployments", namespaced=True)
    store: Store[Object] = Store(RawCodec())
    wanted = objects.deployment(ns="hns")
    wanted["metadata"]["labels"][CLUSTER_LABEL] = "branch-a"
    host_objects = HostObjects(client, lambda _: store, scopes=Scopes())
    await host_objects.apply(apps, wanted, as_it_is)
    path = "/apis/apps/v1/namespaces/hns/deployments/web"
    host.remove(path)
    host.seed({**wanted, "spec": {**wanted["spec"], "replicas": 7}})
    fill(store, host, apps.path())
    outcome = await host_objects.apply(apps, wanted, as_it_is)
    assert isinstance(outcome, Applied)
    assert outcome.was_written
    assert host.live(path)["spec"]["replicas"] == 2


async def test_restarted_process_finds_the_object_right_without_writing(
    setting: Setting, client: ApiClient
) -> None:
    await setting.apply()
    setting.look()
    restarted = HostObjects(client, lambda _: setting.store, scopes=Scopes())
    outcome = await restarted.apply(MAPS, desired(), as_it_is)
    assert outcome == Applied(setting.store.get("hns", "settings") or {}, was_written=False)
    assert setting.sent() == []


async def test_object_without_an_informer_is_read_from_the_server(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(objects.namespace("hns"), desired())
    outcome = await HostObjects(client, lambda _: None, scopes=Scopes()).apply(
        MAPS, desired(), as_it_is
    )
    assert isinstance(outcome, Applied)
    assert not outcome.was_written
    assert [request.method for request in host.requests] == ["GET"]


async def test_object_that_the_informer_does_not_show_yet_is_read_first(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(objects.namespace("hns"), desired())
    unsynced: Store[Object] = Store(RawCodec())
    await HostObjects(client, lambda _: unsynced, scopes=Scopes()).apply(MAPS, desired(), as_it_is)
    assert [request.method for request in host.requests] == ["GET"]


async def test_managed_object_made_meanwhile_is_adopted(setting: Setting) -> None:
    setting.host.seed(objects.config_map(ns="hns", value="0"))
    outcome = await setting.applied()
    assert setting.sent() == ["POST", "GET", "PUT"]
    assert labels_of(outcome.live)[CLUSTER_LABEL] == "branch-a"
    assert setting.host.live(PATH)["data"] == {"value": "1"}


async def test_unmanaged_object_is_foreign(setting: Setting) -> None:
    unmanaged = objects.config_map(ns="hns", value="0")
    unmanaged["metadata"]["labels"] = {}
    setting.host.seed(unmanaged)
    with pytest.raises(ForeignError):
        await setting.apply()
    assert setting.host.live(PATH)["data"] == {"value": "0"}


async def test_unmanaged_object_is_taken_where_the_manifest_says_overwrite(
    setting: Setting,
) -> None:
    unmanaged = objects.config_map(ns="hns", value="0")
    unmanaged["metadata"]["labels"] = {}
    setting.host.seed(unmanaged)
    wanted = desired()
    wanted["metadata"]["annotations"][vocabulary.CONFLICT_RESOLUTION_ANNOTATION] = "overwrite"
    outcome = await setting.host_objects.apply(MAPS, wanted, as_it_is)
    assert isinstance(outcome, Applied)
    assert setting.host.live(PATH)["data"] == {"value": "1"}


async def test_object_of_another_virtual_cluster_is_foreign(setting: Setting) -> None:
    setting.host.seed(desired("0", vc="branch-b"))
    setting.look()
    with pytest.raises(ForeignError):
        await setting.apply()
    assert setting.sent() == []


async def test_object_changed_between_reading_and_writing_is_planned_again(
    setting: Setting,
) -> None:
    await setting.apply()
    setting.host.requests.clear()
    setting.host.before("PUT", PATH, lambda: setting.host.change(PATH, data={"value": "x"}))
    assert (await setting.applied("2")).was_written
    assert setting.sent() == ["PUT", "GET", "PUT"]
    assert setting.host.live(PATH)["data"] == {"value": "2"}


async def test_conflicts_without_end_are_left_to_the_queue(setting: Setting) -> None:
    await setting.apply()
    setting.host.requests.clear()
    setting.host.fail(409, "Conflict", method="PUT", times=100)
    with pytest.raises(ConflictError):
        await setting.apply("2")
    assert setting.sent().count("PUT") == WRITE_ATTEMPTS


async def test_object_deleted_behind_the_informer_is_made_again(setting: Setting) -> None:
    await setting.apply()
    setting.look()
    setting.host.remove(PATH)
    outcome = await setting.applied("2")
    assert (outcome.was_written, outcome.was_recreated) == (True, True)
    assert setting.host.live(PATH)["data"] == {"value": "2"}


async def test_object_deleted_on_the_host_counts_as_recreated(setting: Setting) -> None:
    await setting.apply()
    setting.host.remove(PATH)
    setting.look()
    outcome = await setting.applied()
    assert (outcome.was_written, outcome.was_recreated) == (True, True)


async def test_object_that_cannot_be_recreated_is_distinguished(setting: Setting) -> None:
    await setting.apply()
    setting.host.remove(PATH)
    setting.look()
    setting.host.fail(422, method="POST", message="no room")
    with pytest.raises(RecreationError, match="no room"):
        await setting.apply()


async def test_object_removed_by_us_does_not_count_as_recreated(setting: Setting) -> None:
    await setting.apply()
    await setting.host_objects.remove(MAPS, desired())
    setting.look()
    assert not (await setting.applied()).was_recreated


async def test_missing_namespace_is_an_error(setting: Setting) -> None:
    setting.host.remove("/api/v1/namespaces/hns")
    with pytest.raises(NotFoundError, match='namespaces "hns" not found'):
        await setting.apply()


async def test_what_is_written_is_what_the_check_returns(setting: Setting) -> None:
    def check(obj: Object, live: Object | None) -> Object:
        assert live is None
        return {**obj, "data": {"value": "checked"}}

    await setting.host_objects.apply(MAPS, desired(), check)
    assert setting.host.live(PATH)["data"] == {"value": "checked"}


async def test_refusal_of_the_check_stops_the_write(setting: Setting) -> None:
    def check(_obj: Object, _live: Object | None) -> Object:
        raise PermissionError("no")

    with pytest.raises(PermissionError):
        await setting.host_objects.apply(MAPS, desired(), check)
    assert setting.sent() == []


async def test_object_that_retain_leaves_alone_is_checked_too(setting: Setting) -> None:
    """What an owner's script retains may be what somebody edited on the host."""

    def check(obj: Object, live: Object | None) -> Object:
        return {**obj, "data": {**obj["data"], "pinned": "yes"}}

    setting.host.seed(desired())
    setting.look()
    applied = await setting.host_objects.apply(MAPS, desired(), check)
    assert isinstance(applied, Applied)
    assert applied.was_written
    assert setting.sent() == ["PUT"]
    assert setting.host.live(PATH)["data"] == {"value": "1", "pinned": "yes"}


async def test_object_that_passes_the_check_is_kept(setting: Setting) -> None:
    setting.host.seed(desired())
    setting.look()
    applied = await setting.host_objects.apply(MAPS, desired(), as_it_is)
    assert isinstance(applied, Applied)
    assert not applied.was_written
    assert setting.sent() == []


# --- remove, release -----------------------------------------------------------------------------


async def test_own_object_is_deleted_by_its_uid(setting: Setting) -> None:
    outcome = await setting.applied()
    setting.host.requests.clear()
    await setting.host_objects.remove(MAPS, desired())
    (deletion,) = setting.host.requests
    assert deletion.body["preconditions"] == {"uid": outcome.live["metadata"]["uid"]}
    assert deletion.body["propagationPolicy"] == "Background"
    assert setting.host.find(PATH) is None


async def test_recreated_object_with_our_marks_is_deleted(setting: Setting) -> None:
    await setting.apply()
    setting.look()
    setting.host.remove(PATH)
    setting.host.seed(desired("recreated"))
    await setting.host_objects.remove(MAPS, desired())
    assert setting.host.find(PATH) is None
    assert setting.sent() == ["DELETE", "GET", "DELETE"]


async def test_object_recreated_by_another_writer_is_not_deleted(setting: Setting) -> None:
    await setting.apply()
    setting.look()
    setting.host.remove(PATH)
    theirs = objects.config_map(ns="hns", value="theirs")
    theirs["metadata"]["labels"] = {}
    setting.host.seed(theirs)
    await setting.host_objects.remove(MAPS, desired())
    assert setting.host.live(PATH)["data"] == {"value": "theirs"}


async def test_object_deleted_by_another_writer_is_deleted(setting: Setting) -> None:
    await setting.apply()
    setting.look()
    setting.host.remove(PATH)
    await setting.host_objects.remove(MAPS, desired())
    assert setting.sent() == ["DELETE", "GET"]


async def test_removal_that_always_meets_another_object_is_left_to_the_queue(
    setting: Setting,
) -> None:
    await setting.apply()
    setting.host.fail(409, "Conflict", method="DELETE", times=WRITE_ATTEMPTS)
    with pytest.raises(ConflictError):
        await setting.host_objects.remove(MAPS, desired())
    await setting.host_objects.remove(MAPS, desired())
    assert setting.host.find(PATH) is None


async def test_missing_object_need_not_be_deleted(setting: Setting) -> None:
    await setting.host_objects.remove(MAPS, desired())
    assert setting.sent() == ["GET"]


@pytest.mark.parametrize("labels", [{}, {vocabulary.MANAGED_LABEL: "true", CLUSTER_LABEL: "other"}])
async def test_foreign_object_is_not_deleted(setting: Setting, labels: dict[str, str]) -> None:
    foreign = objects.config_map(ns="hns")
    foreign["metadata"]["labels"] = labels
    setting.host.seed(foreign)
    setting.look()
    await setting.host_objects.remove(MAPS, desired())
    assert setting.host.find(PATH) is not None


async def test_released_object_keeps_its_content_without_our_marks(setting: Setting) -> None:
    await setting.apply()
    await setting.host_objects.release(MAPS, desired())
    live = setting.host.live(PATH)
    assert live["data"] == {"value": "1"}
    assert labels_of(live) == {}


async def test_releasing_a_deleted_object_is_fine(setting: Setting) -> None:
    await setting.host_objects.release(MAPS, desired())


async def test_foreign_object_is_not_released(setting: Setting) -> None:
    setting.host.seed(desired(vc="branch-b"))
    await setting.host_objects.release(MAPS, desired())
    assert setting.sent() == ["GET"]


async def test_release_that_meets_a_change_is_tried_again(setting: Setting) -> None:
    await setting.apply()
    setting.host.before("PUT", PATH, lambda: setting.host.change(PATH, data={"value": "x"}))
    await setting.host_objects.release(MAPS, desired())
    assert labels_of(setting.host.live(PATH)) == {}


async def test_release_that_always_meets_a_change_is_left_to_the_queue(setting: Setting) -> None:
    await setting.apply()
    setting.host.fail(409, "Conflict", method="PUT", times=100)
    with pytest.raises(ConflictError):
        await setting.host_objects.release(MAPS, desired())
