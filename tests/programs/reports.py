#!/usr/bin/env python3
"""The JSON and SARIF of every program of this folder, held against their schemas.

    reports.py --deadheat build/bin/deadheat --binaries build/tests/programs --sarif-schema FILE [--jobs N] [NAME…]

JSON must fit analyzer/report/report.schema.json; SARIF the table of tests/cli/sarif_check.py and the schema that OASIS
publishes, as tests/cli/sarif_schema.sh leaves it. (That of `check`, verdicts and all, run_program.py looks at.)
Exit status: 0 all fit, 1 not, 77 a schema or Python's jsonschema was missing and what could be looked at fits.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
import sarif_check  # noqa: E402
import schema_check  # noqa: E402

if schema_check.jsonschema:
    import jsonschema


def problems_of(options, validator, binary):
    with tempfile.TemporaryDirectory() as work:
        def run(*words):
            return subprocess.run([options.deadheat, *words], cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE).stderr.decode(errors="replace")
        run("record", "-o", "trace", "--", binary)
        err = run("analyze", "--json", "json", "--sarif", "sarif", "trace")
        try:
            with open(os.path.join(work, "json")) as file:
                report = json.load(file)
            with open(os.path.join(work, "sarif")) as file:
                log = json.load(file)
        except (OSError, ValueError) as error:
            return 0, ["no report: %s; %s" % (error, err[-200:])]
    problems = ["JSON: " + line for line in schema_check.problems_of(report)]
    problems += ["SARIF: " + line for line in sarif_check.problems_of(log)]
    if validator:
        problems += ["SARIF, by its schema: %s: %s" % ("/".join(map(str, error.absolute_path)), error.message[:200])
                     for error in validator.iter_errors(log)]
    results = len(log["runs"][0]["results"])
    if results < len(report["races"]):
        problems.append("SARIF: %d results for %d races" % (results, len(report["races"])))
    return len(report["races"]), problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True, type=os.path.abspath)
    parser.add_argument("--binaries", required=True, type=os.path.abspath)
    parser.add_argument("--sarif-schema", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*", help="beginnings of programs' names; none: all racy ones, and the corners")
    options = parser.parse_args()
    validator = None
    if not schema_check.jsonschema:
        print(schema_check.NOT_INSTALLED)
    elif not os.path.exists(options.sarif_schema):
        print("SKIPPED: there is no %s: SARIF is held against our own table only" % options.sarif_schema)
    else:
        with open(options.sarif_schema) as file:
            schema = json.load(file)
        validator = jsonschema.validators.validator_for(schema)(schema)
    binaries = sorted(glob.glob(os.path.join(options.binaries, "*.racy")))
    binaries += [name for name in glob.glob(os.path.join(options.binaries, "corners_*")) if os.access(name, os.X_OK) and
                 "." not in os.path.basename(name)]
    if options.names:
        binaries = [name for name in binaries if os.path.basename(name).startswith(tuple(options.names))]
    bad, races = 0, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for binary, (count, problems) in zip(binaries, pool.map(lambda name: problems_of(options, validator, name), binaries)):
            races += count
            for problem in problems[:5]:
                print("%s: %s" % (os.path.basename(binary), problem))
            bad += bool(problems)
    print("%d programs with %d races, %d do not fit" % (len(binaries), races, bad))
    if bad or not binaries:
        return 1
    return 0 if validator else 77


if __name__ == "__main__":
    sys.exit(main())
