"""The clusters of the story."""

import os
from pathlib import Path

import pytest

from e2e.kind.installed import Installed


@pytest.fixture(scope="session")
def kind() -> Installed:
    directory = os.environ.get("KIND_DIRECTORY")
    if not directory:
        pytest.skip("no kind clusters: run hack/kind-story, or give KIND_DIRECTORY")
    return Installed.read(Path(directory).absolute())
