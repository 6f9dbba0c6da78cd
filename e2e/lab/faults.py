"""What is done to a connection, and on which side."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from e2e.lab.proxy import Proxy
from e2e.lab.scene import HOST, HUB

SIDES = {"hub": (HUB,), "host": (HOST,), "both": (HUB, HOST)}
AGAIN_S = 1.0


def _refuse(wire: Proxy) -> None:
    wire.cut()


def _far(wire: Proxy) -> None:
    wire.thin(0, 0.6)


def _thin(wire: Proxy) -> None:
    wire.thin(256_000, 0.0)


def _lose(wire: Proxy) -> None:
    wire.lose(0.05)


class Fault(NamedTuple):
    """begin: called again and again while it lasts, if it `repeats`. silent_s: more of its time."""

    begin: Callable[[Proxy], None]
    repeats: bool = False
    silent_s: float = 0.0


FAULTS = {
    "cut": Fault(Proxy.end_all, repeats=True),
    "refuse": Fault(_refuse),
    "black hole": Fault(Proxy.silence, silent_s=30.0),
    "delay": Fault(_far),
    "bandwidth": Fault(_thin),
    "resets": Fault(_lose),
}
"""An answer that is 30 s late is an outage: a black hole is there for longer."""


def hold(fault: Fault, wires: Sequence[Proxy], until: float) -> None:
    """Have a fault that has begun last until a moment, then end it."""
    while time.monotonic() < until:
        time.sleep(AGAIN_S)
        for wire in wires if fault.repeats else ():
            fault.begin(wire)
    for wire in wires:
        wire.restore()
