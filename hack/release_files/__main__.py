"""The command line of hack/release."""

import datetime as dt
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from oci_image.platforms import PLATFORMS
from release_files import artefacts, signing, versions
from release_files.artefacts import NAME, Release
from release_files.versions import ReleaseError

ROOT = Path(__file__).parents[2]
HELP = f"""Make all files of a release from the last commit, the same bytes each time.

Wheel, source distribution, chart, install.yaml (one file for virtual clusters as objects), image
for amd64 and arm64, an SBOM (CycloneDX) for wheel and images, release notes, and SHA256SUMS.
VERSION has to be that of pyproject.toml; --prepare writes it there, and dates CHANGELOG.md.

\b
Examples:
  hack/release --prepare 0.2.0       # then commit, and:
  hack/release 0.2.0 --image registry.example/{NAME}
  hack/release 0.2.0 --sign-key cosign.key
"""


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("version")
@click.option("--prepare", is_flag=True, help="Only write VERSION into the files that have it.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="New directory. Default: dist/VERSION."
)
@click.option(
    "--image", default=NAME, show_default=True, help="Name of the image in chart and install.yaml."
)
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    type=click.Choice((*PLATFORMS, "none")),
    help="Platform of an image; can be repeated. Default: all.",
)
@click.option("--sign-key", type=click.Path(exists=True, path_type=Path), help=signing.KEY_HELP)
@click.option(
    "--snapshot",
    is_flag=True,
    help="For tests: leave out what is not committed, with notes of what is unreleased.",
)
def main(
    version: str,
    *,
    prepare: bool,
    output: Path | None,
    image: str,
    platforms: tuple[str, ...],
    sign_key: Path | None,
    snapshot: bool,
) -> None:
    versions.checked(version)
    if prepare:
        _prepare(version)
        return
    if _git("status", "--porcelain", "--untracked-files=no") and not snapshot:
        raise ReleaseError("there are changes that are not committed; commit them first")
    target = output or ROOT / "dist" / version
    if target.exists():
        raise ReleaseError(f"{target} exists; remove it, or name another --output")
    os.umask(0o022)  # archives have the modes of their files
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-release.", dir=target.parent) as folder:
        release = Release(
            version,
            source=Path(folder, "source"),
            output=Path(folder, "output"),
            image=f"{image}:{version}",
            epoch_s=int(_git("log", "-1", "--format=%ct")),
        )
        _make(release, _platforms(platforms), versions.UNRELEASED if snapshot else version)
        if sign_key is not None:
            _say("signing SHA256SUMS")
            signing.sign(release.output / artefacts.CHECKSUMS, sign_key)
        release.output.rename(target)
    click.echo((target / artefacts.CHECKSUMS).read_text(), nl=False)
    _say(f"{target} is complete")


def _make(release: Release, platforms: tuple[str, ...], section: str) -> None:
    subprocess.run(
        ["git", "clone", "--quiet", "--shared", ROOT, release.source], check=True, cwd=ROOT
    )
    of_source = versions.of_source(release.source)
    if release.version != of_source:
        raise ReleaseError(
            f"pyproject.toml has version {of_source}; run hack/release --prepare "
            f"{release.version} and commit"
        )
    release.output.mkdir()
    artefacts.notes(release, section)
    _say("wheel and source distribution")
    artefacts.packages(release)
    _say("chart and install.yaml")
    artefacts.chart(release)
    artefacts.install_manifest(release)
    artefacts.images(release, platforms, _say)
    artefacts.checksums(release)


def _prepare(version: str) -> None:
    changed = versions.prepare(ROOT, version, dt.datetime.now(dt.UTC).date())
    subprocess.run(["hack/update-manifests"], check=True, cwd=ROOT)
    _say(f"wrote {version} into {', '.join(changed)} and manifests/; commit them")


def _platforms(named: tuple[str, ...]) -> tuple[str, ...]:
    if "none" in named:
        return ()
    return named or tuple(PLATFORMS)


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _say(text: str) -> None:
    print(f"hack/release: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main(prog_name="hack/release", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"hack/release: {error}", file=sys.stderr)
        sys.exit(1)
