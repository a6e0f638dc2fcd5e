"""`python -m stragglers`: the command line."""

import sys

from stragglers.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
