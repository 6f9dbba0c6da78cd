"""What commands share: options, errors in one line, and waiting."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

import click
import yaml

from karmada_vc_agent.config.checks import dns_label_problem
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube import errors
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.kubeconfig import KubeconfigError
from karmada_vc_agent.model import user_text

EXIT_FAILED = 1
EXIT_SETTINGS = 2


class CommandError(Exception):
    """A command cannot do what it should; one line for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))


_SETTINGS_ERRORS = (ConfigError, KubeconfigError)
_FAILURES = (CommandError, errors.KubeError, RetryError, OSError)


@contextmanager
def one_line_errors(failed: int = EXIT_FAILED) -> Iterator[None]:
    """Print errors that a user can fix as lines on stderr and exit; logs are for `run`."""
    logging.getLogger("karmada_vc_agent").addHandler(logging.NullHandler())
    try:
        yield
    except _SETTINGS_ERRORS as error:
        end(EXIT_SETTINGS, str(error))
    except _FAILURES as error:
        end(failed, error_text(error))


def error_text(error: Exception) -> str:
    """Return an error of a server or file as a line."""
    if isinstance(error, errors.UnreachableError):
        return f"no answer from the {error}"
    if isinstance(error, errors.UnauthorizedError) and error.target:
        return f"{error.target}: {error}; renew the credential, or use another kubeconfig"
    if isinstance(error, errors.PageError) and error.target:
        return f"{error.target} is not served now ({error.status}: {error}); try again later"
    if isinstance(error, errors.ForbiddenError) and error.need is not None:
        return f"{error.server}: forbidden: the account used needs rule {error.need}"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def confirm(question: str, *, is_sure: bool) -> None:
    """Ask, unless that is not needed. Raises CommandError if the answer is no."""
    if not is_sure and not sys.stdin.isatty():
        raise CommandError("no terminal for the confirmation; use --yes. Nothing was changed")
    if not is_sure and not click.confirm(question):
        raise CommandError("nothing was changed")


def end(code: int, text: str) -> NoReturn:
    """Print lines on stderr and exit."""
    for line in text.splitlines():
        click.echo(f"karmada-vc-agent: {line}", err=True)
    sys.exit(code)


SAY_AFTER_S = 1.0


@asynccontextmanager
async def waiting(what: str, within_s: float) -> AsyncIterator[None]:
    """Print on stderr what is awaited, if this takes long. Raises TimeoutError after `within_s`."""
    text = f"waiting up to {within_s:.0f} s for {what}"
    timer = asyncio.get_running_loop().call_later(SAY_AFTER_S, click.echo, text, None, True, True)
    try:
        async with asyncio.timeout(within_s):
            yield
    finally:
        timer.cancel()


class FilePath(click.Path):
    """A path that is not empty: `"$UNSET"` does not mean the working directory."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; give a path.", param, ctx)
        return super().convert(value, param, ctx)


_TYPES: dict[str, click.ParamType[Any]] = {
    "file": FilePath(),
    "output": FilePath(dir_okay=False),
    "directory": FilePath(file_okay=False),
    "lifetime": click.IntRange(600, 2**31 - 1),
}


@cache
def _table() -> dict[str, list[Any]]:
    text = resources.files(__package__).joinpath("options.yaml").read_text()
    table: dict[str, list[Any]] = yaml.safe_load(text)
    return table


def options(name: str, **values: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds the options of a name in options.yaml; values: what their help names."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for row in reversed(_table()[name]):
            if isinstance(row, str):
                command = options(row)(command)
                continue
            others = {key: value for key, value in row.items() if key not in ("flags", "type")}
            kind = row.get("type")
            others["type"] = click.Choice(kind) if isinstance(kind, list) else _TYPES.get(kind)
            others["help"] = row["help"].format(**values)
            command = click.option(*row["flags"], **others)(command)
        return command

    return add


def written(content: Any, form: str) -> str:
    """Return plain data as JSON or YAML."""
    if form == "json":
        return json.dumps(content, indent=2)
    return str(yaml.safe_dump(content, sort_keys=False)).rstrip()


def examples(command: str) -> str:
    """Return the examples of a command for the end of its help, whose lines click leaves alone."""
    text = resources.files(__package__).joinpath(f"examples/{command}.txt").read_text()
    return "\n\n".join(f"\b\n{each}" for each in text.split("\n\n"))


def settings_and_agent(options: dict[str, Any]) -> tuple[AgentConfig | None, str, str]:
    """Return settings (None: no file), name and namespace of the agent. Raises ConfigError."""
    file: Path | None = options["config_path"]
    struct: type[AgentConfig] = click.get_current_context().obj
    given = {key: options[key] or None for key in ("agent_name", "agent_namespace")}
    config = load_config(struct, file, given, text=options.get("settings", "")) if file else None
    for key, label in given.items():
        if label and (problem := dns_label_problem(label)):
            raise ConfigError("flags", f"--{key.replace('_', '-')}", problem)
    name = (config.agent_name if config else options["agent_name"]) or AgentConfig().agent_name
    return config, name, (config.agent_namespace if config else options["agent_namespace"]) or name


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
