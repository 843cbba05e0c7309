#!/usr/bin/env python3
"""Checks one twin of one program of this folder against its expectation.

    run_program.py --deadheat bin/deadheat --source shared_reduce.cu --twin racy --binary shared_reduce.racy --work DIR

Runs `deadheat check` over the binary and compares what it finds with NAME.expected.json beside the source: the races as
a set of (level, class, kind, sides, verdict), the exit status, and, of the fixed twin, standard output. Every harmful
race must come with a witness that `deadheat replay --witness` repeats. Prints one PASS or FAIL line; on failure also
what differs and the command that repeats it. Exit status: 0 pass, 1 fail, 77 where the program says that it
cannot run on this machine ("skipped: …").

"faults" says how many faults make a twin's races, where that is asked for; "complete": false that its launch does not end. A race may have "why": texts that the report's
reason must hold, all of them, and "why_not": none of them. "options" go to `deadheat check`; "precision" says what
--precision must report (precision_problems).

A side of a race is a marker (`// @A` ends the source line of the access) or the name of an API call. Of the frames of
an inlined access the innermost one in the program's own source counts. "suppressed": true says that the program meets
races that deadheat's own list of library races keeps out of the count, and must.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
import schema_check  # noqa: E402

SKIPPED = 77  # exit status, as ctest is told
TIME_LIMIT = 150  # seconds, for one run of deadheat
OPERATIONS = ["read", "write", "atomic", "free"]  # the order in which a kind names them here


class Result:
    """What one twin should have shown and did show, for run_program.py and table.py."""

    def __init__(self, name, twin):
        self.name, self.twin = name, twin
        self.expected, self.found, self.problems = [], [], []
        self.answer = ""  # the last line that the program printed
        self.command = ""
        self.skipped = False  # the program said that the machine lacks what it needs

    @property
    def passed(self):
        return not self.problems

    def line(self):
        return "%s %s %s: expected %s found %s" % (
            "SKIP" if self.skipped else "PASS" if self.passed else "FAIL", self.name, self.twin,
            "; ".join(self.expected) or "nothing", "; ".join(self.found) or "nothing")


def markers_of(source):
    with open(source) as text:
        return {match.group(1): number for number, line in enumerate(text, 1)
                if (match := re.search(r"//\s*@(\w+)\s*$", line))}


def kind_of(text):
    rank = {operation: i for i, operation in enumerate(OPERATIONS)}
    return "-".join(sorted(text.split("-"), key=lambda operation: (rank.get(operation, 9), operation)))


def race_key(race_level, race_class, kind, sides, verdict):
    return (race_level, race_class, kind_of(kind), tuple(sorted(sides)), verdict)


def describe(key):
    level, race_class, kind, sides, verdict = key
    return "%s %s%s %s %s" % (level, "" if race_class == "data" else race_class + " ", kind, "/".join(sides), verdict)


def found_side(side, source, names):
    """A marker, `line N` for a line without one, an API name, or what else the side calls itself."""
    frames = [side] + (side.get("inlined") or side.get("source") or [])
    for frame in frames:
        if isinstance(frame, dict) and os.path.basename(frame.get("file") or "") == os.path.basename(source):
            line = frame.get("line", 0)
            return names.get(line, "line %d" % line)
    if side.get("file"):
        return "%s:%s" % (os.path.basename(side["file"]), side.get("line"))
    return side.get("kernel") or "?"


def run(command, cwd):
    """(status, stdout, stderr); the status is None where the time limit struck."""
    process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=TIME_LIMIT)
        return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # deadheat and the program it runs
        out, err = process.communicate()
        return None, out.decode(errors="replace"), err.decode(errors="replace")


def last_lines(text, count=8):
    return "\n".join("    | " + line for line in text.strip().splitlines()[-count:])


def precision_problems(report, expected, source, names):
    """What --precision should have said: verdicts of outputs by type, how and how well sums add up at which places,
    whether their outputs differ between schedules, and where the precision of the first output goes."""
    problems = []
    outputs = report.get("precision", {}).get("outputs", [])
    found = {output["type"]: output["verdict"] for output in outputs}
    if found != expected["outputs"]:
        problems.append("precision of outputs: %s instead of %s" % (found, expected["outputs"]))
    entries = report.get("order_dependent", [])
    sums = {found_side(entry["site"], source, names): [entry.get("how"), entry.get("precision", {}).get("verdict")]
            for entry in entries}
    if sums != expected["sums"]:
        problems.append("sums: %s instead of %s" % (sums, expected["sums"]))
    if "spread" in expected and any((entry["max_ulp"] > 0) != expected["spread"] for entry in entries):
        problems.append("spread over schedules: %s ULP" % [entry["max_ulp"] for entry in entries])
    if "lost_at" in expected:
        place = outputs and outputs[0].get("lost_at")
        place = place and found_side(place, source, names)
        if place != expected["lost_at"]:
            problems.append("the precision goes at %s instead of %s" % (place, expected["lost_at"]))
    return problems


def check(deadheat, source, twin, binary, work):
    name = os.path.splitext(os.path.basename(source))[0]
    result = Result(name, twin)
    deadheat, source, binary = os.path.abspath(deadheat), os.path.abspath(source), os.path.abspath(binary)
    directory = os.path.join(os.path.abspath(work), "%s.%s" % (name, twin))
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)

    with open(os.path.splitext(source)[0] + ".expected.json") as text:
        expectation = json.load(text)
    expected = {race_key(race["level"], race["class"], race["kind"], (race["first"], race["second"]), race["verdict"])
                for race in expectation[twin]["races"]}
    result.expected = sorted(map(describe, expected))

    report_file = os.path.join(directory, "report.json")
    command = [deadheat, "check", "--json", report_file] + expectation.get("options", []) + ["--", binary]
    result.command = "cd %s && %s" % (shlex.quote(directory), shlex.join(command))
    status, out, err = run(command, directory)
    with open(os.path.join(directory, "stdout"), "w") as text:
        text.write(out)
    result.answer = (out.splitlines() or [""])[-1]
    with open(os.path.join(directory, "stderr"), "w") as text:
        text.write(err)
    if status is None:
        result.problems.append("no end within %d s\n%s" % (TIME_LIMIT, last_lines(err)))
        return result
    # What the machine lacks to run the program at all.
    if result.answer.startswith("skipped: "):
        result.skipped = True
        return result

    # Until the device has what the program needs, it may be refused, by one of these names; then nothing else is asked.
    for name in expectation.get("may_refuse", []):
        if any("not supported by the embedded device" in line and name in line for line in err.splitlines()):
            result.expected, result.found = ["refused: " + name], ["refused: " + name]
            return result

    try:
        with open(report_file) as text:
            report = json.load(text)
        races = report["races"]
    except (OSError, ValueError, KeyError) as error:
        result.problems.append("exit status %d and no report (%s)\n%s" % (status, error, last_lines(err)))
        return result

    result.problems += schema_check.problems_of(report)[:5]

    marker_names = {line: marker for marker, line in markers_of(source).items()}
    found, reasons = set(), {}
    suppressed = sum(bool(race.get("suppressed")) for race in races)
    if bool(suppressed) != expectation.get("suppressed", False):
        result.problems.append("%d races are suppressed as known ones of the libraries" % suppressed)
    for race in races:
        if race.get("suppressed"):
            continue
        sides = [found_side(race[which], source, marker_names) for which in ("first", "second")]
        key = race_key(race["level"], race["class"], race["kind"], sides, race.get("verdict") or "none")
        found.add(key)
        reasons.setdefault(key, []).append(race.get("why", ""))
    result.found = sorted(map(describe, found))
    for key in sorted(expected - found):
        result.problems.append("missing: " + describe(key))
    for key in sorted(found - expected):
        result.problems.append("not expected: " + describe(key))

    for race in expectation[twin]["races"]:
        key = race_key(race["level"], race["class"], race["kind"], (race["first"], race["second"]), race["verdict"])
        for text in race.get("why", []):
            if key in reasons and not any(text in why for why in reasons[key]):
                result.problems.append("%s: its reason does not say '%s': %s" % (describe(key), text, reasons[key]))
        for text in race.get("why_not", []):
            if any(text in why for why in reasons.get(key, [])):
                result.problems.append("%s: its reason says '%s': %s" % (describe(key), text, reasons[key]))

    faults = report["summary"].get("faults")
    if faults != expectation[twin].get("faults", faults):
        result.problems.append("%s faults instead of %d" % (faults, expectation[twin]["faults"]))

    # Races of class strong count only with --strict.
    expected_status = 1 if any(race_class == "data" for _, race_class, _, _, _ in expected) else 0
    if status != expected_status:
        result.problems.append("exit status %d instead of %d\n%s" % (status, expected_status, last_lines(err)))
    if report.get("summary", {}).get("complete") is not expectation[twin].get("complete", True):
        result.problems.append("whether it is complete the report says wrongly")
    for faults in ("memory_errors", "sync_errors"):
        if twin == "fixed" and report.get(faults):
            result.problems.append("%s: %s" % (faults, json.dumps(report[faults])[:300]))

    if "order_dependent" in expectation[twin]:
        places = {found_side(entry["site"], source, marker_names) for entry in report.get("order_dependent", [])}
        if places != set(expectation[twin]["order_dependent"]):
            result.problems.append("order-dependent at %s instead of %s" %
                                   (sorted(places), expectation[twin]["order_dependent"]))

    if "precision" in expectation[twin]:
        result.problems += precision_problems(report, expectation[twin]["precision"], source, marker_names)

    if twin == "fixed" and out != expectation["stdout"]["fixed"]:
        result.problems.append("standard output is %r instead of %r" % (out, expectation["stdout"]["fixed"]))
    program_status = report.get("program_status", 0)
    if program_status != 0:
        result.problems.append("the program ended with status %s\n%s" % (program_status, last_lines(err)))

    for race in races:
        if race.get("verdict") != "harmful":
            continue
        witness = race.get("witness")
        if not witness or not os.path.exists(os.path.join(directory, witness)):
            result.problems.append("race %s is harmful without a witness (%r)" % (race.get("id"), witness))
            continue
        steps = race.get("interleaving", {})
        if race["level"] != "stream" and not any(step.get("parts") for run in "ab" for step in steps.get(run, [])):
            result.problems.append("race %s: its interleaving does not show where the runs part" % race.get("id"))
        replay = [deadheat, "replay", "--witness", os.path.join(directory, witness)]
        status, _, err = run(replay, directory)
        if status != 1:
            result.problems.append("the witness of race %s does not repeat (%s): %s\n%s" % (
                race.get("id"), "no end" if status is None else "exit status %d" % status,
                shlex.join(replay), last_lines(err)))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True, help="the deadheat command")
    parser.add_argument("--source", required=True, help="NAME.cu; NAME.expected.json lies beside it")
    parser.add_argument("--twin", required=True, choices=["racy", "fixed"])
    parser.add_argument("--binary", required=True, help="the compiled twin")
    parser.add_argument("--work", required=True, help="folder for traces, reports and witnesses")
    options = parser.parse_args()
    result = check(options.deadheat, options.source, options.twin, options.binary, options.work)
    print(result.line())
    if result.skipped:
        print("  " + result.answer)
        return SKIPPED
    if result.passed:
        return 0
    for problem in result.problems:
        print("  " + problem)
    print("  repeat with: " + result.command)
    return 1


if __name__ == "__main__":
    sys.exit(main())
