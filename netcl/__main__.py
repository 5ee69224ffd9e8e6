"""`python -m netcl` is the command `netcl`."""

from netcl.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
