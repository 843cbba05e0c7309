"""Mutations of PTX: synchronization taken out or made weaker, one instruction at a time.

    drop    a barrier, a fence, a wait is gone; a wait for an mbarrier's phase finds it complete at once
    narrow  a scope becomes that of the block
    weaken  an acquire or release becomes relaxed
    ignore  a wait for an mbarrier's phase is there, and nobody looks at its outcome; a loop that does nothing but read
            a flag ends after its first turn
"""
import collections
import ctypes
import re

# line from 0, of the PTX; source: line of the program, from .loc; new None: the line goes; where: the same for
# all instances of a template; kernel: that it is in, as people write it, nothing in a function that several may call
Mutation = collections.namedtuple("Mutation", "what line source old new where kernel")

ORDERED = r"(ld|st|atom|red|mbarrier)\."


def opcode_of(text):
    """The opcode of a line that is one instruction, without its predicate; nothing otherwise."""
    match = re.match(r"\s*(?:@!?%?\w+\s+)?([a-z][\w:.]*)\b[^;]*;\s*$", text)
    return match.group(1) if match else ""


# The rules: name, and opcode → new opcode; None drops the instruction, "" leaves it.
def drop_barrier(opcode):
    plain = re.match(r"(bar|barrier)(\.cta)?\.(sync|arrive)|bar\.warp\.sync|barrier\.cluster", opcode)
    return None if plain else ""


def drop_fence(opcode):
    return None if re.match(r"membar\.|fence\.(sc|acq_rel|acquire|release|proxy|mbarrier_init)", opcode) else ""


def drop_wait(opcode):
    return None if re.match(r"cp\.async\.(wait_|bulk\.wait_)|griddepcontrol\.wait", opcode) else ""


def narrow(opcode):
    if opcode.startswith("membar."):
        return "membar.cta" if opcode in ("membar.gl", "membar.sys") else ""
    if re.match(r"fence\.(sc|acq_rel|acquire|release)", opcode) or re.match(ORDERED, opcode):
        if re.search(r"\.(gpu|sys|cluster)(?=\.|$)", opcode):
            return re.sub(r"\.(gpu|sys|cluster)(?=\.|$)", ".cta", opcode)
        if re.match(r"(atom|red)\.", opcode) and ".cta" not in opcode and ".shared" not in opcode:
            return re.sub(r"^(atom|red)", r"\1.relaxed.cta", opcode)  # without them it is relaxed at device scope
    return ""


def weaken(opcode):
    if re.match(ORDERED, opcode) and re.search(r"\.(acquire|release|acq_rel)(?=\.|$)", opcode):
        return re.sub(r"\.(acquire|release|acq_rel)(?=\.|$)", ".relaxed", opcode)
    # An arrival at a cluster's barrier releases unless it says relaxed; its wait has no relaxed form (9.7.13.4).
    if re.match(r"barrier\.cluster\.arrive", opcode) and ".relaxed" not in opcode:
        return re.sub(r"\.release|(?<=\.arrive)(?!\.release)", ".relaxed", opcode, count=1)
    return ""


RULES = [("drop", drop_barrier), ("drop", drop_fence), ("drop", drop_wait), ("narrow", narrow), ("weaken", weaken)]


def no_phase_wait(line):
    """A line that waits for an mbarrier's phase, as if that were complete; nothing for other lines."""
    wait = re.compile(r"mbarrier\.(?:try_wait|test_wait)[\w.:]*\s+(%?\w+)\s*,[^;]*;")
    return wait.sub(r"setp.eq.u32 \1, 0, 0;", line) if wait.search(line) else ""


def ignored_wait(line):
    """The same, where the wait stays."""
    wait = re.compile(r"((?:@!?%?\w+\s+)?)(mbarrier\.(?:try_wait|test_wait)[\w.:]*\s+)(%?\w+)(\s*,[^;]*;)")
    return wait.sub(r"{ .reg .pred $ignored; \1\2$ignored\4 } \1setp.eq.u32 \3, 0, 0;", line) if wait.search(line) else ""


class Loops:
    """Of a function, line by line: which branch goes back to the beginning of a loop that does nothing but read strongly."""

    def __init__(self):
        self.begun = {}  # label → whether a strong read came since; of loops that did nothing else so far

    def spins(self, line):
        opcode = opcode_of(line)
        if label := re.match(r"\s*([$\w]+):\s*$", line):
            self.begun[label.group(1)] = False
        elif back := re.match(r"\s*@!?%?\w+\s+bra(?:\.uni)?\s+([$\w]+);", line):
            return self.begun.get(back.group(1), False)
        elif re.match(r"atom\.|ld\.(\w+\.)*(acquire|relaxed|volatile)\b", opcode):
            self.begun = dict.fromkeys(self.begun, True)
        elif re.match(r"(ld|st|red|bar|barrier|bra|call|mbarrier|cp|ret|exit)\b", opcode):
            self.begun = {}
        return False


def demangled(names):
    """{name: as people write it}; nothing where the C++ library is not there."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return {}
    library.__cxa_demangle.restype = ctypes.c_void_p
    library.__cxa_demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    found = {}
    for name in names:
        status = ctypes.c_int()
        said = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
        found[name] = ctypes.string_at(said).decode() if said else name
    return found


def mutations_of(text, launched=None, every_instance=True):
    """Mutations of a module; of the kernels in `launched` (as people write them) and what they may call, if it is
    given. Without every_instance only one of what stands at the same place of a template."""
    found, source, where, skip, seen = [], 0, "", False, set()
    loops, template, kernel = Loops(), "", ""  # of the function
    times = collections.Counter()  # how often it had each place
    readable = demangled(re.findall(r"\.entry\s+([\w$]+)", text)) if launched is not None else {}
    for number, line in enumerate(text.split("\n")):
        if match := re.search(r"\.(entry|func)\b(?:\s*\([^)]*\))?\s*([\w$]*)", line):
            name = readable.get(match.group(2), match.group(2))
            skip = match.group(1) == "entry" and match.group(2) in readable and name not in launched
            kernel = name if match.group(1) == "entry" else ""
            template = re.sub(r"[<(].*", "", name) if match.group(2) in readable else name
            times.clear()
            loops = Loops()
        if match := re.match(r"\s*\.loc\s+\d+\s+(\d+)\s+\d+(?:.*inlined_at\s+\d+\s+(\d+))?", line):
            source, where = int(match.group(2) or match.group(1)), re.sub(r"\$L__info\w+(\+\d+)?", "", line.strip())
        if skip:
            continue
        mutants = [("drop", new), ("ignore", ignored_wait(line))] if (new := no_phase_wait(line)) else []
        if loops.spins(line):
            mutants.append(("ignore", ""))  # a branch is no site
        opcode = opcode_of(line)
        for what, rule in RULES if opcode else ():
            if (new := rule(opcode)) != "":
                mutants.append((what, None if new is None else line.replace(opcode, new, 1)))
        for what, new in mutants:
            place = "%s %s %s" % (what, where, opcode)
            times[place] += 1
            place = "%s %s %d" % (template, place, times[place])
            if every_instance or place not in seen:
                found.append(Mutation(what, number, source, line, new, place, kernel))
            seen.add(place)
    return found


def apply(text, mutation):
    lines = text.split("\n")
    assert lines[mutation.line] == mutation.old
    # What is dropped stays behind a jump: it keeps its number as a site, and with that the module's other kernels their
    # compiled code.
    lines[mutation.line] = mutation.new
    if mutation.new is None:
        lines[mutation.line] = "bra.uni $mutated; %s $mutated:" % mutation.old
    return "\n".join(lines)


def trap(mutation):
    """The mutation that ends the run where this one would have changed it."""
    guard = re.match(r"\s*(@!?%?\w+\s)?", mutation.old).group(1) or ""
    if re.search(r"\bbra\b", mutation.old):  # whether or not it is taken: what the loop saw was looked at
        guard = ""
    begin = re.match(r"\s*\{?", mutation.old).group(0) if "{" in mutation.old else ""
    return mutation._replace(new="%s%s trap;%s" % (begin, guard, " }" if begin.strip() else ""))
