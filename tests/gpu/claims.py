"""What the scripts of this folder claim: printed as it is made, counted, and summed up in the last line."""
import sys

_made = {True: 0, False: 0}


def claim(true, text, quiet=False):
    """quiet: prints a claim that fails only."""
    true = bool(true)
    _made[true] += 1
    if not (true and quiet):
        print(("PASS " if true else "FAIL ") + text, flush=True)


def end():
    """The script's last words, `N passed, N failed`; exit status 0 when something passed and nothing failed."""
    print("%d passed, %d failed" % (_made[True], _made[False]))
    sys.exit(0 if _made[True] and not _made[False] else 1)
