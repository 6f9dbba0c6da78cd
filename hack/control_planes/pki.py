"""Certificates and keys of one control plane, as files.

Every control plane has authorities of its own, so that a credential for the hub is worth nothing
on a host, as between real clusters.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=365)
SERVER_NAMES = (
    "localhost",
    "kubernetes.default.svc",
    # the aggregator of the hub asks for these names, wherever the APIServices point
    "karmada-aggregated-apiserver.karmada-system.svc",
    "karmada-search.karmada-system.svc",
    "karmada-metrics-adapter.karmada-system.svc",
)
ADMIN = ("system:admin", "system:masters")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority that lives as long as the command that made it."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name, "")
        builder = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
        )
        self._certificate = builder.sign(self._key, hashes.SHA256())

    @property
    def key_pair(self) -> KeyPair:
        return KeyPair(_pem(self._certificate), private_pem(self._key))

    def issue_client(self, user: str, group: str = "") -> KeyPair:
        """Issue a certificate that says who a client is: CN is the user, O the group."""
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._issue(_subject(user, group), usage, None)

    def issue_server(
        self,
        names: Sequence[str] = SERVER_NAMES,
        address: str = "127.0.0.1",
        lifetime: dt.timedelta = LIFETIME,
    ) -> KeyPair:
        """Issue a certificate for servers: those of a control plane, all on loopback, if not told.

        names: DNS names of the servers. address: IP address of them.
        """
        alternatives = x509.SubjectAlternativeName(
            [
                *(x509.DNSName(name) for name in names),
                x509.IPAddress(ipaddress.ip_address(address)),
            ]
        )
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        return self._issue(_subject("localhost", ""), usage, alternatives, lifetime)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ExtendedKeyUsage,
        names: x509.SubjectAlternativeName | None,
        lifetime: dt.timedelta = LIFETIME,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._name, key.public_key(), lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(usage, critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return KeyPair(_pem(builder.sign(self._key, hashes.SHA256())), private_pem(key))


@dataclass(frozen=True, slots=True)
class ClusterPki:
    """The files of one control plane, and the authority that can issue more clients."""

    directory: Path
    authority: Authority

    @property
    def ca(self) -> Path:
        return self.directory / "ca.crt"

    def file(self, name: str) -> str:
        return str(self.directory / name)


def create_cluster_pki(directory: Path, name: str) -> ClusterPki:
    """Write authorities, server certificate, front-proxy client and service-account key."""
    directory.mkdir(parents=True)
    authority = Authority(f"{name}-ca")
    front_proxy = Authority(f"{name}-front-proxy-ca")
    service_account = ec.generate_private_key(ec.SECP256R1())
    pairs = {
        "ca": authority.key_pair,
        "server": authority.issue_server(),
        "front-proxy-ca": front_proxy.key_pair,
        "front-proxy-client": front_proxy.issue_client("front-proxy-client"),
    }
    for file, pair in pairs.items():
        (directory / f"{file}.crt").write_bytes(pair.certificate)
        write_private(directory / f"{file}.key", pair.key)
    write_private(directory / "service-account.key", private_pem(service_account))
    (directory / "service-account.pub").write_bytes(
        service_account.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return ClusterPki(directory, authority)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, from the first byte on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _subject(common_name: str, organization: str) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    lifetime: dt.timedelta = LIFETIME,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + lifetime)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
