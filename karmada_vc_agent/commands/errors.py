"""How a command ends that cannot go on: a line for each problem, and an exit code."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from karmada_vc_agent.commands.agent_certificate import CertificateError
from karmada_vc_agent.commands.bootstrap import BootstrapError
from karmada_vc_agent.commands.join_preflight import PreflightError
from karmada_vc_agent.commands.leave_steps import LeaveError
from karmada_vc_agent.config.errors import ConfigError
from karmada_vc_agent.kube.errors import (
    ForbiddenError,
    KubeError,
    UnauthorizedError,
    UnreachableError,
)
from karmada_vc_agent.kube.kubeconfig import KubeconfigError

EXIT_FAILED = 1
EXIT_SETTINGS = 2

_SETTINGS_ERRORS = (ConfigError, KubeconfigError)
_FAILURES = (BootstrapError, CertificateError, KubeError, LeaveError, OSError, PreflightError)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what a user can put right into lines on stderr; a bug goes on as it is.

    Those lines are all there is: a log is for what goes on running.
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
    if isinstance(error, UnauthorizedError) and error.asked:
        return f"{error.asked}: {error}; renew the credential, or give another kubeconfig"
    if isinstance(error, ForbiddenError) and error.need is not None:
        return f"not allowed: the account given needs rule {error.need}"
    return str(error)


def _end(code: int, text: str) -> None:
    for line in text.splitlines():
        click.echo(f"karmada-vc-agent: {line}", err=True)
    sys.exit(code)
