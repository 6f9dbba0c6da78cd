"""What can be wrong, as a table; what texts of API servers and agents mean by it."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import Any, Final

from karmada_vc_agent.diagnosis.servers import Server
from karmada_vc_agent.kube import errors
from karmada_vc_agent.kube.certificates import read_certificate
from karmada_vc_agent.model.objects import timestamp
from karmada_vc_agent.model.user_text import load_yaml, one_line
from karmada_vc_agent.translation.kind_policy import Code


def _table(name: str) -> Any:
    return load_yaml(resources.files(__package__).joinpath(f"{name}.yaml").read_bytes())


FAULTS: Final[dict[str, dict[str, str]]] = _table("faults")
"""Name -> side, says and do; the names are in the order of the chain."""
EXIT_CODES: Final = {"hub": 3, "agent": 4, "host": 5}
"""Side that can mend a fault -> exit code of `explain`."""
ADVICE: Final[dict[str, str]] = _table("advice")
"""Code of a refusal -> what to do."""
_MEANINGS = [(row["fault"], re.compile(row["text"])) for row in _table("meanings")]
_REFUSAL = re.compile(rf"refused .*?: ({'|'.join(Code)}): (.*)", re.DOTALL)
TEXT_AT_MOST = 400
"""Characters of a text of others in the first line."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken link. side: who can mend it. says, do: the first two lines of `explain`."""

    name: str
    side: str
    says: str
    do: str


def fault(name: str, **values: object) -> Fault:
    """Return a fault of the table with its values filled in."""
    given = {key: one_line(value)[:TEXT_AT_MOST] for key, value in values.items()}
    return Fault(name, **{key: text.format_map(given) for key, text in FAULTS[name].items()})


def meaning(text: str, otherwise: str, **values: object) -> Fault:
    """Return the fault that a text of others means; otherwise: the one of all other texts."""
    if refusal := _REFUSAL.search(text):
        code = refusal[1]
        return fault("Refused", code=code, reason=refusal[2], advice=ADVICE[code])
    name = next((name for name, pattern in _MEANINGS if pattern.search(text)), otherwise)
    return fault(name, reason=text, **values)


_PLAIN_HTTP = "HTTP request to an HTTPS server"
_CONNECTIONS = (
    ("HttpsForHttp", re.compile(r"WRONG_VERSION_NUMBER|record layer failure", re.IGNORECASE)),
    ("CertificateUntrusted", re.compile(r"certificate verify failed", re.IGNORECASE)),
)
"""Faults by what TLS says of a connection that failed."""


def connection_fault(server: Server) -> Fault | None:
    """Return why an API server cannot be read, as what it is; None where it can."""
    error, name = server.error, server.name
    if error is None or server.connection is None:
        return None
    credentials = server.connection.credentials
    at, source = credentials.server, credentials.source
    reason = str(error).removeprefix(f"{name} {at}: ")
    values = {"whose": name, "server": at, "source": source, "reason": reason}
    chain = credentials.certificate
    end = read_certificate(chain).not_after if chain else datetime.max.replace(tzinfo=UTC)
    code = "NotAnApiServer"
    if isinstance(error, errors.UnauthorizedError):
        code = "CertificateExpired" if end < datetime.now(UTC) else "CredentialRejected"
    elif isinstance(error, errors.ApiError) and _PLAIN_HTTP in reason:
        code = "HttpForHttps"
    elif isinstance(error, errors.UnreachableError):
        of_tls = (each for each, pattern in _CONNECTIONS if pattern.search(reason))
        code = next(of_tls, "Unreachable")
    elif isinstance(error, errors.ForbiddenError):
        code = "RightMissing"
    return fault(code, end=timestamp(end), link="what it serves", **values)


def mixed_up(hub: Server, host: Server) -> Fault | None:
    """Return what is wrong where hub and host both answer, but are not what they are given as."""
    at = {each: each.client.credentials.server for each in (hub, host) if each.is_read}
    if hub.is_read and not hub.is_karmada:
        name = "Swapped" if host.is_karmada else "NoKarmada"
        return fault(name, server=at[hub], hub=at[hub], host=at.get(host))
    return fault("HostIsKarmada", server=at[host]) if host.is_karmada else None
