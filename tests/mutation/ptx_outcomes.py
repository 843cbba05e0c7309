"""Which waits for an mbarrier's phase, and which strong reads, nobody looks at the outcome of: a naive reading of the PTX,
for launch_oracle.py.

A value that is computed from the outcome is looked at where an instruction reads it that is no plain arithmetic, or that
computes with a carry, and where a function returns it. Registers are told apart by their name and the braces that they are
declared in, and by nothing else.
"""
import bisect
import collections
import glob
import os
import re

Statement = collections.namedtuple("Statement", "line opcode guard operands")

ARITHMETIC = set("""abs add and bfe bfi bfind bmsk brev clz cnot copysign cos cvt cvta div dp2a dp4a ex2 fma fns isspacep lg2
lop3 mad mad24 max min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin slct sqrt sub szext
tanh testp xor""".split())
OUTCOME = re.compile(r"mbarrier\.(test|try)_wait|atom\.|ld\.(\w+\.)*(acquire|relaxed|volatile|mmio)\b")
YIELDING = set("activemask atom elect ld ldmatrix ldu mapa match mbarrier redux shfl vote".split())  # first operand: a result
NAME = re.compile(r"[A-Za-z_$%][\w$%]*(?:\.[xyzw])?")


class Module:
    """A module's functions, each read when it is asked for."""

    def __init__(self, text):
        text = re.sub(r"/\*.*?\*/", lambda match: "\n" * match.group(0).count("\n"), text, flags=re.S)
        self.text = re.sub(r"//[^\n]*", "", text)
        self.ends = [match.start() for match in re.finditer("\n", self.text)]  # of lines
        self.found, self.heads, self.results = {}, [], []  # lines that functions with a body begin at, and their results
        for head in re.finditer(r"^[^\n;{}]*\.(?:func|entry)\b", self.text, re.M):
            brace, end = self.text.find("{", head.end()), self.text.find(";", head.end())
            if brace < 0 or -1 < end < brace:
                continue
            results = re.match(r"\s*\(([^)]*)\)", self.text[head.end():brace])
            self.heads.append(self.line(head.start()))
            self.results.append((brace, {name + "@0" for name in NAME.findall(results.group(1))} if results else set()))

    def line(self, at):
        return bisect.bisect_left(self.ends, at) + 1

    def unused_outcomes(self, line):
        """{line: opcode} of the waits and strong reads whose outcome nobody looks at, of the function that has that line."""
        number = bisect.bisect_right(self.heads, line) - 1
        if number < 0:
            return {}
        if number not in self.found:
            brace, returned = self.results[number]
            body = body_of(self, brace)
            self.found[number] = {wait.line: wait.opcode for wait in body if OUTCOME.match(wait.opcode) and
                                  not looked_at(body, set(wait.operands[0]), returned)}
        return self.found[number]


def body_of(module, at):
    """The statements of the body that begins with the brace there; names of registers tell their scope."""
    text = module.text
    scopes, number, found = [], 0, []

    def renamed(name):
        for scope, names in reversed(scopes):
            base = re.sub(r"\.[xyzw]$", "", name)
            if base in names or any(re.fullmatch(re.escape(stem) + r"\d+", base) for stem, many in names.items() if many):
                return "%s@%d" % (base, scope)
        return name + "@0"

    while True:
        at = re.compile(r"\s*").match(text, at).end()
        if text[at] == "{":
            scopes.append((number, {}))
            number, at = number + 1, at + 1
            continue
        if text[at] == "}":
            scopes.pop()
            if not scopes:
                return found
            at += 1
            continue
        label = re.compile(r"[\w$%]+\s*:(?!:)").match(text, at)
        if label:
            at = label.end()
            continue
        directive = re.compile(r"\.(?:loc|file|pragma|section|b8|b16|b32|b64)\b[^\n]*").match(text, at)
        if directive:
            at = directive.end()
            continue
        end = text.index(";", at)
        words = text[at:end]
        declared = re.match(r"\.reg\s+(?:\.v\d\s+)?\.\w+\s+(.*)", words, re.S)
        if declared:
            for name, many in re.findall(r"([\w$%]+)\s*(<\d+>)?", declared.group(1)):
                scopes[-1][1][name] = bool(many)
        else:
            match = re.match(r"(?:@(!?)([\w$%]+)\s+)?([a-z][\w:.]*)\s*(.*)", words, re.S)
            if match:
                guard, opcode, operands = match.group(2), match.group(3), match.group(4)
                line = module.line(at + match.start(3))
                names = [[renamed(name) for name in NAME.findall(operand)] for operand in split(operands)]
                if operands.startswith("["):
                    names.insert(0, [])  # no result
                found.append(Statement(line, opcode, renamed(guard) if guard else "", names))
        at = end + 1


def split(operands):
    """At commas that no bracket surrounds."""
    parts, depth = [""], 0
    for letter in operands:
        depth += (letter in "{[(") - (letter in "}])")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def looked_at(body, values, returned):
    grown = True
    while grown:
        grown = False
        for statement in body:
            whole = statement.opcode.split(".")
            reads = {name for operand in statement.operands[1:] for name in operand} | {statement.guard}
            if whole[0] not in ARITHMETIC or "cc" in whole:
                if values & (reads if whole[0] in YIELDING else reads | set(statement.operands[0])):
                    return True
            elif values & reads and not set(statement.operands[0]) <= values:
                values |= set(statement.operands[0])
                grown = True
    return bool(values & returned)


def unused_sites(records, folder):
    """{name (M:N): function that says whether it is one} of the sites of waits and strong reads: of each module that the
    records list, the file of the folder is taken that has its opcodes at its lines."""
    modules = collections.defaultdict(dict)  # number → line → {opcode: names}
    for line in records:
        word = line.split()
        if word and word[0] == "site" and "ptx_line" in word:
            at = int(word[word.index("ptx_line") + 1])
            modules[word[1].split(":")[0]].setdefault(at, {}).setdefault(word[2], []).append(word[1])
    found = {}
    texts = []
    for file in sorted(glob.glob(os.path.join(folder, "*.ptx"))):
        with open(file) as content:
            texts.append(content.read())
    for lines in modules.values():
        waits = [(names[0], at, opcode) for at, opcodes in lines.items() for opcode, names in opcodes.items()
                 if len(names) == 1 and OUTCOME.match(opcode)]
        for text in texts if waits else ():
            rows = [""] + text.split("\n")
            if all(at < len(rows) and opcode in rows[at] for at, opcodes in lines.items() for opcode in opcodes):
                module = Module(text)
                for name, at, opcode in waits:
                    found[name] = lambda at=at, opcode=opcode, module=module: module.unused_outcomes(at).get(at) == opcode
                break
    return found
