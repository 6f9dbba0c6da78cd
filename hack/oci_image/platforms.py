"""The platforms that an image is made for, and what each calls them."""

from dataclasses import dataclass


class ImageError(Exception):
    """An image cannot be made; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Platform:
    """name: as OCI has it. debian, machine: the architecture as Debian and as Python have it."""

    name: str
    debian: str
    machine: str

    @property
    def architecture(self) -> str:
        """The architecture as OCI has it."""
        return self.name.partition("/")[2]


PLATFORMS = {
    platform.name: platform
    for platform in (
        Platform("linux/amd64", "amd64", "x86_64"),
        Platform("linux/arm64", "arm64", "aarch64"),
    )
}


def own_platform(machine: str) -> Platform:
    """Return the platform of a machine (`platform.machine()`). Raises ImageError."""
    for platform in PLATFORMS.values():
        if platform.machine == machine:
            return platform
    raise ImageError(f"no image for {machine}; name one of {', '.join(PLATFORMS)} by --platform")
