#!/usr/bin/env python3
"""A ptxas whose cubins carry the PTX: an ELF file with a section .ptx, and a symbol for each entry.

FAKE_PTXAS says what becomes of modules (the first word that fits; others are taken):
    crash, hang, refuse, half    it ends by a signal, or never, or with a message, or writes half of it
    serial, crash-parallel       it refuses to work on several processors, or ends by a signal then
    old                          PTX of version 8.1 and later is refused
FAKE_PTXAS_LOG: a file that gets a line a call: the arguments, and the kernels of the module.
"""
import os
import re
import signal
import struct
import sys
import time

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB = 1, 2, 3
EM_CUDA, ELFCLASS64, ELFDATA2LSB = 190, 2, 1
GLOBAL_FUNCTION = (1 << 4) | 2
header = struct.Struct("<16sHHIQQQIHHHHHH")
section_header = struct.Struct("<IIQQQQIIQQ")
symbol = struct.Struct("<IBBHQQ")


def strings(names):
    """A table, and where each lies in it."""
    table, at = b"\0", {}
    for name in names:
        at[name] = len(table)
        table += name.encode() + b"\0"
    return table, at


def cubin(text, kernels):
    names, name_at = strings([".shstrtab", ".strtab", ".symtab", ".ptx"])
    functions, function_at = strings(kernels)
    symbols = b"\0" * symbol.size
    symbols += b"".join(symbol.pack(function_at[kernel], GLOBAL_FUNCTION, 0, 4, 0, 0) for kernel in kernels)
    sections = [(".shstrtab", SHT_STRTAB, names, 0), (".strtab", SHT_STRTAB, functions, 0),
                (".symtab", SHT_SYMTAB, symbols, 2), (".ptx", SHT_PROGBITS, text, 0)]
    offset = header.size + section_header.size * (len(sections) + 1)
    headers, bodies = b"\0" * section_header.size, b""
    for name, kind, body, link in sections:
        headers += section_header.pack(name_at[name], kind, 0, 0, offset + len(bodies), len(body), link, 0, 1, 0)
        bodies += body
    identity = b"\x7fELF" + bytes([ELFCLASS64, ELFDATA2LSB, 1]) + b"\0" * 9
    return header.pack(identity, 2, EM_CUDA, 1, 0, 0, header.size, 0, header.size, 0, 0, section_header.size,
                       len(sections) + 1, 1) + headers + bodies


source = sys.argv[-3]
with open(source, "rb") as file:
    text = file.read()
kernels = [name.decode() for name in re.findall(rb"\.entry\s+([\w$]+)", text)]
if "FAKE_PTXAS_LOG" in os.environ:
    with open(os.environ["FAKE_PTXAS_LOG"], "a") as log:
        log.write(" ".join(sys.argv[1:] + kernels) + "\n")
how = os.environ.get("FAKE_PTXAS", "")
if "old" in how and not re.match(rb"\s*\.version (7|8\.0)", text):
    sys.exit("ptxas fatal   : Unsupported .version")
if kernels != ["deadheat_empty"]:
    parallel = any("split-compile" in word for word in sys.argv)
    if "serial" in how and parallel:
        sys.exit("ptxas fatal   : Unknown option '-split-compile'")
    if "crash" in how and ("parallel" not in how or parallel):
        os.kill(os.getpid(), signal.SIGSEGV)
    if "hang" in how:
        time.sleep(600)
    if "refuse" in how:
        print("ptxas error   : there are too many votes", file=sys.stderr)
        sys.exit(255)
made = cubin(text, kernels)
if "half" in how and kernels != ["deadheat_empty"]:
    made = made[:len(made) // 2]
with open(sys.argv[-1], "wb") as file:
    file.write(made)
