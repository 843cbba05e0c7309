"""Graphs (embedded_graphs.cpp): what tells whom of what, memory, kernels, and executables that are changed."""
import shutil

from tracer_case import over_embedded


def graph(case, what, early):
    """The report on graph_job."""
    shutil.rmtree(case.trace, ignore_errors=True)
    done = case.device(what, str(early), job="graph_job")
    assert (done.returncode, done.stderr) == (0, ""), (what, done)
    return case.analysis()


def orders(case, *ways):
    """What comes before, and then nothing is reported; what comes too early, and then something is."""
    for what in ways:
        for early in (0, 1):
            report = graph(case, what, early)
            assert bool(report["races"]) == bool(early), (what, early, report)
            assert report["summary"]["complete"], (what, early, report)


@over_embedded
def functions_of_graphs(case):
    """What a graph's host function comes behind is complete when it runs, and it may tell anybody."""
    orders(case, "added", "captured", "cloned", "child", "again")


@over_embedded
def changed_functions_of_graphs(case):
    orders(case, "updated", "set", "set_any", "child_set", "launched")


@over_embedded
def events_of_graphs(case):
    orders(case, "records", "waits")


@over_embedded
def memory_of_graphs(case):
    """It is allocated and freed by each launch."""
    orders(case, "memory")
    records = case.records()
    assert records.count(" pool ") >= 2 and sum(line.startswith("free ") for line in records.splitlines()) == 2, records


@over_embedded
def edges_of_graphs(case):
    """Behind a programmatic edge a kernel may begin before the one that it depends on has ended."""
    orders(case, "dependent")


@over_embedded
def refused_kernels_of_graphs(case):
    """Where the driver does not take clones, the graph has the program's own kernels, and the program sees no error."""
    for refused in ("nodes", "graphs"):
        shutil.rmtree(case.trace, ignore_errors=True)
        done = case.device("kernels", "0", job="graph_job", variables={"EMBEDDED_REFUSES": refused})
        assert done.returncode == 0 and len(done.stderr.splitlines()) == 1, done
        assert "graph's kernels are not recorded" in done.stderr and "not recorded" in case.dump(), done.stderr
        summary = case.analysis()["summary"]
        assert (summary["instrumented"], summary["opaque"]) == (0, 4), (refused, summary)


@over_embedded
def kernels_of_graphs(case):
    """However they come into a graph, they are recorded; the program is told of its own ones."""
    for early in (0, 1):
        report = graph(case, "kernels", early)
        assert report["summary"]["instrumented"] == 4 and report["summary"]["complete"], report["summary"]
        assert [race["certainty"] for race in report["races"]] == ["certain"] * early, report["races"]


@over_embedded
def refills_of_graphs(case):
    """Each launch reads what a copy node reads; the function of a node is the host, and comes ahead of the copy."""
    orders(case, "refilled")
    for early in (0, 1):
        report = graph(case, "filled", early)
        assert not report["races"] and report["summary"]["complete"], report


@over_embedded
def graph_that_is_not_launched(case):
    """Nobody waits for what its kernels write; the trace says that it has what was not."""
    report = graph(case, "fails", 0)
    assert not report["summary"]["complete"] and report["summary"]["instrumented"] == 2, report["summary"]
    assert "could not be launched" in case.dump(), case.dump()


@over_embedded
def graphs_that_are_destroyed(case):
    """What is known of their kernels goes with the last of a graph, its clones and their executables, and no sooner."""
    for launched in (0, 1):
        shutil.rmtree(case.trace, ignore_errors=True)
        done = case.device("often", str(launched), job="graph_job")
        assert (done.returncode, done.stderr) == (0, ""), done
        assert int(done.stdout.split()[0]) < 1 << 20, done.stdout
        summary = case.analysis()["summary"]
        assert summary["complete"] and summary["instrumented"] == launched * 3 * 2 * 64, summary
        assert summary["accesses"] == summary["instrumented"] * 32, summary


@over_embedded
def bodies_of_conditions(case):
    """Their kernels run as they are, since nobody reads what they would write: a condition may touch what they may."""
    for captured in (0, 1):
        for races in (0, 1):
            report = graph(case, "condition_races" if races else "condition", captured)
            summary = report["summary"]
            assert (summary["launches"], summary["opaque"], summary["instrumented"]) == (1, 1, 0), summary
            assert [race["certainty"] for race in report["races"]] == ["possible"] * races, report["races"]
            assert not races or "a condition's fill" in str(report["races"]), report["races"]
            assert case.dump().count("bodies of conditions") == 1, case.dump()


@over_embedded
def changed_bodies_of_conditions(case):
    """The program's own kernels stay in a body whatever they are changed to; what they do then is not known, and said."""
    report = graph(case, "condition_set", 0)
    assert report["summary"]["opaque"] == 1 and not report["summary"]["complete"], report["summary"]
    assert "in a condition's body was changed" in case.dump(), case.dump()


cases = [functions_of_graphs, changed_functions_of_graphs, events_of_graphs, memory_of_graphs, refused_kernels_of_graphs, kernels_of_graphs,
         refills_of_graphs,
         graph_that_is_not_launched, graphs_that_are_destroyed, bodies_of_conditions, changed_bodies_of_conditions]
