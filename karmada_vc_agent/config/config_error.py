"""The error for invalid settings."""

from karmada_vc_agent.model.texts import cut_words, one_line


class ConfigError(Exception):
    """An invalid setting: its source, its path, and the problem.

    other_path: path of the setting that it conflicts with.
    """

    def __init__(self, source: str, path: str, problem: str, other_path: str = "") -> None:
        text = f"{path}: {problem}" if path else problem
        super().__init__(one_line(f"{source}: {cut_words(text)}"))
        self.path = path
        self.problem = problem
        self.other_path = other_path
