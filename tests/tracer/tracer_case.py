"""A job under the preload library: how the cases of tracer_test.py start it, and what they ask of its trace."""
import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

arguments = argparse.ArgumentParser()
arguments.add_argument("--list", action="store_true")
runs = "--list" not in sys.argv
arguments.add_argument("--deadheat", required=runs, default="")
arguments.add_argument("--tracer", required=runs, default="")
arguments.add_argument("--folder", required=runs, default="")
arguments.add_argument("--embedded")
arguments.add_argument("--nvrtc")
arguments.add_argument("--nvjitlink")
arguments.add_argument("--nvrtc-user")
arguments.add_argument("--nvcc")
arguments.add_argument("cases", nargs="*")
options = arguments.parse_args()
job = os.path.join(os.path.abspath(options.folder), "job")


class Case:
    def __init__(self):
        self.work = tempfile.mkdtemp()
        self.trace = os.path.join(self.work, "trace")

    def run(self, *words, settings="", output=None, environment=None, limit=None,
            tracer=os.path.abspath(options.tracer)):
        """The job's status, output and what was said, under the library."""
        cupti = os.path.join(os.path.abspath(options.folder), "libcupti.so.13")
        text = "output=%s:device=gpu:cupti=%s%s" % (output or self.trace, cupti, settings)
        variables = dict(os.environ, LD_LIBRARY_PATH=os.path.abspath(options.folder), DEADHEAT_OPTIONS=text,
                         LD_PRELOAD=tracer, **(environment or {}))
        # AddressSanitizer must come first; the tracer is not built with it for this test.
        before = None
        if limit:
            def before():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        done = subprocess.run([job, *map(str, words)], env=variables, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, preexec_fn=before)
        said = done.stderr.splitlines()
        assert done.stdout.splitlines()[-1:] == ["done"], (done.returncode, done.stdout)
        self.printed = done.stdout
        return done.returncode, said

    def torch(self, what, how="new"):
        """What torch_job said, the reports that PyTorch's profiler got, and the races."""
        cupti = os.path.join(os.path.abspath(options.folder), "libcupti.so.13")
        variables = dict(os.environ, LD_LIBRARY_PATH=os.path.abspath(options.folder),
                         LD_PRELOAD=os.path.abspath(options.tracer),
                         DEADHEAT_OPTIONS="output=%s:device=gpu:cupti=%s" % (self.trace, cupti))
        shutil.rmtree(self.trace, ignore_errors=True)
        done = subprocess.run([os.path.join(os.path.abspath(options.folder), "torch_job"), what, how], env=variables,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        assert done.stdout.endswith("done\n"), (done.returncode, done.stdout, done.stderr)
        analysis = subprocess.run([options.deadheat, "analyze", self.trace, "--json", "-"], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        races = json.loads(analysis.stdout)["races"]
        assert all(race["certainty"] == "possible" and race["level"] == "stream" for race in races), races
        return done.stderr.splitlines(), int(done.stdout.split()[0]), len(races)

    def calls(self, what, early, status=0):
        """The report on calls_job."""
        folder = os.path.abspath(options.folder)
        variables = dict(os.environ, LD_LIBRARY_PATH=folder, LD_PRELOAD=os.path.abspath(options.tracer),
                         DEADHEAT_OPTIONS="output=%s:device=gpu:cupti=%s" % (self.trace, folder + "/libcupti.so.13"))
        shutil.rmtree(self.trace, ignore_errors=True)
        done = subprocess.run([os.path.join(folder, "calls_job"), what, str(early)], env=variables, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (status, "done\n", ""), done
        return self.analysis()

    def refill(self, what, fault, settings="", job="refill_job"):
        """The report on refill_job, or another one."""
        folder = os.path.abspath(options.folder)
        text = "output=%s:device=gpu:cupti=%s%s" % (self.trace, folder + "/libcupti.so.13", settings)
        variables = dict(os.environ, LD_LIBRARY_PATH=folder, LD_PRELOAD=os.path.abspath(options.tracer),
                         DEADHEAT_OPTIONS=text)
        shutil.rmtree(self.trace, ignore_errors=True)
        done = subprocess.run([os.path.join(folder, job), what, str(fault)], env=variables, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", ""), (what, fault, done)
        return self.analysis()

    def window(self, fault, settings, ranged=1, environment=None):
        """What window_job said, and its sum, recorded over the embedded device."""
        cupti = os.path.join(os.path.abspath(options.folder), "libcupti.so.13")
        folders = os.path.abspath(options.embedded) + ":" + os.path.abspath(options.folder)
        variables = dict(os.environ, LD_LIBRARY_PATH=folders, LD_PRELOAD=os.path.abspath(options.tracer),
                         DEADHEAT_OPTIONS="output=%s:device=gpu:buffer=64:kernel=^(fill|scale)$:cupti=%s%s" % (
                             self.trace, cupti, settings), **(environment or {}))
        done = subprocess.run([os.path.join(os.path.abspath(options.embedded), "window_job"), str(ranged), str(fault)],
                              env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        if ranged == 3:
            assert done.returncode == -signal.SIGKILL, done.returncode
            return done.stderr.splitlines(), 0
        assert done.returncode == 0 and done.stdout.endswith("done\n"), (done.returncode, done.stdout, done.stderr)
        return done.stderr.splitlines(), int(done.stdout.split()[0])

    def host(self, what, fault, ranged=0, replays=True, pause=150):
        """What host_job said, recorded with a window, and the report of its replay. `pause`: milliseconds that it gives
        a host function."""
        cupti = os.path.join(os.path.abspath(options.folder), "libcupti.so.13")
        folders = os.path.abspath(options.embedded) + ":" + os.path.abspath(options.folder)
        settings = ":window=1" + (":capture-range=cudaProfilerApi" if ranged else "")
        variables = dict(os.environ, LD_LIBRARY_PATH=folders, LD_PRELOAD=os.path.abspath(options.tracer),
                         DEADHEAT_OPTIONS="output=%s:device=gpu:buffer=64:cupti=%s%s" % (self.trace, cupti, settings))
        shutil.rmtree(self.trace, ignore_errors=True)
        job = [os.path.join(os.path.abspath(options.embedded), "host_job"), what, str(fault), str(ranged), str(pause)]
        done = subprocess.run(job, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 0 and done.stdout.endswith("done\n"), (done.returncode, done.stdout, done.stderr)
        return done.stderr.splitlines(), self.replay() if replays else None

    def device(self, *words, settings="", timeout=60, variables=(), job="device_job", before=""):
        """What device_job said, and its status; a job that hangs is ended. `before`: a folder of libraries."""
        cupti = os.path.join(os.path.abspath(options.folder), "libcupti.so.13")
        folders = before + ":" * bool(before) + os.path.abspath(options.embedded) + ":" + os.path.abspath(options.folder)
        variables = dict(os.environ, LD_LIBRARY_PATH=folders, LD_PRELOAD=os.path.abspath(options.tracer),
                         DEADHEAT_OPTIONS="output=%s:device=gpu:buffer=64:cupti=%s%s" % (self.trace, cupti, settings),
                         **dict(variables))
        done = subprocess.run([os.path.join(os.path.abspath(options.embedded), job), *words], env=variables, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
        assert done.stdout.endswith("done\n"), (done.returncode, done.stdout, done.stderr)
        return done

    def python(self, how):
        """Where the launches of python_job.py were made, as the trace says, and the lines that it says."""
        cupti = os.path.join(os.path.abspath(options.folder), "libcupti.so.13")
        folders = os.path.abspath(options.embedded) + ":" + os.path.abspath(options.folder)
        variables = dict(os.environ, LD_LIBRARY_PATH=folders, LD_PRELOAD=os.path.abspath(options.tracer),
                         DEADHEAT_OPTIONS="output=%s:device=gpu:buffer=64:cupti=%s" % (self.trace, cupti))
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_job.py")
        done = subprocess.run([sys.executable, script, how], env=variables, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 0 and done.stdout.endswith("done\n"), (done.returncode, done.stdout, done.stderr)
        assert done.stderr == "", done.stderr
        records = subprocess.run([options.deadheat, "info", "--records", self.trace], text=True, stdout=subprocess.PIPE).stdout
        launches = [record for record in records.splitlines() if " kernel fill " in record]
        return ([re.search(r"called_at (.*)$", launch) for launch in launches],
                ["%s:%s" % (script, line) for line in done.stdout.split()[:2]])

    def fresh(self):
        """Nothing was recorded yet."""
        shutil.rmtree(self.trace, ignore_errors=True)

    def analysis(self, *words):
        """The report of `deadheat analyze`."""
        done = subprocess.run([options.deadheat, "analyze", self.trace, "--json", "-", *words], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def records(self):
        return subprocess.run([options.deadheat, "info", "--records", self.trace], text=True,
                              stdout=subprocess.PIPE).stdout

    def replay(self, *words):
        """Status and report of `deadheat replay`."""
        done = subprocess.run([options.deadheat, "replay", *(words or [self.trace]), "--json", "-", "--witness-dir",
                               self.work + "/witnesses"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=100)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def dump(self, trace=None):
        """What the trace says, by the lines of `info`."""
        done = subprocess.run([options.deadheat, "info", trace or self.trace], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def launches(self, trace=None):
        match = re.search(r"(\d+)\s+launch|launches[:\s]+(\d+)", self.dump(trace))
        assert match, self.dump(trace)
        return int(match.group(1) or match.group(2))


def over_embedded(test):
    """Marks a case that needs --embedded."""
    test.over_embedded = True
    return test
