"""Tell on standard error what is being built or started, and for how long."""

import shutil
import sys
import time


class BuildProgress:
    """Count the programs built and the time each takes."""

    def __init__(self, missing: list[str]) -> None:
        self._missing = missing
        self._began = time.monotonic()
        self._program_began = self._began
        self.say(
            f"building {len(missing)} programs into the cache "
            "(10 to 20 minutes on 2 cores from nothing, once)"
        )

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def building(self, program: str) -> None:
        self._program_began = time.monotonic()
        self.say(f"{self._position(program)} {program} ...")

    def still_building(self, program: str) -> None:
        seconds = time.monotonic() - self._program_began
        self.say(f"{self._position(program)} {program} ... {seconds:.0f} s")

    def built(self, program: str) -> None:
        now = time.monotonic()
        self.say(
            f"{self._position(program)} {program} built in {now - self._program_began:.0f} s"
            f" (total {now - self._began:.0f} s)"
        )

    def finish(self) -> None:
        self.say(f"all programs are built ({time.monotonic() - self._began:.0f} s)")

    def _position(self, program: str) -> str:
        number = self._missing.index(program) + 1 if program in self._missing else 0
        return f"[{number:2}/{len(self._missing)}]"


class StartProgress:
    """Count the components that are ready and the time since the start of the first."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._ready = 0
        self._began = time.monotonic()
        self._started: dict[str, float] = {}

    def say(self, text: str) -> None:
        self._clear()
        print(text, file=sys.stderr, flush=True)

    def starting(self, component: str) -> None:
        self._started[component] = time.monotonic()
        self._show_waiting()

    def ready(self, component: str) -> None:
        now = time.monotonic()
        self._ready += 1
        took = now - self._started.pop(component, now)
        self.say(
            f"[{self._ready:2}/{self._total}] {component:<31} ready after {took:4.1f} s"
            f"  (total {self.elapsed():4.1f} s)"
        )
        self._show_waiting()

    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def finish(self) -> None:
        self._clear()

    def _show_waiting(self) -> None:
        if sys.stderr.isatty() and self._started:
            waiting = ", ".join(self._started)
            self._clear()
            width = shutil.get_terminal_size().columns - 1
            print(f"starting {waiting}"[:width], end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
