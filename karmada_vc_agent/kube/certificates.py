"""What is read of certificates, and requests for client certificates; keys are in new_keys.py."""

import base64
import re
from dataclasses import dataclass
from datetime import datetime

from karmada_vc_agent.model.objects import Object, dig

SIGNING_REQUESTS_PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client"
SHORTEST_LIFETIME_S = 600
"""The API server rejects shorter ones."""


_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----([^-]+)-----END CERTIFICATE-----")
_VERSION, _UTC_TIME = 0xA0, 0x17
COMMON_NAME, ORGANIZATION = b"\x55\x04\x03", b"\x55\x04\x0a"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The parts of a certificate that its renewal needs; the times are those of the chain.

    subject: each attribute's OID in DER, and its value.
    """

    subject: tuple[tuple[bytes, bytes], ...]
    not_before: datetime
    not_after: datetime

    @property
    def lifetime_s(self) -> float:
        return (self.not_after - self.not_before).total_seconds()

    def remaining(self, now: datetime) -> float:
        """Return the remaining fraction of its lifetime: 1 at the start, 0 or less at the end."""
        return (self.not_after - now) / (self.not_after - self.not_before)


def read_certificate(chain: bytes) -> Certificate:
    """Return the first certificate of a PEM chain. Raises ValueError.

    Read here: the library of new_keys.py takes 10 MB of memory.
    """
    try:
        read = [_read(base64.b64decode(each)) for each in _PEM.findall(chain)]
        return Certificate(
            read[0].subject,
            max(each.not_before for each in read),
            min(each.not_after for each in read),
        )
    except IndexError as error:
        raise ValueError("no certificate, or one that is cut off") from error


def _read(der: bytes) -> Certificate:
    ((_, certificate),) = _elements(der)
    parts = _elements(_elements(certificate)[0][1])
    _, _, _, (_, validity), (_, subject) = parts[parts[0][0] == _VERSION :][:5]
    not_before, not_after = (_time(*each) for each in _elements(validity))
    named = (_elements(each) for _, names in _elements(subject) for _, each in _elements(names))
    return Certificate(tuple((oid, text) for (_, oid), (_, text) in named), not_before, not_after)


def _elements(der: bytes) -> list[tuple[int, bytes]]:
    """Return tag and content of each element. Raises ValueError, IndexError if one is cut off."""
    elements = []
    while der:
        tag, size, start = der[0], der[1], 2
        if size > 0x80:
            start += size - 0x80
            size = int.from_bytes(der[2:start], "big")
        if len(der) < start + size:
            raise ValueError("a certificate is cut off")
        elements.append((tag, der[start : start + size]))
        der = der[start + size :]
    return elements


def _time(tag: int, text: bytes) -> datetime:
    digits = text.decode()
    if tag == _UTC_TIME:
        digits = ("20" if digits < "50" else "19") + digits
    return datetime.fromisoformat(f"{digits[:8]}T{digits[8:].removesuffix('Z')}+00:00")


def signing_request(name: str, request: bytes, lifetime_s: float) -> Object:
    """Return the CertificateSigningRequest object; request: PEM. Source: contract 1.7, 1.8."""
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": SIGNER,
            "expirationSeconds": max(int(lifetime_s), SHORTEST_LIFETIME_S),
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    }


def request_refusal(request: Object) -> str:
    """Return why a CertificateSigningRequest was denied or failed, or ""."""
    for condition in dig(request, "status", "conditions") or ():
        if condition["type"] in ("Denied", "Failed"):
            return f"{condition['type']}: {condition.get('message') or condition.get('reason')}"
    return ""
