"""Flags of karmada-agent: accepted in its notation, or rejected (docs/flags.md)."""

from collections.abc import Sequence
from importlib import resources

import click

from karmada_vc_agent.model import user_text

REPLACED: dict[str, str] = user_text.load_yaml(
    resources.files("karmada_vc_agent").joinpath("karmada_flags.yaml").read_bytes()
)
"""Flag of karmada-agent without meaning here -> what to use instead."""

_ON, _OFF = ("true", "True", "TRUE", "t", "T", "1"), ("false", "False", "FALSE", "f", "F", "0")


class KarmadaFlags(click.Command):
    """A command that also takes `--switch=false`, and rejects flags of karmada-agent only."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Translate the arguments before parsing. Raises UsageError."""
        options = [each for each in self.params if each.secondary_opts]
        switches = {each.opts[0]: each.secondary_opts[0] for each in options}
        return super().parse_args(ctx, translated(args, switches))


def translated(args: Sequence[str], switches: dict[str, str]) -> list[str]:
    """Return the arguments with `--on=false` as the opposite switch. Raises UsageError."""
    translated_args = []
    for arg in args:
        flag, equals, value = arg.partition("=")
        if flag in REPLACED:
            raise click.UsageError(f"{flag} is a flag of karmada-agent only: {REPLACED[flag]}")
        if not equals or flag not in switches:
            translated_args.append(arg)
        elif value in (*_ON, *_OFF):
            translated_args.append(flag if value in _ON else switches[flag])
        else:
            raise click.UsageError(f'{flag} is "{value}", must be true or false')
    return translated_args
