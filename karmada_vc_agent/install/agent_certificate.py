"""The agent's credential on the hub: a client certificate, requested by CSR (contract 1.7)."""

import base64
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from karmada_vc_agent.commands.command_errors import CommandError
from karmada_vc_agent.commands.waiting import waiting
from karmada_vc_agent.kube.certificates import (
    REQUESTS_PATH,
    new_request,
    read_certificate,
    refusal,
    signing_request,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ConflictError, KubeError
from karmada_vc_agent.kube.retries import backoff, poll, retry_on
from karmada_vc_agent.model.karmada import AGENTS_GROUP, SYSTEM_LABEL
from karmada_vc_agent.model.objects import Object, dig

YEAR_S = 31_536_000
SIGNING_S = 60.0
POLLS = backoff(0.05, 1.0)
RENEW_BELOW = 0.2
"""`join` replaces a certificate with less than this fraction of its lifetime left."""
HUB_NAME = "karmada-apiserver"
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A signed certificate and its key, both in PEM. request: name of the CSR."""

    certificate: bytes
    key: bytes
    request: str

    @property
    def user(self) -> Object:
        """Return the user entry of a kubeconfig."""
        return {
            "client-certificate-data": base64.b64encode(self.certificate).decode(),
            "client-key-data": base64.b64encode(self.key).decode(),
        }


async def request_certificate(
    hub: ApiClient, user: str, prefix: str, lifetime_s: int, *, approves: bool
) -> ClientCertificate:
    """Have the hub sign a client certificate for a user of the agents' group.

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
    await hub.create(REQUESTS_PATH, csr)
    if approves:
        await retry_on(ConflictError, _ATTEMPTS, lambda: _approve(hub, name))
    return ClientCertificate(await _wait_signed(hub, name), key, name)


def kubeconfig_text(cluster: Object, user: str, certificate: ClientCertificate) -> str:
    """Return a kubeconfig with the names that `karmadactl register` uses (contract 1.7 point 7).

    cluster: a complete cluster entry, with its certificate authority inline.
    """
    context = f"{user}@{HUB_NAME}"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": HUB_NAME, "cluster": cluster}],
        "users": [{"name": user, "user": certificate.user}],
        "contexts": [{"name": context, "context": {"cluster": HUB_NAME, "user": user}}],
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
    path = f"{REQUESTS_PATH}/{name}"
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
        csr = await hub.get(f"{REQUESTS_PATH}/{name}")
        if certificate := dig(csr, "status", "certificate"):
            return base64.b64decode(certificate)
        if reason := refusal(csr):
            raise CommandError(f"CertificateSigningRequest {name}: {reason}")
        is_approved = bool(dig(csr, "status", "conditions"))
        return None

    try:
        async with waiting(f"the hub to sign CertificateSigningRequest {name}", SIGNING_S):
            return await poll(signed, POLLS)
    except TimeoutError:
        said = "although it is approved" if is_approved else "it is not approved"
        raise CommandError(
            f"CertificateSigningRequest {name} was not signed within {SIGNING_S:.0f} s ({said}); "
            "check that controller agentcsrapproving runs in karmada-controller-manager and "
            "csrsigning in the hub's kube-controller-manager. A hub made by karmada-operator lets "
            "no bootstrap token be approved: use --karmada-kubeconfig there"
        ) from None


async def forget_request(hub: ApiClient, name: str) -> None:
    """Delete a CSR. Raises KubeError."""
    try:
        await hub.delete(f"{REQUESTS_PATH}/{name}")
    except KubeError as error:
        raise CommandError(
            f"could not delete CertificateSigningRequest {name} on the hub ({error}); delete it"
        ) from error
