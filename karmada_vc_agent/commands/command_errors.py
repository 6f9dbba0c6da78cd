"""How a command fails: one line for each problem, and an exit code."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import (
    ForbiddenError,
    KubeError,
    PageError,
    UnauthorizedError,
    UnreachableError,
)
from karmada_vc_agent.kube.kubeconfig import KubeconfigError

EXIT_FAILED = 1
EXIT_SETTINGS = 2


class CommandError(Exception):
    """A command cannot do what it should; one line for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))


_SETTINGS_ERRORS = (ConfigError, KubeconfigError)
_FAILURES = (CommandError, KubeError, RetryError, OSError)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Print errors that a user can fix as lines on stderr and exit; other errors propagate.

    Nothing else is logged: logs are for `run`.
    """
    logging.getLogger("karmada_vc_agent").addHandler(logging.NullHandler())
    try:
        yield
    except _SETTINGS_ERRORS as error:
        _end(EXIT_SETTINGS, str(error))
    except _FAILURES as error:
        _end(EXIT_FAILED, _text(error))


def _text(error: Exception) -> str:
    if isinstance(error, UnreachableError):
        return f"no answer from the {error}"
    if isinstance(error, UnauthorizedError) and error.target:
        return f"{error.target}: {error}; renew the credential, or use another kubeconfig"
    if isinstance(error, PageError) and error.target:
        return f"{error.target} is not served now ({error.status}: {error}); try again later"
    if isinstance(error, ForbiddenError) and error.need is not None:
        return f"{error.server}: forbidden: the account used needs rule {error.need}"
    return str(error)


def _end(code: int, text: str) -> None:
    for line in text.splitlines():
        click.echo(f"karmada-vc-agent: {line}", err=True)
    sys.exit(code)
