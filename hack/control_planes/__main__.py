"""Run the command line of hack/control-planes."""

from control_planes import cli

if __name__ == "__main__":
    cli.main()
