"""Why an entry is not used: a code for conditions, and a message."""

from enum import StrEnum


class Reason(StrEnum):
    """The reasons, as conditions have them."""

    UNREADABLE = "Unreadable"
    FORMAT = "FormatDiffers"
    CHECKSUM = "ChecksumDiffers"
    HUB = "HubDiffers"
    CLUSTER = "ClusterDiffers"
    TEMPLATE = "TemplateDiffers"
    DELETED = "ClusterGone"
    TOO_OLD = "TooOld"
    OUTDATED = "Outdated"


DAMAGED = frozenset({Reason.UNREADABLE, Reason.CHECKSUM})
"""The reasons where an entry is not as the agent wrote it; its Secret is named."""


class UnusableError(Exception):
    """An entry of the checkpoint must not be used; `str()` says why."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
