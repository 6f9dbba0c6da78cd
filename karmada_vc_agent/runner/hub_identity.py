"""The identity of the hub that answers."""

from dataclasses import dataclass


@dataclass(slots=True)
class HubIdentity:
    """uid: of its namespace kube-system; "" until it answers, or where it may not be read."""

    uid: str = ""
