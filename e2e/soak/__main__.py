"""Entry point of hack/soak."""

from e2e.soak.cli import command

if __name__ == "__main__":
    command(prog_name="hack/soak")
