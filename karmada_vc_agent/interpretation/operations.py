"""The interpreter operations that an agent needs (contract 7.1)."""

from typing import Literal

Operation = Literal["Retain", "InterpretStatus", "InterpretHealth"]

RETAIN: Operation = "Retain"
INTERPRET_STATUS: Operation = "InterpretStatus"
INTERPRET_HEALTH: Operation = "InterpretHealth"
