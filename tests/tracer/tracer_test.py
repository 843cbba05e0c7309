#!/usr/bin/env python3
"""What the preload library does in a process, over stand-ins for the driver and CUPTI (fake_cuda.cpp, fake_cupti.cpp).

    tracer_test.py --deadheat bin/deadheat --tracer libdeadheat.so --folder DIR [CASE…]
    tracer_test.py --list                      the cases' names: each is one ctest test

    [--embedded DIR]   where libcuda.so.1 is the embedded device (embedded_cuda.cpp), window_job, device_job …
    [--nvrtc LIBRARY --nvjitlink LIBRARY --nvrtc-user LIBRARY --nvcc FILE]
                       CUDA's compilers, and who is linked with them

DIR holds job, libcuda.so.1 and libcupti.so.13. Prints PASS, FAIL or SKIP a case and `N passed, N failed`.
Exit status: 0 all passed, 77 what was asked for was left out, 1 not.
"""
import shutil
import sys
import traceback

import assembler_cases
import compiled_cases
import device_cases
import function_cases
import graph_cases
import host_write_cases
import job_cases
import texture_cases
import trouble_cases
from tracer_case import Case, options

modules = (job_cases, device_cases, host_write_cases, function_cases, graph_cases, assembler_cases, compiled_cases,
           texture_cases, trouble_cases)
tests = [test for module in modules for test in module.cases]
names = [test.__name__ for test in tests]
assert len(set(names)) == len(names), "two cases of one name"
if options.list:
    print("\n".join(names))
    sys.exit()

passed = failed = skipped = 0
for test in tests:
    if options.cases and test.__name__ not in options.cases:
        continue
    if not options.embedded and hasattr(test, "over_embedded"):
        print("SKIP %s: no --embedded" % test.__name__)
        skipped += 1
        continue
    if not options.nvrtc_user and hasattr(test, "needs_compilers"):
        print("SKIP %s: no --nvrtc, --nvjitlink, --nvrtc-user and --nvcc" % test.__name__)
        skipped += 1
        continue
    case = Case()
    try:
        test(case)
        print("PASS", test.__name__)
        passed += 1
    except Exception as why:  # whatever stops a case: the next one runs
        line = traceback.extract_tb(why.__traceback__)[-1].lineno
        print("FAIL %s: %s (line %d): %s" % (test.__name__, type(why).__name__, line, str(why)[:1500]))
        failed += 1
    shutil.rmtree(case.work, ignore_errors=True)
print("%d passed, %d failed" % (passed, failed))
if skipped and not passed and not failed:
    sys.exit(77)  # ctest's SKIP_RETURN_CODE
sys.exit(1 if failed or not passed else 0)
