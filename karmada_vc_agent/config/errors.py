"""What is wrong with the settings."""

from karmada_vc_agent.model.texts import one_line


class ConfigError(Exception):
    """A setting that cannot be used: where it stands, its path, and what is wrong.

    other_path: of the setting that it does not go together with.
    """

    def __init__(self, source: str, path: str, problem: str, other_path: str = "") -> None:
        where = f"{source}: {path}" if path else source
        super().__init__(one_line(f"{where}: {problem}"))
        self.path = path
        self.problem = problem
        self.other_path = other_path
