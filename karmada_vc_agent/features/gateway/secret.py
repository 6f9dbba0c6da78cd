"""The Secret that the agent writes for its gateway: sums of tokens, and the key that seals.

A token itself is on the hub only, in the Secret of its Cluster; here is its SHA-256. Several sums
of a kind are valid side by side, so that a token can be replaced: the new one is added, the hub
uses it, and an administrator removes the entry of the old one.
"""

import hashlib
import hmac
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from karmada_vc_agent.access.gateway_secrets import (
    DEFINITIONS,
    TOKENS,
    TokenKind,
    data_of,
    token_prefix,
)
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.config.decoding import decode
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

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
    sums = (_read(value) for key, value in data_of(secret).items() if key.startswith(TOKENS))
    return tuple(each for each in sums if each is not None)


def matching(sums: Iterable[TokenSum], token: str) -> TokenSum | None:
    """Return the sum of a token; each is compared in constant time, and all are."""
    expected, match = digest(token), None
    for each in sums:
        if hmac.compare_digest(each.sha256, expected):
            match = each
    return match


def sealing_key_of(secret: Object | None) -> bytes | None:
    """Return the key for `continue` tokens, None if there is none of that length."""
    key = _decoded(data_of(secret).get(SEALING_KEY))
    return key if key is not None and len(key) == KEY_BYTES else None


def definition_text(vc: VirtualCluster) -> str:
    """Return its value in the data of the Secret, before base64."""
    return msgspec.json.encode(vc, enc_hook=str).decode()


def clusters_of(secret: Object | None) -> tuple[VirtualCluster, ...]:
    """Return the virtual clusters that it describes; one that cannot be read is left out."""
    clusters = []
    for key, value in data_of(secret).items():
        if key.startswith(DEFINITIONS):
            with suppress(ConfigError, msgspec.DecodeError, ValueError):
                raw = msgspec.json.decode(_decoded(value) or b"")
                clusters.append(decode(raw, VirtualCluster, key))
    return tuple(clusters)


def _decoded(value: Any) -> bytes | None:
    try:
        return b64decode(value, validate=True)
    except (Base64Error, TypeError, ValueError):
        return None


def _read(value: Any) -> TokenSum | None:
    raw = _decoded(value)
    try:
        return msgspec.json.decode(raw, type=TokenSum) if raw is not None else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
