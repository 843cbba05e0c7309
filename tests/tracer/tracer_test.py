#!/usr/bin/env python3
"""What the preload library does in a process, over stand-ins for the driver and CUPTI (fake_cuda.cpp, fake_cupti.cpp).

    tracer_test.py --deadheat bin/deadheat --tracer libdeadheat.so --folder DIR [CASE…]

    [--embedded DIR]   where libcuda.so.1 is the embedded device (embedded_cuda.cpp), window_job, device_job …
    [--nvrtc LIBRARY --nvjitlink LIBRARY --nvrtc-user LIBRARY --nvcc FILE]
                       CUDA's compilers, and who is linked with them

DIR holds job, libcuda.so.1 and libcupti.so.13. Prints PASS, FAIL or SKIP a case and `N passed, N failed`.
"""
import shutil
import subprocess
import sys

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

passed = failed = 0
for test in (job_cases.cases + device_cases.cases + host_write_cases.cases + function_cases.cases + graph_cases.cases + assembler_cases.cases +
             compiled_cases.cases + texture_cases.cases + trouble_cases.cases):
    if options.cases and test.__name__ not in options.cases:
        continue
    if not options.embedded and hasattr(test, "over_embedded"):
        print("SKIP %s: no --embedded" % test.__name__)
        continue
    if not options.nvrtc_user and hasattr(test, "needs_compilers"):
        print("SKIP %s: no --nvrtc, --nvjitlink, --nvrtc-user and --nvcc" % test.__name__)
        continue
    case = Case()
    try:
        test(case)
        print("PASS", test.__name__)
        passed += 1
    except (AssertionError, subprocess.TimeoutExpired) as why:
        print("FAIL %s: %s" % (test.__name__, str(why)[:1500]))
        failed += 1
    shutil.rmtree(case.work, ignore_errors=True)
print("%d passed, %d failed" % (passed, failed))
sys.exit(1 if failed or not passed else 0)
