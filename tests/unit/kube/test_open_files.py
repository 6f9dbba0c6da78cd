"""The limit of open files."""

import resource
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("soft", "hard"), [(40, 50), (50, 50)])
def test_soft_limit_is_raised_to_the_hard_one(soft: int, hard: int) -> None:
    code = (
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "from karmada_vc_agent.kube.flows import raise_file_limit\n"
        "print(raise_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)  # noqa: S603 - ours
    assert printed.split() == ["50", "50", "50"]
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > hard
