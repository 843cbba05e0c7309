"""Options, subcommands, and what is not a trace."""
import os

from cli_case import SUBCOMMANDS, Case, program


class Usage(Case):
    def test_unknown_subcommand(self):
        self.refused("guess", says=["unknown subcommand 'guess'", *SUBCOMMANDS])

    def test_no_subcommand(self):
        self.refused(says=["no subcommand", *SUBCOMMANDS, "--help"])

    def test_help(self):
        for words in [["--help"], ["-h"], ["help"]]:
            status, out, err = self.deadheat(*words)
            self.assertEqual((status, err), (0, ""))
            for name in SUBCOMMANDS:
                self.assertIn(name, out.decode())

    def test_help_of_subcommands(self):
        options = {"record": ["--output", "--device", "--kernel", "--launch-skip", "--launch-count", "--seed"],
                   "analyze": ["--json", "--sarif", "--suppress", "--print-suppressions", "--print-limit",
                               "--error-exitcode", "--log-file", "--strict"],
                   "replay": ["--race", "--schedules", "--seed", "--device", "--json", "--output", "--witness"],
                   "check": ["--output", "--device", "--kernel", "--seed", "--schedules", "--json", "--suppress"],
                   "info": ["--records"]}
        for name in SUBCOMMANDS:
            for flag in ["--help", "-h"]:
                status, out, err = self.deadheat(name, flag)
                self.assertEqual((status, err), (0, ""))
                self.assertTrue(out.decode().startswith("usage: deadheat " + name), out)
                for option in options[name]:
                    self.assertIn(option, out.decode())

    def test_version(self):
        status, out, err = self.deadheat("--version")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out.decode(), r"\Adeadheat \d+\.\d+\.\d+\n\Z")

    def test_unknown_option(self):
        for name in SUBCOMMANDS:
            self.refused(name, "--nonsense", says=["--nonsense", "--help"])

    def test_option_without_value(self):
        for name, option in [("record", "--seed"), ("analyze", "--json"), ("replay", "--witness"),
                             ("check", "--suppress"), ("record", "-o")]:
            self.refused(name, option, says=["output" if option == "-o" else option, "missing"])

    def test_option_of_wrong_type(self):
        self.refused("record", "--seed", "many", "--", program("ends"), says=["many", "seed"])
        self.refused("replay", "--race", "first", "trace", says=["first", "race"])

    def test_memory_limit(self):
        for limit in ["1K", "63M", "67108863", "1"]:
            for words in ["analyze", "trace"], ["replay", "trace"], ["check", "--", program("ends")]:
                self.refused(words[0], "--memory-limit", limit, *words[1:], says=["--memory-limit " + limit, "64M"])
        self.refused("analyze", "--memory-limit", "much", "trace", says=["--memory-limit much", "512M"])
        for limit in ["64M", "67108864"]:
            self.refused("analyze", "--memory-limit", limit, "trace", says="no such trace")

    def test_second_trace(self):
        self.refused("analyze", "one", "two", says="one trace")

    def test_no_command(self):
        self.refused("record", says="no command")
        self.refused("record", "--", says="no command")
        self.refused("check", "--", says="no command")

    def test_command_without_dashes(self):
        self.refused("record", program("ends"), says="--")
        self.refused("check", program("ends"), says="--")
        self.assertEqual(os.listdir(self.directory), [])

    def test_unknown_device(self):
        self.refused("record", "--device", "abacus", "--", program("ends"), says=["abacus", "embedded"])
        self.refused("replay", "--device", "abacus", "trace", says="embedded")

    def test_bad_kernel_pattern(self):
        self.refused("record", "--kernel", "(", "--", program("ends"), says=["'('", "regular expression"])
        self.refused("check", "--kernel", "[", "--", program("ends"), says=["'['", "regular expression"])


class NoTrace(Case):
    def refused_by_all(self, path, says):
        for name in ["analyze", "replay", "info"]:
            self.refused(name, path, says=[path, says])

    def test_missing_trace(self):
        self.refused_by_all("nowhere", "no such trace")

    def test_empty_directory(self):
        os.mkdir(self.path("empty"))
        self.refused_by_all("empty", "no log")

    def test_foreign_directory(self):
        os.mkdir(self.path("foreign"))
        self.write("foreign/notes.txt", "nothing of ours")
        self.refused_by_all("foreign", "no log")

    def test_file_for_trace(self):
        self.write("file", "nothing of ours")
        self.refused_by_all("file", "directory")

    def test_no_trace_named(self):
        for name in ["analyze", "replay", "info"]:
            self.refused(name, says="deadheat %s TRACE" % name)

    def test_foreign_log(self):
        os.mkdir(self.path("trace"))
        self.write("trace/1.log", "nothing of ours, though it has the name of a log: " + "x" * 200)
        self.refused_by_all("trace", "1.log")
