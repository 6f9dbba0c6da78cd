"""A signature of a release's checksums, by cosign."""

import shutil
import subprocess
from pathlib import Path

from release_files.versions import ReleaseError

KEY_HELP = (
    "Sign SHA256SUMS with this key of cosign, which has to be in PATH; the password is in "
    "COSIGN_PASSWORD. The workflow signs without a key."
)


def sign(checksums: Path, key: Path) -> Path:
    """Sign a file; return the bundle, which `cosign verify-blob --bundle` reads."""
    program = shutil.which("cosign")
    if program is None:
        raise ReleaseError("cosign is not in PATH; see https://docs.sigstore.dev/cosign")
    bundle = checksums.with_suffix(".sigstore.json")
    command = [program, "sign-blob", "--yes", "--key", str(key), "--bundle", str(bundle)]
    offline = ["--use-signing-config=false", "--tlog-upload=false"]
    done = subprocess.run(
        [*command, *offline, str(checksums)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ReleaseError(f"cosign could not sign: {done.stderr.strip()}")
    return bundle
