"""The certificate for the hub: whose it is, when it ends, and that this is told in time."""

import asyncio
import logging
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from prometheus_client import generate_latest

from karmada_vc_agent.agent import Agent
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.kubeconfig import parse_kubeconfig
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.runner.clients import HubCertificate, connect, is_agents_own
from karmada_vc_agent.runner.common import _also_enabled
from tests.fakes.authority import START, Authority, kubeconfig

AGENT = "branches"
DAY_S = 24 * 3600.0


def credentials(chain: bytes | None) -> Credentials:
    return Credentials("https://hub.example", None, "a test", certificate=chain)


class Setting:
    """A certificate of 100 days, at a given day of it."""

    def __init__(self) -> None:
        self.authority = Authority()
        self.day = 1.0
        self.in_use = credentials(self.authority.pair()[0])
        self.watched = HubCertificate(lambda: self.in_use, lambda: START + timedelta(days=self.day))

    async def watch(self, days: float) -> None:
        task = asyncio.create_task(self.watched.watch())
        for _ in range(int(days * 24)):
            await asyncio.sleep(3600.0)
            self.day += 1 / 24
        task.cancel()


@pytest.fixture
def setting() -> Setting:
    return Setting()


def subject(user: str, *groups: str) -> x509.Name:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])


@pytest.mark.parametrize(
    ("who", "is_own"),
    [
        (subject("system:karmada:agent:branches", "system:karmada:agents"), True),
        (subject("system:karmada:agent:other", "system:karmada:agents"), False),
        (subject("system:karmada:agent:branches", "system:masters"), False),
        (subject("system:karmada:agent:branches", "system:karmada:agents", "admins"), False),
        (subject("admin", "system:masters"), False),
    ],
)
def test_certificate_is_the_agents_own_by_user_and_group(who: x509.Name, *, is_own: bool) -> None:
    chain, _ = Authority().pair(subject=who)
    assert is_agents_own(chain, AGENT) is is_own


def test_invalid_certificate_is_not_the_agents_own() -> None:
    assert not is_agents_own(None, AGENT)
    assert not is_agents_own(b"spoiled", AGENT)


@pytest.mark.parametrize(("agent", "enabled"), [(AGENT, ("certRotation",)), ("other", ())])
async def test_own_certificate_is_renewed_by_default(agent: str, enabled: tuple[str, ...]) -> None:
    hub = parse_kubeconfig(kubeconfig(Authority().pair()), Path("hub"))
    config = AgentConfig(agent_name=agent)
    clients = connect(config, hub, credentials(None), lambda: True)
    assert _also_enabled(config, clients) == enabled
    await clients.close()


def test_end_is_that_of_the_certificate_in_use(setting: Setting) -> None:
    assert setting.watched.expires() == START.timestamp() + 100 * DAY_S
    renewed, _ = setting.authority.pair(start=START + timedelta(days=80))
    setting.in_use = credentials(renewed)
    assert setting.watched.expires() == START.timestamp() + 180 * DAY_S
    setting.in_use = credentials(None)
    assert setting.watched.expires() is None


def test_end_is_a_metric(setting: Setting) -> None:
    for chain, shown in ((setting.in_use.certificate, True), (None, False)):
        agent = Agent(AgentConfig(), credentials(chain), credentials(None))
        lines = generate_latest(agent.metrics.registry).decode().splitlines()
        found = [line for line in lines if line.startswith("hub_certificate_expiration_")]
        assert bool(found) is shown
        assert all(float(line.split()[1]) == START.timestamp() + 100 * DAY_S for line in found)


async def test_expiry_is_reported_once_a_day_when_it_is_near(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    await setting.watch(83)
    assert caplog.records == []
    await setting.watch(3.5)
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert len(caplog.records) == 3
    assert "expires soon; see controller certRotation" in caplog.text


async def test_that_it_has_ended_is_an_error(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.day = 100.0
    await setting.watch(0.9)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "has expired; run karmada-vc-agent join" in record.message
