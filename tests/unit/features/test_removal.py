"""An agent without one feature serves Works: its folder and its row are deleted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import karmada_vc_agent
from karmada_vc_agent.config.decoding import settings_of
from karmada_vc_agent.feature_list import FEATURES

PACKAGE = Path(karmada_vc_agent.__file__).parent
ROOT = PACKAGE.parent
FOLDERS = sorted(path.parent.name for path in (PACKAGE / "features").glob("*/feature.py"))
SETTINGS = {each.name: [field.key for field in settings_of(each.settings)] for each in FEATURES}

_SERVES = """
import asyncio, importlib.util, pathlib, sys

assert importlib.util.find_spec(sys.argv[1]) is None, sys.argv[1]

from karmada_vc_agent import cli
from karmada_vc_agent.config.decoding import ConfigError
from tests.fakes.virtual_time import VirtualTimeLoop
from tests.fuzz.served_ways import field

async def serve():
    async with field():  # until a Work is Applied
        print("applied")

with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
    runner.run(serve())
for name in cli.main.list_commands(None):
    assert cli.main.get_command(None, name) is not None, name
file = pathlib.Path("agent.yaml")
for key in sys.argv[2:]:
    head = "apiVersion: config.virtualcluster.kubeedge.io/v1alpha1\\nkind: AgentConfig\\n"
    file.write_text(f"{head}{key}: {{}}\\nvirtualClusters: [{{name: a, nodeNames: [n]}}]\\n")
    try:
        cli.read_settings(file, {}, {})
    except ConfigError as error:
        print(error)
"""


def package_without(name: str, into: Path) -> None:
    """Make a package of links to all but the folder of a feature, without its row."""
    made = into / PACKAGE.name
    (made / "features").mkdir(parents=True)
    (into / "tests").symlink_to(ROOT / "tests")
    for path in PACKAGE.iterdir():
        if path.name not in {"features", "feature_list.py", "__pycache__"}:
            (made / path.name).symlink_to(path)
    for path in (PACKAGE / "features").iterdir():
        if path.name not in {name, "__pycache__"}:
            (made / "features" / path.name).symlink_to(path)
    rows = (PACKAGE / "feature_list.py").read_text().splitlines()
    own = (f"from {PACKAGE.name}.features.{name}.feature ", f"    {name.upper()},")
    kept = [row for row in rows if not row.startswith(own)]
    assert len(kept) == len(rows) - 2, f"feature_list.py: {name.upper()} is no import and row"
    (made / "feature_list.py").write_text("\n".join(kept))


@pytest.mark.parametrize("name", FOLDERS)
def test_agent_without_a_feature_applies_works_and_refuses_its_settings(
    name: str, tmp_path: Path
) -> None:
    package_without(name, tmp_path)
    feature = f"{PACKAGE.name}.features.{name}"
    ended = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", _SERVES, feature, *SETTINGS[name]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    applied, *refused = ended.stdout.splitlines()
    assert applied == "applied"
    expected = [f"agent.yaml: {key}: is unknown" for key in SETTINGS[name]]
    assert [line.partition(";")[0] for line in refused] == expected
