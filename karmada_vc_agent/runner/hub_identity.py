"""Which hub it is that answers."""

from dataclasses import dataclass


@dataclass(slots=True)
class HubIdentity:
    """uid: of its namespace kube-system; "" while it is not known, or where it does not tell."""

    uid: str = ""
