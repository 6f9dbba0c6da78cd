# Sourced: ensure_venv makes .venv with the pinned development tools, once per set of pins.
# It takes only files whose hashes are pinned, the build backend's too. The stamp is there while
# .venv is whole: what was broken off is made again from nothing.
# Byte code is kept, wherever the caller says otherwise: without it pytest rewrites and compiles all
# tests in each of its processes, and each of hundreds of agents takes 2 s of CPU to start, not 0.5.

ensure_venv() {
  unset PYTHONDONTWRITEBYTECODE
  local root stamp want python was_whole install
  root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
  if [ -L "$root/.venv" ]; then return 0; fi # of another worktree, which renews it
  stamp="$root/.venv/.stamp"
  want="$(cat "$root/pyproject.toml" "$root/constraints.txt" | sha256sum | cut -c1-32)"
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then return 0; fi
  for python in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
    [ -n "$python" ] || continue
    "$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
    python=""
  done
  if [ -z "$python" ]; then
    echo "hack: no Python 3.11 or newer with the venv module found; install one or set PYTHON" >&2
    return 1
  fi
  (
    flock 9
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then exit 0; fi
    echo "hack: preparing .venv with $("$python" --version) (once)" >&2
    was_whole=""
    if [ -f "$stamp" ]; then was_whole=yes; fi
    install=("$root/.venv/bin/pip" install --quiet --disable-pip-version-check)
    # pip takes no hash for the project itself: it comes alone, after all that it needs.
    rm -f "$stamp" &&
      { [ "$was_whole" ] || "$python" -m venv --clear "$root/.venv"; } &&
      "${install[@]}" --require-hashes --requirement "$root/constraints.txt" &&
      "${install[@]}" --no-deps --no-build-isolation --no-index --editable "$root" &&
      "$root/.venv/bin/pip" --disable-pip-version-check check >&2 &&
      echo "$want" >"$stamp" && exit 0
    echo "hack: .venv could not be prepared" >&2
    exit 1
  ) 9>"$root/.venv.lock"
}
