#!/usr/bin/env python3
"""Is a file what analyzer/report/report.schema.json says a report is?

    schema_check.py FILE…

Here, unlike for readers, a property that the schema does not name is wrong too: whoever adds one says so there.
Exit status: 0 they are, 1 not, 77 Python's jsonschema is not installed.
"""
import copy
import json
import os
import sys

try:
    import jsonschema
except ImportError:
    jsonschema = None

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../analyzer/report/report.schema.json")
NOT_INSTALLED = "no python3-jsonschema: reports are not held against their schema (tools/setup.sh installs it)"


def closed(schema):
    """The schema with no other properties than it names."""
    if isinstance(schema, list):
        return [closed(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    out = {name: closed(value) for name, value in schema.items()}
    if out.get("type") == "object" and "properties" in out:
        out.setdefault("additionalProperties", False)
    return out


def validator():
    with open(SCHEMA) as file:
        schema = json.load(file)
    jsonschema.Draft7Validator.check_schema(schema)
    return schema, closed(copy.deepcopy(schema))


def problems_of(report):
    """Lines; none when the parsed report fits, or nobody can tell."""
    if jsonschema is None:
        return []
    _, schema = validator()
    # Not oneOf at the top: its messages say nothing.
    kind = "variation" if "variation" in report else "report"
    schema = dict(schema, oneOf=[schema["definitions"][kind]])
    schema.update(schema.pop("oneOf")[0])
    return ["%s: %s" % ("/".join(map(str, error.absolute_path)) or "the report", error.message[:200])
            for error in jsonschema.Draft7Validator(schema).iter_errors(report)]


def main():
    if jsonschema is None:
        print(NOT_INSTALLED)
        return 77
    bad = 0
    for name in sys.argv[1:]:
        with open(name) as file:
            for problem in problems_of(json.load(file)):
                print("%s: %s" % (name, problem))
                bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
