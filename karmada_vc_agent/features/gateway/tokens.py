"""Tokens of virtual clusters: made on the hub, their sums on the host (G-10).

A token itself is on the hub only, in the Secret of its Cluster; here is its SHA-256. Several sums
of a kind are valid side by side, so that a token can be replaced: the new one is added, the hub
uses it, and an administrator removes the entry of the old one.
"""

import hashlib
import hmac
import logging
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from karmada_vc_agent.access.agent_objects import (
    DEFINITIONS,
    TOKEN_KINDS,
    TOKENS,
    TokenKind,
    definition_key,
    hub_secret_name,
    secret_data,
    secret_name,
    token_keys,
    token_prefix,
)
from karmada_vc_agent.config.decoding import ConfigError, decode
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import AlreadyExistsError, NotFoundError
from karmada_vc_agent.model.objects import Object, annotations_of, dig, labels_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import (
    AGENT_ANNOTATION,
    AGENT_LABEL,
    CLUSTER_LABEL,
    LEASE_NAMESPACE,
    SYSTEM_LABEL,
)
from karmada_vc_agent.model.vocabulary import HOST_ANNOTATION as HOST
from karmada_vc_agent.runner.common import Common

TOKEN_BYTES = 32
KEY_BYTES = 32
SEALING_KEY = "sealing-key"
"""Data key of the key for `continue` tokens, KEY_BYTES random bytes."""
_SHOWN = 16


class TokenSum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One valid token: kind, virtual cluster, time of creation, and SHA-256 in hex."""

    kind: TokenKind
    cluster: str
    created: str
    sha256: str

    @property
    def key(self) -> str:
        """Return its key in the data of the Secret."""
        return f"{token_prefix(self.cluster)}{self.kind}.{self.sha256[:_SHOWN]}"

    @property
    def text(self) -> str:
        """Return its value in the data of the Secret, before base64."""
        return msgspec.json.encode(self).decode()


def digest(token: str) -> str:
    """Return the SHA-256 of a token in hex."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


def sums_of(secret: Object | None) -> tuple[TokenSum, ...]:
    """Return the sums in a Secret; what cannot be read is left out, so it is not valid."""
    sums = []
    for key, value in secret_data(secret).items():
        if key.startswith(TOKENS):
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                sums.append(msgspec.json.decode(_decoded(value) or b"", type=TokenSum))
    return tuple(sums)


def matching(sums: Iterable[TokenSum], token: str) -> TokenSum | None:
    """Return the sum of a token; each is compared in constant time, and all are."""
    expected, match = digest(token), None
    for each in sums:
        if hmac.compare_digest(each.sha256, expected):
            match = each
    return match


def sealing_key_of(secret: Object | None) -> bytes | None:
    """Return the key for `continue` tokens, None if there is none of that length."""
    key = _decoded(secret_data(secret).get(SEALING_KEY))
    return key if key is not None and len(key) == KEY_BYTES else None


def definition_text(vc: VirtualCluster) -> str:
    """Return its value in the data of the Secret, before base64."""
    return msgspec.json.encode(vc, enc_hook=str).decode()


def clusters_of(secret: Object | None) -> tuple[VirtualCluster, ...]:
    """Return the virtual clusters that it describes; one that cannot be read is left out."""
    clusters = []
    for key, value in secret_data(secret).items():
        if key.startswith(DEFINITIONS):
            with suppress(ConfigError, msgspec.DecodeError, ValueError):
                raw = msgspec.json.decode(_decoded(value) or b"")
                clusters.append(decode(raw, VirtualCluster, key))
    return tuple(clusters)


def _decoded(value: Any) -> bytes | None:
    try:
        return b64decode(value, validate=True)
    except (TypeError, ValueError):
        return None


_log = logging.getLogger(__name__)

SECRETS_PATH = f"/api/v1/namespaces/{LEASE_NAMESPACE}/secrets"
_TOKEN, _AUTHORITIES = "token", "caBundle"


class GatewayTokens:
    """Sole writer of the gateway's Secret on the host, and of those of Clusters on the hub."""

    def __init__(self, common: Common) -> None:
        config, clusters = common.config, common.stores.clusters
        self._hub, self._host = common.clients.hub, common.clients.host
        self._now = common.clock.now
        self._agent = config.agent_name
        self._annotations = {AGENT_ANNOTATION: clusters.agent, HOST: clusters.host}
        name = secret_name(config.agent_name)
        self._path = f"/api/v1/namespaces/{config.agent_namespace}/secrets/{name}"

    async def ensure(self, vc: VirtualCluster, authorities: bytes) -> str:
        """Return the token of kind access; both kinds are valid, and on the hub.

        authorities: PEM, for the hub. A token that the hub lost is replaced; the sum of the old
        one stays valid until an administrator removes it. Raises RetryError, KubeError.
        """
        try:
            secret = await self._host.get(self._path)
        except NotFoundError as error:
            detail = f"Secret {self._path.rpartition('/')[2]} of the gateway is missing"
            raise RetryError(f"{detail}: run karmada-vc-agent join") from error
        on_hub = {kind: await self._on_hub(vc.name, kind) for kind in TOKEN_KINDS}
        sums, values = sums_of(secret), dict[str, bytes]()
        if sealing_key_of(secret) is None:
            values[SEALING_KEY] = secrets.token_bytes(KEY_BYTES)
        if _text(secret, definition_key(vc.name)) != definition_text(vc):
            values[definition_key(vc.name)] = definition_text(vc).encode()
        tokens: dict[TokenKind, str] = {}
        for kind, live in on_hub.items():
            token = _text(live, _TOKEN)
            matched = matching(sums, token) if token else None
            if matched is None or (matched.cluster, matched.kind) != (vc.name, kind):
                token = secrets.token_urlsafe(TOKEN_BYTES)
                made = TokenSum(kind, vc.name, self._now(), digest(token))
                values[made.key] = made.text.encode()
                _log.info("Creating token", extra={"virtual_cluster": vc.name, "kind": kind})
            tokens[kind] = token
        if values:
            # Before the hub has the tokens: each that it uses is valid.
            data = {key: b64encode(value).decode() for key, value in values.items()}
            await self._host.merge_patch(self._path, {"data": data})
        for kind, live in on_hub.items():
            desired = {_TOKEN: tokens[kind].encode()}
            if kind == "access":
                desired[_AUTHORITIES] = authorities
            await self._put(vc.name, kind, live, desired)
        return tokens["access"]

    async def revoke(self, cluster: str) -> None:
        """Make all tokens invalid, then delete them on the hub (G-4). Raises KubeError."""
        secret = await self._host.find(self._path)
        keys = {*token_keys(secret, cluster), definition_key(cluster)}
        if keys := keys & set(dig(secret, "data") or ()):
            _log.info("Revoking tokens", extra={"virtual_cluster": cluster})
            await self._host.merge_patch(self._path, {"data": dict.fromkeys(keys)})
        for kind in TOKEN_KINDS:
            path = f"{SECRETS_PATH}/{hub_secret_name(cluster, kind)}"
            with suppress(NotFoundError):
                if self._is_ours(await self._hub.get(path), cluster):
                    await self._hub.delete(path)

    async def _on_hub(self, cluster: str, kind: TokenKind) -> Object | None:
        """Return a Secret of the hub. Raises RetryError for one of another owner."""
        name = hub_secret_name(cluster, kind)
        live = await self._hub.find(f"{SECRETS_PATH}/{name}")
        if live is not None and not self._is_ours(live, cluster):
            detail = f"Secret {LEASE_NAMESPACE}/{name} on the hub belongs to another owner"
            raise RetryError(f"{detail}; delete it if it is not needed")
        return live

    async def _put(
        self, cluster: str, kind: TokenKind, live: Object | None, desired: Mapping[str, bytes]
    ) -> None:
        data = {key: b64encode(value).decode() for key, value in desired.items()}
        if live is not None:
            if any(dig(live, "data", key) != value for key, value in data.items()):
                path = f"{SECRETS_PATH}/{live['metadata']['name']}"
                await self._hub.merge_patch(path, {"data": data})
            return
        metadata = {
            "name": hub_secret_name(cluster, kind),
            "namespace": LEASE_NAMESPACE,
            "labels": self._labels(cluster) | {SYSTEM_LABEL: "true"},
            "annotations": self._annotations,
        }
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        try:
            await self._hub.create(SECRETS_PATH, secret)
        except AlreadyExistsError as error:
            raise RetryError(f"Secret {metadata['name']} was created meanwhile") from error

    def _is_ours(self, live: Object, cluster: str) -> bool:
        return (
            self._labels(cluster).items() <= labels_of(live).items()
            and self._annotations.items() <= annotations_of(live).items()
        )

    def _labels(self, cluster: str) -> dict[str, str]:
        return {AGENT_LABEL: self._agent, CLUSTER_LABEL: cluster}


def _text(secret: Object | None, key: str) -> str:
    return (_decoded(dig(secret, "data", key)) or b"").decode(errors="replace")
