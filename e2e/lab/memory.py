"""What a process has had of memory, as its node sees it, and what it may have."""

from collections.abc import Callable
from pathlib import Path

from karmada_vc_agent.access.agent_objects import MEMORY_LIMIT, MEMORY_REQUEST
from karmada_vc_agent.model.quantity import whole_units

ENOUGH_BYTES = 0.8 * whole_units(MEMORY_LIMIT)
"""What is left of the limit of the Deployments is for what nobody foresaw."""
ADDED_BYTES = ENOUGH_BYTES - whole_units(MEMORY_REQUEST)
"""What one attack may add to what a process holds at rest."""


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    return _bytes(pid, "VmHWM")


def added_from_now(pid: int) -> Callable[[], int]:
    """Return what reports how much more memory a process has had since then, at most."""
    before = _bytes(pid, "VmRSS")
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # its peak is what it has now
    return lambda: peak_bytes(pid) - before


def _bytes(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024
