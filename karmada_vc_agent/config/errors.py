"""What is wrong with the settings."""

from karmada_vc_agent.model.texts import one_line


class ConfigError(Exception):
    """A setting that cannot be used: where it stands, its path, and what is wrong."""

    def __init__(self, source: str, path: str, problem: str) -> None:
        where = f"{source}: {path}" if path else source
        super().__init__(one_line(f"{where}: {problem}"))
        self.path = path
        self.problem = problem
