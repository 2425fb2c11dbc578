"""Lets two names change places as fast as it can, until it is killed.

python swapper.py ONE OTHER
"""

from __future__ import annotations

import ctypes
import os
import sys

AT_FDCWD, RENAME_EXCHANGE = -100, 2


def main() -> None:
    libc = ctypes.CDLL(None)
    one, other = map(os.fsencode, sys.argv[1:])
    sys.stdout.write("up\n")
    sys.stdout.flush()
    while libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0:
        pass
    raise SystemExit("they cannot change places")


if __name__ == "__main__":
    main()
