"""Trust in a hub, established with a bootstrap token (contract 1.7 points 4 to 6).

The hub publishes its address and certificate authority in ConfigMap kube-public/cluster-info,
signed with each token. It is first read without verification: the signature proves that the server
knows the token, the pinned hash that its authority is the expected one. Then it is read again over
verified TLS.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from karmada_vc_agent.commands.command_errors import CommandError
from karmada_vc_agent.commands.waiting import waiting
from karmada_vc_agent.install.agent_certificate import (
    forget_request,
    request_certificate,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.credentials import Credentials, make_ssl_context
from karmada_vc_agent.kube.errors import (
    ForbiddenError,
    NotFoundError,
    PageError,
    UnauthorizedError,
)
from karmada_vc_agent.kube.kubeconfig import server_credentials
from karmada_vc_agent.model.karmada import USER_PREFIX
from karmada_vc_agent.model.objects import Object, dig

CLUSTER_INFO_PATH = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
_SIGNATURE_PREFIX = "jws-kubeconfig-"
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
RETRY_S, SIGNED_WITHIN_S = 1.0, 30.0
"""The hub signs cluster-info for a new token shortly after the token was created."""
GENERATOR = USER_PREFIX + "rbac-generator"
GENERATOR_LIFETIME_S = 600
"""The shortest lifetime that Kubernetes signs; the key is discarded long before."""


@dataclass(frozen=True, slots=True)
class BootstrapToken:
    """A bootstrap token, `<id>.<secret>`."""

    token_id: str
    secret: str

    def __str__(self) -> str:
        """Return the token as it is sent, `<id>.<secret>`."""
        return f"{self.token_id}.{self.secret}"


def parse_token(text: str) -> BootstrapToken:
    """Parse a token. Raises ValueError, whose message never contains the token."""
    match = _TOKEN.fullmatch(text)
    if match is None:
        raise ValueError(
            "is not a valid bootstrap token: it must have six characters, a dot, sixteen characters"
        )
    return BootstrapToken(*match.groups())


def check_hash(text: str) -> str:
    """Return a `--discovery-token-ca-cert-hash` if it is valid. Raises ValueError."""
    if not _HASH.fullmatch(text):
        raise ValueError(
            f'"{text}" is not a valid hash: it must be sha256: and 64 hexadecimal digits'
        )
    return text


def public_key_hash(authority: bytes) -> str:
    """Return `sha256:<hex>` of the public key of a certificate authority in PEM."""
    key = x509.load_pem_x509_certificate(authority).public_key()
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def verify(cluster_info: Object, token: BootstrapToken) -> str:
    """Return the kubeconfig in a cluster-info ConfigMap if it is signed with this token.

    The signature is a detached JWS, HS256 with the token's secret. Raises CommandError.
    """
    content = dig(cluster_info, "data", "kubeconfig") or ""
    signature = dig(cluster_info, "data", _SIGNATURE_PREFIX + token.token_id)
    if not signature:
        raise CommandError(
            f'the hub does not know token "{token.token_id}": it is wrong or has expired; create '
            "one with kubectl-karmada token create"
        )
    head, _, rest = signature.partition(".")
    payload, _, tail = rest.partition(".")
    signed = f"{head}.{_base64url(content.encode())}".encode()
    expected = _base64url(hmac.new(token.secret.encode(), signed, hashlib.sha256).digest())
    is_ours = _header(head) == {"alg": "HS256", "kid": token.token_id} and not payload
    if not is_ours or not hmac.compare_digest(tail, expected):
        raise CommandError(
            "cluster-info is not signed with this token: the token is wrong, or the server is "
            "not the hub"
        )
    return str(content)


def trusted_server(
    cluster_info: Object, token: BootstrapToken, ca_hashes: tuple[str, ...]
) -> Object:
    """Return the cluster entry of a verified cluster-info.

    ca_hashes: one of them must match the hub's certificate authority; empty = rely on the signature
    alone. Raises CommandError.
    """
    try:
        content: Any = yaml.safe_load(verify(cluster_info, token))
        cluster = dig(content, "clusters", 0, "cluster")
        authority = base64.b64decode(cluster["certificate-authority-data"], validate=True)
        ca_hash = public_key_hash(authority)
    except (yaml.YAMLError, TypeError, KeyError, ValueError, binascii.Error) as error:
        raise CommandError(f"cluster-info contains no usable kubeconfig: {error}") from error
    if ca_hashes and ca_hash not in ca_hashes:
        raise CommandError(
            f"the hub's certificate authority has hash {ca_hash}, which is not the given one: the "
            "server may not be the hub"
        )
    return dict(cluster)


async def discover(endpoint: str, token: BootstrapToken, ca_hashes: tuple[str, ...]) -> Object:
    """Return a trusted cluster entry of the hub at `<host:port>`.

    Raises CommandError, KubeError.
    """
    server = f"https://{endpoint}"
    anyone = Credentials(server, make_ssl_context(None, None, verify=False), endpoint)
    cluster = trusted_server(await _cluster_info(anyone, token), token, ca_hashes)
    pinned = server_credentials({**cluster, "server": server}, {}, endpoint)
    again = trusted_server(await _cluster_info(pinned, token), token, ca_hashes)
    if again != cluster:
        raise CommandError("cluster-info changed while it was read; try again")
    return {**cluster, "server": server}


async def _cluster_info(credentials: Credentials, token: BootstrapToken) -> Object:
    """Read cluster-info; wait until it is signed for a token that is new."""
    what = (
        f'the hub to sign cluster-info for token "{token.token_id}"; it does so shortly after a '
        "token was created"
    )
    async with ApiClient("hub", credentials, connections=1) as client:
        try:
            async with waiting(what, SIGNED_WITHIN_S):
                while True:
                    cluster_info = await client.get(CLUSTER_INFO_PATH)
                    if _SIGNATURE_PREFIX + token.token_id in (cluster_info.get("data") or {}):
                        return cluster_info
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            return cluster_info  # still unsigned; `verify` reports it
        except (NotFoundError, PageError, ForbiddenError, UnauthorizedError) as error:
            raise CommandError(
                f"the hub does not publish ConfigMap kube-public/cluster-info ({error}), as one "
                "made by karmada-operator; use an administrator's kubeconfig "
                "(--karmada-kubeconfig) instead of a token"
            ) from error


@asynccontextmanager
async def rbac_generator(bearer: ApiClient, cluster: Object) -> AsyncIterator[ApiClient]:
    """Lend a client with administrator rights on the hub, and give the rights back at the end.

    A token by itself cannot create Roles. Karmada lets it become a user that can; that user's
    certificate lives ten minutes, its key is never stored, and its CSR is deleted.
    """
    certificate = await request_certificate(
        bearer, GENERATOR, "agent-rbac-generator", GENERATOR_LIFETIME_S, approves=False
    )
    credentials = server_credentials(cluster, certificate.user, str(cluster["server"]))
    async with ApiClient("hub", credentials, connections=4) as client:
        try:
            yield client
        finally:
            await forget_request(client, certificate.request)


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _header(text: str) -> Any:
    try:
        return orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error):
        return None
