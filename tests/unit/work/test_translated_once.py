"""A manifest is translated once in a reconcile, however it ends."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import ApplyAs
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.translate import translate
from karmada_vc_agent.work import manifests
from tests.fakes import objects
from tests.fakes.world import World, new_world

KEY = ("branch-a", "web-1")
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
SETTINGS = "/api/v1/namespaces/edge-v-branch-a/configmaps/settings"
UNKNOWN = {
    "apiVersion": "example.org/v1",
    "kind": "Nothing",
    "metadata": objects.managed("x", "edge"),
}
NO_NAME = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}
INGRESS = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "Ingress",
    "metadata": objects.managed("web", "edge"),
    "spec": {"rules": [{"host": "shop.example.com"}]},
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is translated, `identity` where nothing but the identity of a manifest is."""
    found: list[str] = []

    def counted(manifest: Object, namespaced: bool, context: TranslationContext) -> object:
        found.append("identity" if context.names_only else "manifest")
        return translate(manifest, namespaced, context)

    monkeypatch.setattr(manifests, "translate", counted)
    return found


async def reconcile(world: World, manifest: Object, **spec: object) -> str:
    """Bring a Work and return what its condition Applied says, "" where there is none."""
    world.register()
    world.hub.seed(objects.work(manifest, spec=spec))
    world.look()
    with suppress(RetryError):
        await world.execution.reconcile(KEY)
    conditions = world.hub.live(WORK)["status"]["conditions"]
    return next((str(c["message"]) for c in conditions if c["type"] == "Applied"), "")


@pytest.mark.parametrize(
    "manifest",
    [
        objects.config_map(),
        objects.namespace_manifest(),
        INGRESS,
        objects.deployment(),
    ],
    ids=lambda manifest: manifest["kind"],
)
async def test_manifest_that_is_applied(world: World, asked: list[str], manifest: Object) -> None:
    assert "successfully" in await reconcile(world, manifest)
    assert asked == ["manifest"]


def _foreign(world: World) -> None:
    theirs = objects.config_map(ns="edge-v-branch-a")
    theirs["metadata"]["labels"] = {}
    world.host.seed(objects.claimed(), theirs)


def _host_refuses(world: World) -> None:
    world.host.fail(422, method="POST", path=SETTINGS.rpartition("/")[0], message="no room")


def _namespace_terminates(world: World) -> None:
    going = objects.claimed(deletionTimestamp=objects.SINCE, finalizers=["example.com/wait"])
    world.host.seed(going)


def _namespace_of_another_owner(world: World) -> None:
    world.host.seed(objects.namespace("edge-v-branch-a"))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (_foreign, "already exists"),
        (_host_refuses, "no room"),
        (_namespace_terminates, "NamespaceTerminating"),
        (_namespace_of_another_owner, "NamespaceNotOwned"),
    ],
)
async def test_manifest_that_fails_on_the_host(
    world: World, asked: list[str], given: Callable[[World], None], text: str
) -> None:
    given(world)
    assert text in await reconcile(world, objects.config_map())
    assert asked == ["manifest"]


async def test_manifest_whose_failure_is_shown_to_a_tenant_with_its_own_rights(
    asked: list[str],
) -> None:
    vc = objects.virtual_cluster(apply_as=ApplyAs("tenants", "a", "edit"))
    async with new_world(vc) as world:
        _host_refuses(world)
        assert "no room" in await reconcile(world, objects.config_map())
    assert asked == ["manifest"]


async def test_object_that_cannot_be_made_again(world: World, asked: list[str]) -> None:
    await reconcile(world, objects.config_map())
    world.host.remove(SETTINGS)
    world.look()
    _host_refuses(world)
    asked.clear()
    with pytest.raises(RetryError, match="no room"):
        await world.execution.reconcile(KEY)
    assert asked == ["manifest"]


async def test_of_a_refused_one_the_identity_alone_is_translated_again(
    world: World, asked: list[str]
) -> None:
    """What it made before the rule came to hold is still reported."""
    manifest = objects.deployment(nodeSelector={"branch": "nowhere"})
    assert "NodeSelectorConflict" in await reconcile(world, manifest)
    assert asked == ["manifest", "identity"]


@pytest.mark.parametrize("manifest", [UNKNOWN, NO_NAME], ids=["kind", "name"])
async def test_unidentifiable_manifest_is_not_translated(
    world: World, asked: list[str], manifest: Object
) -> None:
    await reconcile(world, manifest)
    assert asked == []


async def test_suspended_manifest(world: World, asked: list[str]) -> None:
    await reconcile(world, objects.config_map(), suspendDispatching=True)
    assert asked == ["manifest"]


async def test_manifest_that_is_removed(world: World, asked: list[str]) -> None:
    await reconcile(world, objects.config_map())
    world.hub.mark_deleted(WORK)
    world.look()
    asked.clear()
    await world.execution.reconcile(KEY)
    assert asked == ["manifest"]
