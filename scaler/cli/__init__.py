"""The command line: one module a command.

Exit codes: 0 ok, 1 the check failed, 2 usage or configuration; 128 and the number of a signal that ended it: 130 for Ctrl-C, 141 where
nobody reads the output any more.
"""

import sys

INTERRUPTED = 130


def main() -> None:
    """The entry point."""
    try:
        from scaler.cli.commands import run  # here, where an impatient Ctrl-C is caught

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
