"""Hub and host are told apart, and a hub is a Karmada."""

import logging

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.runner.hub_presence import KUBE_SYSTEM_PATH, check_apart, check_karmada
from tests.fakes import objects, served
from tests.fakes.api_server import KUBE_SYSTEM_UID, FakeApiServer

OTHER_UID = "7d0a4f6e-0000-4c55-9a0b-6b1f0c2d7e11"


async def test_server_without_clusters_is_no_karmada() -> None:
    async with FakeApiServer(served.HOST) as host:
        with pytest.raises(
            ConfigError, match=r"is not a Karmada control plane: it does not serve cluster\.karmada"
        ):
            await check_karmada(host.client("hub"), pause_s=0.0)


async def test_karmada_that_just_starts_is_waited_for() -> None:
    async with FakeApiServer(served.HUB) as hub:
        hub.answer(b"404 page not found", 404, path=CLUSTERS_PATH, times=3)
        await check_karmada(hub.client("hub"), pause_s=0.0)


async def test_hub_that_does_not_answer_is_not_judged() -> None:
    async with FakeApiServer(served.HUB) as hub:
        client = hub.client("hub")
        with hub.down(), pytest.raises(UnreachableError):
            await check_karmada(client, pause_s=0.0)


async def test_one_api_server_as_hub_and_host_is_refused() -> None:
    async with FakeApiServer(served.HUB) as hub:
        kube_system = objects.namespace("kube-system")
        kube_system["metadata"]["uid"] = KUBE_SYSTEM_UID
        hub.seed(kube_system)
        with pytest.raises(
            ConfigError, match=r"karmadaKubeconfig: .* is also the API server of the"
        ):
            await check_apart(hub.client("hub"), KUBE_SYSTEM_UID)
        await check_apart(hub.client("hub"), OTHER_UID)


async def test_uid_that_may_not_be_read_is_said_and_not_held_against_the_hub(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with FakeApiServer(served.HUB) as hub:
        hub.fail(403, path=KUBE_SYSTEM_PATH)
        await check_apart(hub.client("hub"), KUBE_SYSTEM_UID)
    assert "Cannot determine whether hub and host are different API servers" in caplog.text
