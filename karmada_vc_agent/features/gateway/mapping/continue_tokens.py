"""Seals `continue` tokens of the host: they name the next object, which may be a neighbour's.

AES-SIV needs no random nonce, so sealing is a pure function: equal places give equal tokens.
Source: G-40a.
"""

import base64
import binascii

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

KEY_BYTES = 64
"""Length of the key in the host Secret; AES-SIV with 256 bits."""


class PagePosition(msgspec.Struct, frozen=True, array_like=True):
    """Where a list continues.

    token: of the host for the page; "" = the first page. resource_version: of the first page,
    which is read again at exactly this version. skip: entries of the page that were given already.
    """

    token: str
    resource_version: str = ""
    skip: int = 0


class TokenScope(msgspec.Struct, frozen=True):
    """What a token is good for: one resource of one virtual cluster, in one or all namespaces."""

    cluster: str
    group: str
    resource: str
    namespace: str = ""


class TokenError(ValueError):
    """A token that this gateway did not seal for this list."""


class Sealer:
    """Seals and opens tokens with one key.

    key: KEY_BYTES random bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = AESSIV(key)

    def seal(self, place: PagePosition, scope: TokenScope) -> str:
        """Return the token for clients: URL-safe text that shows nothing."""
        sealed = self._cipher.encrypt(msgspec.json.encode(place), _bound_to(scope))
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def open(self, token: str, scope: TokenScope) -> PagePosition:
        """Return the place. Raises TokenError, whatever is wrong with the token."""
        try:
            sealed = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
            content = self._cipher.decrypt(sealed, _bound_to(scope))
            return msgspec.json.decode(content, type=PagePosition)
        except (binascii.Error, InvalidTag, ValueError, msgspec.MsgspecError) as error:
            raise TokenError("the continue token is not valid for this list") from error


def _bound_to(scope: TokenScope) -> list[bytes]:
    return [part.encode() for part in (scope.cluster, scope.group, scope.resource, scope.namespace)]
