"""Flags of karmada-agent: accepted in its notation, or rejected with their replacement.

docs/flags.md has the whole table.
"""

from collections.abc import Sequence
from typing import Any

import click

_NO_GLOG = "logs go to standard error, one line each; see --log-level and --log-format"
_NO_PROFILE = "the agent has no profiling endpoint; use a sampling profiler such as py-spy"

_GLOG = (
    *("--add-dir-header", "--alsologtostderr", "--log-backtrace-at", "--log-dir", "--log-file"),
    *("--log-file-max-size", "--log-flush-frequency", "--log-json-info-buffer-size"),
    *("--log-json-split-stream", "--log-text-info-buffer-size", "--log-text-split-stream"),
    *("--logtostderr", "--one-output", "--skip-headers", "--skip-log-headers"),
    "--stderrthreshold",
)

REPLACED = {
    "--cluster-name": "name it in the settings file: virtualClusters[].name",
    "--cluster-namespace": "the Secrets of the gateway are in karmada-cluster",
    "--cluster-api-endpoint": "name the gateway in the settings file: gateway.host",
    "--proxy-server-address": "name it in the settings file: gateway.proxyURL",
    "--report-secrets": "turn the gateway on in the settings file: gateway.enabled",
    "--leader-elect-resource-namespace": (
        "the Lease is on the host, in the namespace that --agent-namespace names"
    ),
    "--enable-pprof": _NO_PROFILE,
    "--profiling-bind-address": _NO_PROFILE,
    "--logging-format": "use --log-format",
    "--v": "use --log-level",
    "-v": "use --log-level",
    "--vmodule": "use --log-level",
    **dict.fromkeys(_GLOG, _NO_GLOG),
}
"""Flag of karmada-agent without meaning here -> what to use instead."""

_TRUTH = {
    **dict.fromkeys(("true", "True", "TRUE", "t", "T", "1"), True),
    **dict.fromkeys(("false", "False", "FALSE", "f", "F", "0"), False),
}


class KarmadaFlags(click.Command):
    """A command that also takes `--switch=false`, and rejects flags of karmada-agent only."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Translate the arguments before parsing. Raises UsageError."""
        return super().parse_args(ctx, translated(args, _switches(self)))


def translated(args: Sequence[str], switches: dict[str, str]) -> list[str]:
    """Return the arguments with `--switch=false` as the opposite switch.

    switches: switch that turns on -> switch that turns off. Raises UsageError for a replaced flag.
    """
    translated_args = []
    for arg in args:
        flag, equals, value = arg.partition("=")
        if flag in REPLACED:
            raise click.UsageError(f"{flag} is a flag of karmada-agent only: {REPLACED[flag]}")
        if not equals or flag not in switches:
            translated_args.append(arg)
        elif value in _TRUTH:
            translated_args.append(flag if _TRUTH[value] else switches[flag])
        else:
            raise click.UsageError(f'{flag} is "{value}", must be true or false')
    return translated_args


def _switches(command: click.Command) -> dict[str, str]:
    options: list[Any] = [p for p in command.params if isinstance(p, click.Option)]
    return {o.opts[0]: o.secondary_opts[0] for o in options if o.secondary_opts}
