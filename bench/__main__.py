"""Run the command line of hack/bench."""

from bench import cli

if __name__ == "__main__":
    cli.main()
