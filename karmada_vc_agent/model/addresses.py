"""IP addresses as Kubernetes reads them, whatever way they are written."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

_LEADING_ZEROS = re.compile(r"(?:^|(?<=[.:]))0+(?=\d+(?:\.|$))")


def plain_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address, IPv4 also where it is written as IPv6; None where it is none.

    Old API servers take leading zeros (`010.0.0.1`) for decimal, as here.
    """
    try:
        found = ip_address(_LEADING_ZEROS.sub("", text) if "." in text else text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found
