"""Connections that fail are named as what is wrong with them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.diagnosis.faults import FAULTS, connection_fault, fault, meaning, mixed_up
from karmada_vc_agent.diagnosis.hub_links import age
from karmada_vc_agent.diagnosis.servers import Server, servers
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import (
    ApiError,
    KubeError,
    UnauthorizedError,
    UnreachableError,
    UnreadableError,
)
from karmada_vc_agent.kube.kubeconfig import KubeconfigError
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.translation.kind_policy import Code
from tests.fakes.authority import Authority
from tests.unit.diagnosis.conftest import Chain

UNAUTHORIZED = UnauthorizedError(401, "Unauthorized", "Unauthorized")
HTTPS = ApiError(400, "", "Client sent an HTTP request to an HTTPS server.")


def _server(error: KubeError, certificate: bytes | None = None) -> Server:
    credentials = Credentials("https://hub:1", None, "a.yaml (context x)", certificate=certificate)
    server = Server("hub", ApiClient("hub", credentials))
    server.error = error
    return server


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (UNAUTHORIZED, "CredentialRejected"),
        (HTTPS, "HttpForHttps"),
        (UnreachableError("hub https://hub:1: [SSL: WRONG_VERSION_NUMBER] x"), "HttpsForHttp"),
        (UnreachableError("hub https://hub:1: certificate verify failed"), "CertificateUntrusted"),
        (UnreachableError("hub https://hub:1: cannot connect"), "Unreachable"),
        (UnreadableError("cannot read what hub serves"), "NotAnApiServer"),
    ],
)
async def test_failure_of_a_connection_is_named(error: KubeError, name: str) -> None:
    server = _server(error)
    broken = connection_fault(server)
    assert broken is not None
    assert (broken.name, broken.side) == (name, "hub")
    assert server.connection is not None
    await server.connection.close()
    with pytest.raises(KubeError):
        await server.find(CLUSTERS_PATH)


async def test_certificate_that_ended_is_named_with_its_end() -> None:
    end = datetime.now(UTC) - timedelta(days=1)
    chain, _ = Authority().pair(start=end - timedelta(days=9), lifetime=timedelta(days=9))
    server = _server(UNAUTHORIZED, chain)
    broken = connection_fault(server)
    assert broken is not None
    assert broken.name == "CertificateExpired"
    assert f"ended on {end:%Y-%m-%d}" in broken.says
    assert server.connection is not None
    await server.connection.close()


async def test_default_that_is_the_other_side_is_not_meant(chain: Chain, tmp_path: Path) -> None:
    path = _kubeconfig(tmp_path, chain.hub.url)
    options = {"karmada_kubeconfig": str(path), "karmada_context": "", "kubeconfig": ""}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(path))
        async with servers(options, None) as (hub, host):
            assert hub.is_karmada
            assert host.connection is None
            with pytest.raises(KubeError, match="no kubeconfig was given for the host"):
                await host.find("/api/v1/nodes/a1")


async def test_neither_side_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    options = {"karmada_kubeconfig": "", "karmada_context": "", "kubeconfig": ""}
    with pytest.raises(KubeconfigError, match="--karmada-kubeconfig"):
        async with servers(options, None):
            pass


async def test_hub_that_is_no_karmada_is_named(chain: Chain) -> None:
    host = (await chain.servers())[1]
    broken = mixed_up(host, host)
    assert broken is not None
    assert broken.name == "NoKarmada"


def _kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "config"
    path.write_text(
        f"clusters: [{{name: a, cluster: {{server: '{url}'}}}}]\n"
        "contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
    )
    return path


class _Any(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "x"


@pytest.mark.parametrize("name", FAULTS)
def test_row_has_a_side_and_one_line_of_each(name: str) -> None:
    row = FAULTS[name]
    assert list(row) == ["side", "says", "do"]
    assert row["side"] in ("hub", "agent", "host", "{whose}")
    for text in (row["says"], row["do"]):
        assert "\n" not in text
        assert text.format_map(_Any()) == text.format_map(_Any()).strip() != ""


@pytest.mark.parametrize("code", Code)
def test_each_refusal_has_an_advice(code: Code) -> None:
    text = f'virtual cluster "a" refused Pod x: {code}: because'
    broken = meaning(text, "NotApplied", what="x")
    assert (broken.name, broken.says) == ("Refused", f"refused with {code}: because")
    assert broken.do


def test_long_texts_are_cut() -> None:
    assert len(fault("WindowClosed", work="x", cluster="a", reason="y" * 9999).says) < 500


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0s"), (90, "90s"), (300, "5m"), (7300, "2h"), (200_000, "2d")]
)
def test_age_is_in_one_unit(seconds: int, text: str) -> None:
    now = datetime.now(UTC)
    assert age((now - timedelta(seconds=seconds)).isoformat(), now) == text


def test_age_of_no_time_is_none() -> None:
    assert (age(None), age("never")) == ("", "")


async def test_server_that_answers_again_is_read_again(chain: Chain) -> None:
    with chain.hub.down():
        hub, _ = await chain.servers()
        assert not hub.is_read
        assert hub.error is not None
    await hub.connect()
    assert hub.is_read
    assert await hub.find(f"{CLUSTERS_PATH}/branch-a") is not None
