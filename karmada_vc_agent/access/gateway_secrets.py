"""Names of the Secrets of a gateway, on host and hub, and of what is in the one on the host."""

from typing import Any, Literal

from karmada_vc_agent.model.objects import Object, dig

TokenKind = Literal["access", "impersonator"]
KINDS: tuple[TokenKind, ...] = ("access", "impersonator")
TOKENS, DEFINITIONS = "token.", "cluster."
"""What the data keys on the host begin with: of sums of tokens, of virtual clusters."""


def secret_name(agent: str) -> str:
    """Return the name of the Secret in the agent's namespace."""
    return f"{agent}-gateway"


def hub_secret_name(cluster: str, kind: TokenKind) -> str:
    """Return the name of the Secret in `karmada-cluster` with the token of a kind."""
    return cluster if kind == "access" else f"{cluster}-impersonator"


def token_prefix(cluster: str) -> str:
    """Return what the data keys of all sums of a virtual cluster begin with."""
    return f"{TOKENS}{cluster}."


def definition_key(cluster: str) -> str:
    """Return the data key of a virtual cluster that is not in the settings file."""
    return f"{DEFINITIONS}{cluster}"


def keys_of(secret: Object | None, cluster: str) -> tuple[str, ...]:
    """Return the data keys of all sums of a virtual cluster, readable or not."""
    return tuple(key for key in data_of(secret) if key.startswith(token_prefix(cluster)))


def data_of(secret: Object | None) -> dict[str, Any]:
    """Return the data of a Secret, {} where it has none."""
    data = dig(secret, "data")
    return data if isinstance(data, dict) else {}
