"""`python -m vx`: the same as `vx`."""

from vx.cli.main import run

if __name__ == "__main__":
    run()
