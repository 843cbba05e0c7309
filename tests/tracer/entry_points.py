#!/usr/bin/env python3
"""Of every entry point of the driver that CUPTI knows it is decided whether the preload library watches it.

    entry_points.py CUPTI_DRIVER_CBID_H DRIVER_CALLS_DEF ENTRY_POINTS_TXT

Prints how many are followed, left out and need not be watched, or what nobody has thought of.
"""
import re
import sys

numbers, calls, others = (open(path).read() for path in sys.argv[1:4])
known = set(re.findall(r"CUPTI_DRIVER_TRACE_CBID_(cu\w+)", numbers))
followed = set(re.findall(r"^CALL\((\w+)", calls, re.M))
for name, suffix in re.findall(r"^(?:STREAM|QUEUED)_CALL\((\w+), (\w+)", calls, re.M):
    followed |= {name, name + suffix}
left_out = set(re.findall(r"^LEFT_OUT\((\w+)", calls, re.M))
waited_for = set(re.findall(r"^UNTIL_IDLE\((\w+)", calls, re.M)) - followed - left_out
patterns = [line for line in others.splitlines() if line and not line.startswith("#")]
rest = known - followed - left_out - waited_for
undecided = sorted(name for name in rest if not any(re.fullmatch(pattern, name) for pattern in patterns))
idle = [pattern for pattern in patterns if not any(re.fullmatch(pattern, name) for name in rest)]
print("%d entry points: %d followed, %d left out with a line, %d waited for only, %d need not be watched" % (
    len(known), len(followed), len(left_out), len(waited_for), len(rest) - len(undecided)))
for name in undecided:
    print("FAIL nobody has decided about", name)
for pattern in idle:
    print("FAIL nothing is called", pattern)
sys.exit(1 if undecided or idle or not known else 0)
