"""An agent without one feature serves Works: its folder and its row are deleted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import karmada_vc_agent

PACKAGE = Path(karmada_vc_agent.__file__).parent
ROOT = PACKAGE.parent
FOLDERS = sorted(path.parent.name for path in (PACKAGE / "features").glob("*/feature.py"))

_SERVES = """
import asyncio, importlib.util, sys

assert importlib.util.find_spec(sys.argv[1]) is None, sys.argv[1]

from karmada_vc_agent import cli
from tests.fakes.virtual_time import VirtualTimeLoop
from tests.fuzz.served_ways import field

async def serve():
    async with field():  # until a Work is Applied
        print("applied")

with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
    runner.run(serve())
for name in cli.main.list_commands(None):
    assert cli.main.get_command(None, name) is not None, name
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
    assert len(kept) == len(rows) - 2
    (made / "feature_list.py").write_text("\n".join(kept))


@pytest.mark.parametrize("name", FOLDERS)
def test_agent_without_a_feature_applies_works(name: str, tmp_path: Path) -> None:
    package_without(name, tmp_path)
    feature = f"{PACKAGE.name}.features.{name}"
    ended = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", _SERVES, feature],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "applied\n"), ended.stderr[-2000:]
