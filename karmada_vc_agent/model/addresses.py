"""IP addresses in all notations that Kubernetes accepts."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

_LEADING_ZEROS = re.compile(r"(?:^|(?<=[.:]))0+(?=\d+(?:\.|$))")
_PORT_MAX = 65535
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*\.?")


def plain_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address in canonical form, IPv4 even if written as IPv6; None if it is invalid.

    Like old API servers, takes leading zeros (`010.0.0.1`) as decimal.
    """
    try:
        address = ip_address(_LEADING_ZEROS.sub("", text) if "." in text else text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def listen_problem(address: str, *, may_be_off: bool = True) -> str | None:
    """Return what is wrong with an address to listen on, or None; `0` and "" are none at all.

    may_be_off: the message suggests `0`, too.
    """
    host, colon, port = address.rpartition(":")
    if address in ("", "0") or (colon and _is_port(port) and (not host or is_host(host))):
        return None
    advice = f"write host:port or :port (at most {_PORT_MAX})"
    if may_be_off:
        advice = f"write host:port, :port (at most {_PORT_MAX}), or 0 to disable it"
    return f'"{address}" is not a valid address; {advice}'


def is_host(text: str) -> bool:
    """Return True for a DNS name, an IPv4 address, or an IPv6 address in brackets."""
    if text.startswith("[") and text.endswith("]"):
        return ":" in text and plain_address(text[1:-1]) is not None
    if text.replace(".", "").isdigit():
        return plain_address(text) is not None
    return _HOST.fullmatch(text) is not None


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= _PORT_MAX
