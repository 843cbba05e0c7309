"""How the scripts of this folder record a process, and look at what came of it."""
import os
import shutil
import signal
import subprocess
import tempfile

# For what PyTorch compiles with nvcc: PTX, which is what is instrumented, and lines. Of both architectures for which its
# machine code may be.
TRAIN_FLAGS = {"NVCC_APPEND_FLAGS": "-gencode arch=compute_90,code=compute_90 -gencode arch=compute_90a,code=compute_90a "
                                    "-lineinfo"}
# Each tensor is an allocation: the footprints of opaque kernels are those of tensors, not of what the allocator keeps.
TENSORS = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
# The library's layers (tracer/cupti/layers.h), each on top of the one before.
LAYERS = ["not subscribed", "subscriber only", "and NVTX ranges", "driver callbacks, empty", "and the runtime's, empty",
          "handlers, nothing kept", "journal, nothing written", "everything"]


def environment(tracer, trace, settings="", base=os.environ):
    """Under which a process is recorded into `trace`; what is there is removed. Settings, such as `:buffer=256`, are
    DEADHEAT_OPTIONS'."""
    shutil.rmtree(trace, ignore_errors=True)
    return dict(base, LD_PRELOAD=os.path.abspath(tracer), DEADHEAT_OPTIONS="output=%s:device=gpu%s" % (trace, settings))


def said(stderr):
    """The library's lines in a job's standard error."""
    return [line for line in stderr.splitlines() if line.startswith("deadheat")]


def run(command, environment, seconds):
    """The command, ended; with status 124, and the stacks of its threads in the standard error where eu-stack can be had
    (EU_STACK: the command), when it did not end in so many seconds."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment, start_new_session=True)
        late = ""
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            late = "no end in %d s" % seconds
            stacks = os.environ.get("EU_STACK") or shutil.which("eu-stack")
            if stacks:
                late += "\n" + subprocess.run([*stacks.split(), "-p", str(process.pid)], text=True, capture_output=True).stdout
            os.killpg(process.pid, signal.SIGKILL)  # and whom it started
            process.wait()
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(command, 124 if late else process.returncode, out.read(), err.read() + late)


def lost(deadheat, trace):
    """What the trace says that it lacks."""
    info = subprocess.run([deadheat, "info", trace], text=True, capture_output=True, timeout=100)
    return [line.strip() for line in info.stdout.splitlines() if line.split()[:2] == ["incident", "lost"]] \
        if info.returncode == 0 else ["no trace: " + info.stderr.strip()[-200:]]


def launches(deadheat, trace):
    """How many launches the trace has; 0: there is none that can be read."""
    info = subprocess.run([deadheat, "info", trace], text=True, capture_output=True, timeout=100)
    counts = [int(line.split()[1]) for line in info.stdout.splitlines() if line.split()[:1] == ["launches"]]
    return sum(counts) if info.returncode == 0 else 0


def size(trace):
    """Bytes of all of its files."""
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(trace) for name in names)
