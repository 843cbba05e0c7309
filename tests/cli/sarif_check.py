#!/usr/bin/env python3
"""Is a file SARIF 2.1.0? Checked against the objects of the standard that deadheat writes.

    sarif_check.py FILE [--schema sarif-schema-2.1.0.json]

SARIF's schema allows no property that it does not name, so that a table of the objects we write says as much about
our files as the whole schema: for each object its properties, which of them must be there, and what they hold (section
numbers are those of the OASIS standard). What no schema can say is checked too: that indices and ids lead somewhere.
With --schema the file is also held against the published schema, where Python's jsonschema is installed.
Exit status: 0 it is, 1 not.
"""
import argparse
import json
import re
import sys

LEVELS = ["none", "note", "warning", "error"]


def text(value):
    return isinstance(value, str)


def natural(least):
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def uri_reference(value):  # RFC 3986, appendix A
    return text(value) and re.fullmatch(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+", value) is not None


def one_of(*words):
    return lambda value: value in words


def bag(value):  # 3.8
    return isinstance(value, dict)


def strings(value):
    return isinstance(value, dict) and all(text(entry) for entry in value.values())


# Name of the object: {property: (must be there, what it holds)}; a string names an object, a list holds one kind.
OBJECTS = {
    "sarifLog": {"$schema": (False, text), "version": (True, one_of("2.1.0")), "runs": (True, ["run"])},  # 3.13
    "run": {"tool": (True, "tool"), "invocations": (False, ["invocation"]), "results": (False, ["result"]),
            "columnKind": (False, one_of("utf16CodeUnits", "unicodeCodePoints")), "properties": (False, bag)},  # 3.14
    "tool": {"driver": (True, "toolComponent")},  # 3.18
    "toolComponent": {"name": (True, text), "version": (False, text),
                      "rules": (False, ["reportingDescriptor"])},  # 3.19
    "reportingDescriptor": {"id": (True, text), "name": (False, text), "shortDescription": (False, "message")},  # 3.49
    "invocation": {"executionSuccessful": (True, lambda value: isinstance(value, bool)),
                   "toolExecutionNotifications": (False, ["notification"])},  # 3.20
    "notification": {"level": (False, one_of(*LEVELS)), "message": (True, "message")},  # 3.58
    "message": {"text": (True, text)},  # 3.11
    "result": {"ruleId": (False, text), "ruleIndex": (False, natural(0)), "level": (False, one_of(*LEVELS)),
               "message": (True, "message"), "locations": (False, ["location"]),
               "relatedLocations": (False, ["location"]), "occurrenceCount": (False, natural(1)),
               "partialFingerprints": (False, strings), "suppressions": (False, ["suppression"]),
               "properties": (False, bag)},  # 3.27
    "location": {"id": (False, natural(0)), "physicalLocation": (False, "physicalLocation"),
                 "logicalLocations": (False, ["logicalLocation"]), "message": (False, "message")},  # 3.28
    "physicalLocation": {"artifactLocation": (True, "artifactLocation"), "region": (False, "region")},  # 3.29
    "artifactLocation": {"uri": (True, uri_reference)},  # 3.4
    "region": {"startLine": (True, natural(1))},  # 3.30
    "logicalLocation": {"fullyQualifiedName": (True, text), "kind": (False, text)},  # 3.33
    "suppression": {"kind": (True, one_of("inSource", "external"))},  # 3.35
}


def check(value, kind, path, problems):
    if isinstance(kind, list):
        if not isinstance(value, list):
            problems.append("%s is no array" % path)
            return
        for index, entry in enumerate(value):
            check(entry, kind[0], "%s[%d]" % (path, index), problems)
    elif isinstance(kind, str):
        if not isinstance(value, dict):
            problems.append("%s is no object" % path)
            return
        properties = OBJECTS[kind]
        for name in value:
            if name not in properties:
                problems.append("%s.%s is not a property of %s" % (path, name, kind))
            else:
                check(value[name], properties[name][1], "%s.%s" % (path, name), problems)
        for name, (needed, _) in properties.items():
            if needed and name not in value:
                problems.append("%s has no %s" % (path, name))
    elif not kind(value):
        problems.append("%s cannot be %s" % (path, json.dumps(value)[:60]))


def problems_of(log):
    """What is wrong with a parsed file: lines, none when it is SARIF."""
    problems = []
    check(log, "sarifLog", "log", problems)
    if problems:
        return problems
    for run in log["runs"]:
        rules = [rule["id"] for rule in run["tool"]["driver"].get("rules", [])]
        if len(set(rules)) != len(rules):
            problems.append("two rules have one id")
        for number, result in enumerate(run.get("results", [])):
            index = result.get("ruleIndex")
            if index is not None and (index >= len(rules) or rules[index] != result.get("ruleId", rules[index])):
                problems.append("result %d: ruleIndex %d is not the rule %s" % (number, index, result.get("ruleId")))
            if result["message"]["text"] == "":
                problems.append("result %d says nothing" % number)
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--schema", help="the published schema")
    options = parser.parse_args()
    with open(options.file) as file:
        log = json.load(file)
    problems = problems_of(log)
    if options.schema:
        import jsonschema
        with open(options.schema) as file:
            schema = json.load(file)
        problems += [error.message for error in jsonschema.validators.validator_for(schema)(schema).iter_errors(log)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
