"""The page about mutants: RESULTS.md, made by mutate.py --results."""
import collections

OUTCOMES = ("reported", "hangs", "missed", "unchanged", "stillborn")


def share(rows):
    """Of the mutants that change something, those that are noticed."""
    counts = collections.Counter(row["outcome"] for row in rows)
    noticed = counts["reported"] + counts["hangs"]
    counted = noticed + counts["missed"]
    return noticed / counted if counted else 0


def table(head, groups):
    lines = ["| %s | mutants | %s | noticed |" % (head, " | ".join(OUTCOMES)), "|---" * (len(OUTCOMES) + 3) + "|"]
    for name, rows in groups:
        counts = collections.Counter(row["outcome"] for row in rows)
        changing = counts["reported"] + counts["hangs"] + counts["missed"]
        lines.append("| %s | %d | %s | %s |" % (name, len(rows), " | ".join(str(counts[o]) for o in OUTCOMES),
                                                "%.1f %%" % (100 * share(rows)) if changing else ""))
    return "\n".join(lines) + "\n"


def page(rows, not_tried, programs):
    kinds = [("programs, PTX", [r for r in rows if r["kind"] == "ptx" and not r["library"]]),
             ("programs, the host's calls", [r for r in rows if r["kind"] == "host"]),
             ("libraries and real code, PTX", [r for r in rows if r["kind"] == "ptx" and r["library"]]),
             ("all", rows)]
    by_program = collections.defaultdict(list)
    for row in rows:
        by_program[row["program"]].append(row)
    text = ("# Mutants\n\nMade by `tests/mutation/mutate.py --results`; its head says what the words mean. Noticed: reported or "
            "hanging, of those that change the relation on the recorded accesses.\n\n")
    if not_tried:
        number = sum(not_tried.values())
        text += ("**%d of %d mutants were not tried**: %s. Those that were are an arbitrary part of each program's.\n\n" % (
            number, number + len(rows), ", ".join("%d of %s" % (count, name) for name, count in sorted(not_tried.items()))))
    if left := sorted(set(programs) - set(by_program)):
        text += "Nothing to mutate in, or not tried: %s.\n\n" % ", ".join(left)
    text += table("", kinds)
    missed = [row for row in rows if row["outcome"] == "missed"]
    known = sum(r["outcome"] == "reported" and not r.get("findings") and bool(r.get("grown")) for r in rows)
    text += ("\nOf the reported, %d add pairs to races that the program itself has. Of the unchanged, %d are not executed, and of "
             "%d launch_oracle.py says that no accesses conflict unordered that did not before.\n" % (
                 known, sum(r.get("executed") is False for r in rows),
                 sum(r["outcome"] == "unchanged" and r["kind"] == "ptx" and r["conflicts"] == 0 for r in rows)))
    doubtful = [r for r in missed if r["conflicts"] is None]
    if doubtful:
        text += ("\nOf %d of the missed the oracle has said nothing: their traces are too large for it, or it ran out of time.\n" %
                 len(doubtful))
    text += "\n## Missed\n\n"
    text += "".join("- %(program)s, %(mutation)s, line %(line)d: `%(instruction)s`\n" % row for row in missed) or "None.\n"
    explained = [row for row in rows if row.get("reason")]
    if explained:
        text += "\n## Unchanged, as explained.txt says\n\n"
        text += "".join("- %(program)s, %(mutation)s, line %(line)d, `%(instruction)s`: %(reason)s\n" % row for row in explained)
    only = [row for row in rows if row["kind"] == "host" and row["outcome"] == "reported" and row["conflicts"] == 0]
    text += "\n## Reported, though stream_oracle.py sees no conflict\n\n"
    text += "".join("- %(program)s, %(mutation)s, call %(line)d: %(instruction)s\n" % row for row in only) or "None.\n"
    text += "\n## By program\n\n" + table("program", sorted(by_program.items()))
    return text
