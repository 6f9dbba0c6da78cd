"""Renews the agent's client certificate for the hub (contract 1.8).

A new key is made, and a CertificateSigningRequest with the old subject sent to the hub. Once that
is signed, both are stored where the old ones are: file, Secret, or both. One reconcile is one step;
what was begun is remembered, so that there is never more than one request waiting to be signed.
"""

import asyncio
import base64
import logging
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NamedTuple

from karmada_vc_agent.access.rights import HUB_SECRET
from karmada_vc_agent.cluster.lease import AgentCondition
from karmada_vc_agent.config.settings import Fields
from karmada_vc_agent.kube import certificates, kubeconfig
from karmada_vc_agent.kube.certificates import SIGNING_REQUESTS_PATH, read_certificate
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import ControllerSpec, Requeue, RetryError
from karmada_vc_agent.kube.errors import ApiError, KubeError, PageError
from karmada_vc_agent.kube.flows import LogOnce
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import dig
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.virtual_cluster import CERT_ROTATION, Range
from karmada_vc_agent.model.vocabulary import random_suffix
from karmada_vc_agent.runner.clients import use
from karmada_vc_agent.runner.parts import Feature, Parts


class CertificateFields(Fields, frozen=True):
    """What the settings have of it."""

    cert_rotation_checking_interval: Annotated[Duration, Range(is_open=True)] = Duration(300)
    """How often certRotation checks whether the hub credential must be renewed."""
    cert_rotation_remaining_time_threshold: Annotated[
        float, Range(below=1, is_open=True, unit="fraction")
    ] = 0.2
    """Fraction of the hub credential's lifetime; certRotation renews it when less remains."""


class FileStore:
    """A kubeconfig on disk; a mounted Secret is not writable."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)

    async def read(self) -> bytes | None:
        """Return the content of the file. Raises OSError."""
        return await asyncio.to_thread(self._path.read_bytes)

    async def write(self, content: bytes) -> None:
        """Replace the file atomically by one that only its owner can read. Raises OSError."""
        await asyncio.to_thread(self._replace, content)

    def _replace(self, content: bytes) -> None:
        path = self._path.resolve()  # keep a symbolic link
        # mkstemp makes it 0600, whatever the mode of the old one: it contains a private key
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            Path(draft).replace(path)
        except OSError:
            Path(draft).unlink(missing_ok=True)
            raise

    def is_writable(self) -> bool:
        """Return whether the file and its folder may be written."""
        path = self._path.resolve()
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


class SecretStore:
    """The Secret of the host that Karmada's tools create for an agent (contract 1.7)."""

    def __init__(self, host: ApiClient, namespace: str) -> None:
        self._host = host
        self.name = f"Secret {namespace}/{HUB_SECRET}"
        self._path = f"/api/v1/namespaces/{namespace}/secrets/{HUB_SECRET}"
        self._version = ""

    async def read(self) -> bytes | None:
        """Return the kubeconfig in the Secret, None if there is none. Raises KubeError."""
        secret = await self._host.find(self._path)
        if secret is None:
            return None
        self._version = secret["metadata"]["resourceVersion"]
        content = dig(secret, "data", HUB_SECRET)
        return base64.b64decode(content) if content else None

    async def write(self, content: bytes) -> None:
        """Replace the kubeconfig that was read last, and no other key. Raises KubeError."""
        metadata = {"resourceVersion": self._version}
        data = {HUB_SECRET: base64.b64encode(content).decode()}
        await self._host.merge_patch(self._path, {"metadata": metadata, "data": data})

    def is_writable(self) -> bool:
        """Return True: the host decides."""
        return True


_log = logging.getLogger(__name__)

KEY = "hub"
"""The only key: there is one credential."""

POLL = Requeue(1.0)
POLLS = 300
"""A pending request is polled every second for five minutes, as in Karmada; then at each check."""
_PENDING = (
    "CertificateSigningRequest {} waits for approval on the hub; check that controller "
    "agentcsrapproving runs in karmada-controller-manager"
)
_REFUSED = "the hub did not sign a new client certificate for the agent: {}"
_READ_ONLY = "the file with the credential for the hub is read-only, and no Secret holds it"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?")


class _Stored(NamedTuple):
    """A kubeconfig with a client certificate, and where it is stored."""

    store: FileStore | SecretStore
    content: bytes
    user: str
    chain: bytes
    certificate: certificates.Certificate


@dataclass(slots=True)
class _SigningRequest:
    """A request on the hub: its name, the key it is for, how often it was polled."""

    name: str
    key: bytes
    polls: int = 0


@dataclass(eq=False)
class CertificateController:
    """Renews the credential in the file of `credentials`; there is one key.

    stores: the file first, then where else it may be stored. interval_s: between two checks.
    threshold: the fraction of its lifetime at which a certificate is renewed. use: called with new
    credentials. renewed: reports why it is not renewed though it is due.
    """

    hub: ApiClient
    credentials: Credentials
    stores: Sequence[FileStore | SecretStore]
    interval_s: float
    threshold: float
    use: Callable[[Credentials], None]
    now: Callable[[], datetime]
    renewed: AgentCondition = field(default_factory=AgentCondition)
    _request: _SigningRequest | None = None
    _in_use: datetime | None = None
    _once: LogOnce = field(default_factory=lambda: LogOnce(_log))

    def __post_init__(self) -> None:
        assert self.credentials.kubeconfig is not None  # noqa: S101 - setup sees to it
        self._path, self._context = self.credentials.kubeconfig, self.credentials.context

    async def reconcile(self, _: str) -> Requeue:
        """Do the next step."""
        stored = await self._check()
        if not stored:
            return self._rest("Not renewing the hub credential: it is not a client certificate")
        if self._request is not None:
            return await self._await(stored, self._request)
        newest = max(stored, key=lambda one: one.certificate.not_after)
        self._in_use = self._in_use or stored[0].certificate.not_after
        if newest.certificate.not_after > self._in_use:
            self._take(newest.content)  # another writer put it into the Secret, not mounted yet
        if newest.certificate.remaining(self.now()) > self.threshold:
            self.renewed.succeed()
            return Requeue(self.interval_s)
        if not any(one.store.is_writable() for one in stored):
            self.renewed.fail("ReadOnly", _READ_ONLY + _ends(newest))
            text = f"Cannot renew: {_READ_ONLY}; see --karmada-kubeconfig-namespace"
            return self._rest(text, ends=newest.certificate.not_after)
        return await self._send_request(newest)

    async def _check(self) -> list[_Stored]:
        stored: list[_Stored] = []
        for store in self.stores:
            try:
                content = await store.read()
                identity = self._identity_in(content) if content is not None else None
                certificate = read_certificate(identity[1]) if identity is not None else None
            except (OSError, kubeconfig.KubeconfigError, ValueError) as error:
                raise RetryError(f"{store.name}: {error}") from error
            if content is None or identity is None or certificate is None:
                if not stored:
                    return []
            elif not stored or certificate.subject == stored[0].certificate.subject:
                stored.append(_Stored(store, content, *identity, certificate))
        return stored

    def _identity_in(self, content: bytes) -> tuple[str, bytes] | None:
        return kubeconfig.client_certificate(content, self._path, self._context)

    def _take(self, content: bytes) -> None:
        identity = self._identity_in(content)
        assert identity is not None  # noqa: S101 - it has one, or it was not chosen
        self._in_use = read_certificate(identity[1]).not_after
        _log.info("Using a new hub credential", extra={"ends": self._in_use.isoformat()})
        self.use(kubeconfig.parse_kubeconfig(content, self._path, self._context))

    async def _send_request(self, stored: _Stored) -> Requeue:
        from karmada_vc_agent.kube.new_keys import renewal_request  # noqa: PLC0415 - 10 MB

        key, request = renewal_request(stored.chain)
        stem = stored.user if _NAME.fullmatch(stored.user) else "karmada-vc-agent"
        name = f"{stem}-{random_suffix()}"
        extra = {"request": name, "ends": stored.certificate.not_after.isoformat()}
        _log.info("Renewing the hub credential", extra=extra)
        # Before it is sent: if the answer is lost it may have arrived, and is then polled.
        self._request = _SigningRequest(name, key)
        body = certificates.signing_request(name, request, stored.certificate.lifetime_s)
        try:
            await self.hub.create(SIGNING_REQUESTS_PATH, body)
        except ApiError as error:
            if not isinstance(error, PageError):
                self._request = None
            raise
        return POLL

    async def _await(self, stored: Sequence[_Stored], request: _SigningRequest) -> Requeue:
        """Poll the request; while it is pending there is no other."""
        answer = await self.hub.find(f"{SIGNING_REQUESTS_PATH}/{request.name}")
        if answer is None:
            return self._begin_again(request, "it was deleted")
        if certificate := dig(answer, "status", "certificate"):
            chain = base64.b64decode(certificate, validate=True)
            return await self._keep(stored, (chain, request.key))
        if reason := certificates.request_refusal(answer):
            self.renewed.fail("RequestRefused", _REFUSED.format(reason) + _ends(stored[0]))
            return self._begin_again(request, reason)
        request.polls += 1
        if request.polls < POLLS:
            return POLL
        self.renewed.fail("RequestPending", _PENDING.format(request.name) + _ends(stored[0]))
        return self._rest("Waiting for the hub to sign", request=request.name)

    def _begin_again(self, request: _SigningRequest, reason: str) -> Requeue:
        """Drop a request that will not be signed; the next check sends another one."""
        self._request = None
        extra = {"request": request.name, "reason": reason}
        _log.error("The hub did not sign a new credential", extra=extra)
        return Requeue(self.interval_s)

    async def _keep(self, stored: Sequence[_Stored], issued: tuple[bytes, bytes]) -> Requeue:
        """Write certificate and key to every store, then use them; one success is enough."""
        written: dict[str, bytes] = {}
        problems: list[str] = []
        for one in stored:
            if not one.store.is_writable():
                continue
            text = kubeconfig.with_client_certificate(
                one.content, self._path, self._context, issued
            )
            try:
                await one.store.write(text)
            except (KubeError, OSError) as error:
                problems.append(f"{one.store.name}: {error}")
            else:
                written[one.store.name] = text
        if not written:
            raise RetryError(f"a new hub credential cannot be stored: {'; '.join(problems)}")
        self._request = None
        self.renewed.succeed()
        _log.info("Renewed the hub credential", extra={"kept_in": ", ".join(written)})
        for problem in problems:
            _log.error("An old hub credential remains", extra={"reason": problem})
        self._take(next(iter(written.values())))
        return Requeue(self.interval_s)

    def _rest(self, message: str, **extra: object) -> Requeue:
        """Wait for the next check; a lasting state is logged once."""
        self._once.warning(message, kubeconfig=str(self._path), **extra)
        return Requeue(self.interval_s)


def _ends(stored: _Stored) -> str:
    at = stored.certificate.not_after.isoformat(timespec="minutes")
    return f". The hub refuses the agent from {at} on; run karmada-vc-agent join"


def setup(parts: Parts) -> ControllerSpec[str] | None:
    """Declare the controller; None where it is off, or the credential is from no file to renew."""
    common, config, clients = parts.common, parts.common.config, parts.common.clients
    if CERT_ROTATION not in common.switches:
        return None
    path = clients.hub.credentials.kubeconfig
    if path is None:
        _log.warning("Not renewing the hub credential: it is not from a kubeconfig")
        return None
    namespace = config.karmada_kubeconfig_namespace or config.agent_namespace
    own = config.of(CertificateFields)
    controller = CertificateController(
        clients.hub,
        clients.hub.credentials,
        (FileStore(path), SecretStore(clients.host, namespace)),
        own.cert_rotation_checking_interval,
        own.cert_rotation_remaining_time_threshold,
        lambda credentials: use(clients.of_hub(), credentials),
        lambda: datetime.now(UTC),
        parts.credential,
    )
    return ControllerSpec(
        "cert-rotation",
        common.queues.by_name(),
        controller.reconcile,
        switch=CERT_ROTATION,
        by_cluster=False,
        initial_keys=lambda: (KEY,),
    )


FEATURE = Feature(
    "certificate",
    settings=CertificateFields,
    controllers=(setup,),
    hub_roles={CERT_ROTATION: "features/certificate/hub-roles.yaml"},
)
