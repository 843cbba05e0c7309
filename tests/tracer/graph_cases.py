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


def kernels_in_order(case):
    """Kernels of launches, in the order of the trace."""
    return [line.split(" kernel ")[1].split()[0] for line in case.records().splitlines() if " kernel " in line]


@over_embedded
def bodies_of_conditions(case):
    """Of a loop's body each turn is in the trace, with what its kernels did; another stream's race with it is certain."""
    for captured in (0, 1):
        for what in ("while", "while_behind", "while_races", "while_edge"):
            if what == "while_edge" and captured:
                continue
            report = graph(case, what, captured)
            summary = report["summary"]
            launches = 6 + (what == "while_behind")
            assert (summary["launches"], summary["opaque"], summary["instrumented"]) == (launches, 0, launches), summary
            assert summary["complete"], (what, case.dump())
            # A turn: what fill's 32 threads and count's write, and what one thread reads and writes besides.
            assert summary["accesses"] == 3 * 66 + 32 * (what == "while_behind"), (what, summary)
            races = report["races"]
            assert {race["certainty"] for race in races} == ({"certain"} if what in ("while_races", "while_edge") else
                                                             set()), (what, races)
            if what == "while_races":
                assert {race["occurrences"] for race in races} == {32}, races  # with the last turn's
            if what != "while_edge":
                expected = ["fill", "count"] * 3 + ["fill"] * (what == "while_behind")
                assert kernels_in_order(case) == expected, case.records()


@over_embedded
def launches_of_conditions(case):
    """A launch of a graph does not begin before its last one is over, however long that takes: each turn is its own
    launch's."""
    for late in ({}, {"EMBEDDED_LATE_GRAPHS": "1"}):
        shutil.rmtree(case.trace, ignore_errors=True)
        done = case.device("while_twice", "0", job="graph_job", variables=late)
        assert (done.returncode, done.stderr) == (0, ""), done
        report = case.analysis()
        summary = report["summary"]
        assert (summary["launches"], summary["opaque"], summary["complete"]) == (12, 0, True), (summary, case.dump())
        assert not report["races"], report["races"]
        in_graph = [line.split(" graph_launch ")[1].split()[0] for line in case.records().splitlines()
                    if " kernel " in line]
        assert in_graph == ["1"] * 6 + ["2"] * 6, case.records()


@over_embedded
def conditions_without_an_end(case):
    """Where nothing tells that a graph is over, what its bodies did is not known, and that is said."""
    done = case.device("while_twice_races", "0", job="graph_job", variables={"EMBEDDED_REFUSES": "events"})
    assert (done.returncode, done.stderr) == (0, ""), done
    report = case.analysis()
    assert (report["summary"]["launches"], report["summary"]["opaque"]) == (2, 2), report["summary"]
    assert not report["summary"]["complete"] and "conditions did is not known" in case.dump(), case.dump()
    assert {race["certainty"] for race in report["races"]} == {"possible"}, report["races"]


@over_embedded
def conditions_that_go_on(case):
    """A job that ends while its graph runs: what the bodies did until then is in the trace, the last turn as far as it came."""
    done = case.device("while_leaves", "0", job="graph_job", variables={"EMBEDDED_LATE_GRAPHS": "1"})
    assert (done.returncode, done.stderr) == (0, ""), done
    summary = case.analysis()["summary"]
    assert summary["instrumented"] > 4 and summary["opaque"] == 0 and not summary["complete"], (summary, case.dump())
    assert summary["accesses"] >= summary["instrumented"] // 2 * 66, summary
    assert not case.analysis()["races"] and "a graph did not end" in case.dump(), case.dump()


@over_embedded
def many_turns(case):
    report = graph(case, "while_many", 0)
    assert (report["summary"]["launches"], report["summary"]["accesses"]) == (2000, 66000), report["summary"]
    assert report["summary"]["complete"] and not report["races"], report


@over_embedded
def nested_conditions(case):
    """Which turns of a loop a condition in it was true in, shows. EARLY: a node lacks the edge from it."""
    report = graph(case, "nested", 0)
    assert report["summary"]["complete"] and not report["races"], (report, case.dump())
    # What is left, 3, 2, 1 and 0, chooses one of two bodies; then comes what gathers.
    turn = ["count", "choose"]
    assert kernels_in_order(case) == (turn + ["fill"]) * 2 + (turn + ["fill"] * 2) * 2, kernels_in_order(case)
    report = graph(case, "nested", 1)
    races = report["races"]
    assert [race["certainty"] for race in races] == ["certain"] and races[0]["occurrences"] == 32, races


@over_embedded
def bodies_that_do_not_run(case):
    """What the body of a condition would have touched, had it run, races with nobody."""
    for other in (0, 1):
        report = graph(case, "either", other)
        assert (report["summary"]["launches"], report["summary"]["opaque"]) == (1, 0), report["summary"]
        assert [race["certainty"] for race in report["races"]] == ["certain"] * other, report["races"]


@over_embedded
def opaque_bodies_of_conditions(case):
    """Of which no kernel is recorded: nothing tells how often they ran, and the condition may touch what they may."""
    for races in (0, 1):
        shutil.rmtree(case.trace, ignore_errors=True)
        done = case.device("while_races" if races else "while", "0", job="graph_job", settings=":kernel=^none$")
        assert (done.returncode, done.stderr) == (0, ""), done
        report = case.analysis()
        summary = report["summary"]
        assert (summary["launches"], summary["opaque"], summary["instrumented"]) == (1, 1, 0), summary
        assert [race["certainty"] for race in report["races"]] == ["possible"] * races, report["races"]
        assert not races or "a condition's fill" in str(report["races"]), report["races"]
        assert case.dump().count("how often it ran cannot be told") == 1, case.dump()


@over_embedded
def changed_bodies_of_conditions(case):
    """A body's kernel that is changed in the executable is recorded as what it is changed to."""
    report = graph(case, "while_set_races", 0)
    assert report["summary"]["complete"] and report["summary"]["instrumented"] == 6, (report, case.dump())
    assert not report["races"], report["races"]


cases = [functions_of_graphs, changed_functions_of_graphs, events_of_graphs, memory_of_graphs, refused_kernels_of_graphs, kernels_of_graphs,
         refills_of_graphs,
         graph_that_is_not_launched, graphs_that_are_destroyed, bodies_of_conditions, launches_of_conditions, conditions_without_an_end, conditions_that_go_on,
         many_turns, nested_conditions, bodies_that_do_not_run, opaque_bodies_of_conditions, changed_bodies_of_conditions]
