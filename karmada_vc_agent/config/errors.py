"""What is wrong with the settings."""


class ConfigError(Exception):
    """A setting that cannot be used: where it stands, its path, and what is wrong."""

    def __init__(self, source: str, path: str, problem: str) -> None:
        super().__init__(f"{source}: {path}: {problem}" if path else f"{source}: {problem}")
        self.path = path
        self.problem = problem
