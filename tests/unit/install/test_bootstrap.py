"""Trust in a hub: tokens, hashes, signatures of cluster-info."""

import asyncio
import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.install.join_hub import (
    _cluster_info,
    hash_problem,
    public_key_hash,
    token_problem,
    trusted_server,
    verified_kubeconfig,
)
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer

TOKEN = "abcdef.0123456789abcdef"


def base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def authority() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


AUTHORITY = authority()


def signed(content: str, token: str = TOKEN, header: str = "") -> Object:
    """Return cluster-info as the hub's bootstrapsigner leaves it."""
    token_id, _, secret = token.partition(".")
    head = base64url((header or f'{{"alg":"HS256","kid":"{token_id}"}}').encode())
    text = f"{head}.{base64url(content.encode())}".encode()
    mac = hmac.new(secret.encode(), text, hashlib.sha256).digest()
    signature = f"{head}..{base64url(mac)}"
    return {"data": {"kubeconfig": content, f"jws-kubeconfig-{token_id}": signature}}


def kubeconfig() -> str:
    data = base64.b64encode(AUTHORITY).decode()
    cluster = {"server": "https://hub:1", "certificate-authority-data": data}
    return yaml.safe_dump({"clusters": [{"cluster": cluster}]})


@pytest.mark.parametrize("text", ["", "abcdef", "abcdef.short", "ABCDEF.0123456789abcdef"])
def test_invalid_token_is_refused_and_not_shown(text: str) -> None:
    problem = token_problem(text)
    assert problem.startswith("is not a valid bootstrap token")
    assert not text or text not in problem


@pytest.mark.parametrize("text", ["", "sha256:12", "md5:" + "0" * 64])
def test_what_is_no_hash_is_refused(text: str) -> None:
    assert "is not a valid hash" in hash_problem(text)


def test_a_signature_of_the_token_is_accepted() -> None:
    assert verified_kubeconfig(signed(kubeconfig()), TOKEN) == kubeconfig()


def test_a_changed_content_is_refused() -> None:
    info = signed(kubeconfig())
    info["data"]["kubeconfig"] += " "
    with pytest.raises(CommandError, match="not signed with this token"):
        verified_kubeconfig(info, TOKEN)


def test_a_signature_with_another_secret_is_refused() -> None:
    other = "abcdef." + "f" * 16
    with pytest.raises(CommandError, match="not signed with this token"):
        verified_kubeconfig(signed(kubeconfig(), other), TOKEN)


def test_a_signature_without_algorithm_is_refused() -> None:
    info = signed(kubeconfig(), header='{"alg":"none","kid":"abcdef"}')
    with pytest.raises(CommandError, match="not signed with this token"):
        verified_kubeconfig(info, TOKEN)


def test_a_token_that_the_hub_does_not_know_is_named_by_its_id_only() -> None:
    with pytest.raises(CommandError, match='does not know token "abcdef"') as caught:
        verified_kubeconfig({"data": {"kubeconfig": ""}}, TOKEN)
    assert TOKEN.partition(".")[2] not in str(caught.value)


def test_the_pinned_authority_is_accepted_and_another_refused() -> None:
    info = signed(kubeconfig())
    cluster = trusted_server(info, TOKEN, (public_key_hash(AUTHORITY),))
    assert cluster["server"] == "https://hub:1"
    assert trusted_server(info, TOKEN, ()) == cluster
    with pytest.raises(CommandError, match="certificate authority has hash sha256:"):
        trusted_server(info, TOKEN, (public_key_hash(authority()),))


def test_a_signed_text_that_is_no_kubeconfig_is_refused() -> None:
    with pytest.raises(CommandError, match="no usable kubeconfig"):
        trusted_server(signed("a: b"), TOKEN, ())


def published(cluster_info: Object) -> Object:
    made = objects.config_map("cluster-info", "kube-public")
    return {**made, "data": cluster_info["data"]}


async def test_signature_wait_is_reported_and_ends_with_the_token_s_id(
    hub: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.seed(published({"data": {"kubeconfig": kubeconfig()}}))
    asking = asyncio.create_task(_cluster_info(Credentials(hub.url, None, "a test"), TOKEN))
    await asyncio.sleep(2)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        'waiting up to 30 s for the hub to sign cluster-info for token "abcdef"; it does so '
        "shortly after a token was created\n"
    )
    with pytest.raises(
        CommandError, match='does not know token "abcdef": it is wrong or has expired'
    ):
        verified_kubeconfig(await asking, TOKEN)


async def test_nothing_is_reported_where_the_signature_is_there(
    hub: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.seed(published(signed(kubeconfig())))
    found = await _cluster_info(Credentials(hub.url, None, "a test"), TOKEN)
    await asyncio.sleep(5)
    assert verified_kubeconfig(found, TOKEN) == kubeconfig()
    assert capsys.readouterr().err == ""
