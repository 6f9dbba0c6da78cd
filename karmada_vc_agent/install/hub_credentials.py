"""Trust in the hub by a bootstrap token, and the agent's certificate."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from karmada_vc_agent.commands.shared import CommandError, waiting
from karmada_vc_agent.kube.certificates import (
    SIGNING_REQUESTS_PATH,
    new_request,
    read_certificate,
    request_refusal,
    signing_request,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import (
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    PageError,
    UnauthorizedError,
)
from karmada_vc_agent.kube.kubeconfig import server_credentials
from karmada_vc_agent.kube.tasks import retry_on
from karmada_vc_agent.kube.transport import Credentials, make_ssl_context
from karmada_vc_agent.model.karmada import AGENTS_GROUP, SYSTEM_LABEL, USER_PREFIX
from karmada_vc_agent.model.objects import Object, dig

YEAR_S = 31_536_000
SIGNING_S = 60.0
POLLS_S = (0.05, 1.0)
RENEW_BELOW = 0.2
"""`join` replaces a certificate with less than this fraction of its lifetime left."""
HUB_NAME = "karmada-apiserver"
_ATTEMPTS = 5


def user_entry(certificate: bytes, key: bytes) -> Object:
    """Return the user entry of a kubeconfig for a client certificate, both in PEM."""
    return {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }


async def request_certificate(
    hub: ApiClient, user: str, prefix: str, lifetime_s: int, *, approves: bool
) -> tuple[Object, str]:
    """Have the hub sign a client certificate for a user of the agents' group.

    Return its entry of a kubeconfig, and the name of the CSR.
    approves: approve the CSR as the user of `hub`; otherwise the hub's own controller approves what
    a bootstrap token may request. Raises KubeError, CommandError.
    """
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, AGENTS_GROUP),
            x509.NameAttribute(NameOID.COMMON_NAME, user),
        ]
    )
    key, request = new_request(subject)
    name = f"{prefix}-{secrets.token_hex(3)[:5]}"
    csr = signing_request(name, request, lifetime_s)
    csr["metadata"]["labels"] = {SYSTEM_LABEL: "true"}
    await hub.create(SIGNING_REQUESTS_PATH, csr)
    if approves:
        await retry_on(ConflictError, _ATTEMPTS, lambda: _approve(hub, name))
    return user_entry(await _wait_signed(hub, name), key), name


def kubeconfig_text(cluster: Object, name: str, user: Object) -> str:
    """Return a kubeconfig with the names that `karmadactl register` uses (contract 1.7 point 7).

    cluster: a complete entry, with its certificate authority inline. user: from `user_entry`.
    """
    context = f"{name}@{HUB_NAME}"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": HUB_NAME, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": HUB_NAME, "user": name}}],
        "current-context": context,
    }
    return str(yaml.safe_dump(content, sort_keys=False))


def is_valid_for(kubeconfig: str, cluster: Object, common_name: str) -> bool:
    """Return whether a kubeconfig, "" = none, is for this server and user, and not near its end."""
    try:
        content: Any = yaml.safe_load(kubeconfig)
        data = dig(content, "users", 0, "user", "client-certificate-data")
        certificate = read_certificate(base64.b64decode(data))
    except (yaml.YAMLError, TypeError, ValueError):
        return False
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return (
        dig(content, "clusters", 0, "cluster") == cluster
        and [name.value for name in names] == [common_name]
        and certificate.remaining(datetime.now(UTC)) > RENEW_BELOW
    )


async def _approve(hub: ApiClient, name: str) -> None:
    path = f"{SIGNING_REQUESTS_PATH}/{name}"
    csr = await hub.get(path)
    conditions = dig(csr, "status", "conditions") or []
    if any(condition["type"] == "Approved" for condition in conditions):
        return  # the hub's controller was faster: it also approves requests of administrators
    approved = {
        "type": "Approved",
        "status": "True",
        "reason": "KarmadaVcAgentJoin",
        "message": "Approved by the administrator who ran karmada-vc-agent join.",
    }
    csr["status"] = {**(csr.get("status") or {}), "conditions": [*conditions, approved]}
    await hub.replace(f"{path}/approval", csr)


async def _wait_signed(hub: ApiClient, name: str) -> bytes:
    is_approved = False

    async def signed() -> bytes | None:
        nonlocal is_approved
        csr = await hub.get(f"{SIGNING_REQUESTS_PATH}/{name}")
        if certificate := dig(csr, "status", "certificate"):
            return base64.b64decode(certificate)
        if reason := request_refusal(csr):
            raise CommandError(f"CertificateSigningRequest {name}: {reason}")
        is_approved = bool(dig(csr, "status", "conditions"))
        return None

    try:
        async with waiting(f"the hub to sign CertificateSigningRequest {name}", SIGNING_S):
            pause_s, longest_s = POLLS_S
            while (certificate := await signed()) is None:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, longest_s)
            return certificate
    except TimeoutError:
        said = "although it is approved" if is_approved else "it is not approved"
        raise CommandError(
            f"CertificateSigningRequest {name} was not signed within {SIGNING_S:.0f} s ({said}); "
            "check that controller agentcsrapproving runs in karmada-controller-manager and "
            "csrsigning in the hub's kube-controller-manager. A hub made by karmada-operator lets "
            "no bootstrap token be approved: use --karmada-kubeconfig there"
        ) from None


CLUSTER_INFO_PATH = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
_SIGNATURE_PREFIX = "jws-kubeconfig-"
_TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
RETRY_S, SIGNED_WITHIN_S = 1.0, 30.0
"""The hub signs cluster-info for a new token shortly after the token was created."""
GENERATOR = USER_PREFIX + "rbac-generator"
GENERATOR_LIFETIME_S = 600
"""The shortest lifetime that Kubernetes signs; the key is discarded long before."""


def token_problem(text: str) -> str:
    """Return what is wrong with a bootstrap token, `<id>.<secret>`, or "". Never has the token."""
    must = "it must have six characters, a dot, sixteen characters"
    return "" if _TOKEN.fullmatch(text) else f"is not a valid bootstrap token: {must}"


def hash_problem(text: str) -> str:
    """Return what is wrong with a `--discovery-token-ca-cert-hash`, or ""."""
    must = "it must be sha256: and 64 hexadecimal digits"
    return "" if _HASH.fullmatch(text) else f'"{text}" is not a valid hash: {must}'


def public_key_hash(authority: bytes) -> str:
    """Return `sha256:<hex>` of the public key of a certificate authority in PEM."""
    key = x509.load_pem_x509_certificate(authority).public_key()
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def verified_kubeconfig(cluster_info: Object, token: str) -> str:
    """Return the kubeconfig in a cluster-info ConfigMap if it is signed with this token.

    The signature is a detached JWS, HS256 with the token's secret, and made once more to compare,
    as kubeadm does. Raises CommandError.
    """
    content = dig(cluster_info, "data", "kubeconfig") or ""
    token_id, _, secret = token.partition(".")
    signature = dig(cluster_info, "data", _SIGNATURE_PREFIX + token_id)
    if not signature:
        raise CommandError(
            f'the hub does not know token "{token_id}": it is wrong or has expired; create '
            "one with kubectl-karmada token create"
        )
    head = _base64url(f'{{"alg":"HS256","kid":"{token_id}"}}'.encode())
    signed = f"{head}.{_base64url(content.encode())}".encode()
    mac = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    if not hmac.compare_digest(signature.encode(), f"{head}..{_base64url(mac)}".encode()):
        raise CommandError(
            "cluster-info is not signed with this token: the token is wrong, or the server is "
            "not the hub"
        )
    return str(content)


def trusted_server(cluster_info: Object, token: str, ca_hashes: tuple[str, ...]) -> Object:
    """Return the cluster entry of a verified cluster-info.

    ca_hashes: one of them must match the hub's certificate authority; empty = rely on the signature
    alone. Raises CommandError.
    """
    try:
        content: Any = yaml.safe_load(verified_kubeconfig(cluster_info, token))
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


async def discover_hub(endpoint: str, token: str, ca_hashes: tuple[str, ...]) -> Object:
    """Return a trusted cluster entry of the hub at `<host:port>` (contract 1.7).

    The hub publishes it in kube-public/cluster-info, signed with each token. It is first read
    without verification: the signature proves that the server has the token, the pinned hash that
    its authority is the expected one. Then it is read again over verified TLS.
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


async def _cluster_info(credentials: Credentials, token: str) -> Object:
    """Read cluster-info; wait until it is signed for a token that is new."""
    token_id = token.partition(".")[0]
    what = (
        f'the hub to sign cluster-info for token "{token_id}"; it does so shortly after a '
        "token was created"
    )
    async with ApiClient("hub", credentials, connections=1) as client:
        try:
            async with waiting(what, SIGNED_WITHIN_S):
                while True:
                    cluster_info = await client.get(CLUSTER_INFO_PATH)
                    if _SIGNATURE_PREFIX + token_id in (cluster_info.get("data") or {}):
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
    user, request = await request_certificate(
        bearer, GENERATOR, "agent-rbac-generator", GENERATOR_LIFETIME_S, approves=False
    )
    credentials = server_credentials(cluster, user, str(cluster["server"]))
    async with ApiClient("hub", credentials, connections=4) as client:
        try:
            yield client
        finally:
            await _delete_request(client, request)


async def _delete_request(hub: ApiClient, name: str) -> None:
    try:
        await hub.delete(f"{SIGNING_REQUESTS_PATH}/{name}")
    except KubeError as error:
        raise CommandError(
            f"could not delete CertificateSigningRequest {name} on the hub ({error}); delete it"
        ) from error


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
