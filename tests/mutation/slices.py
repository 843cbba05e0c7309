"""Work of several threads that spreads over programs: each is prepared, then its jobs are taken in turn with the others'."""
import hashlib
import heapq
import itertools
import os
import threading
import traceback


def run(threads, programs, prepare, attempt, done, cost=None):
    """prepare(program) returns its jobs; done(job, attempt(job)) is called by one thread at a time. Large programs are
    prepared first, since theirs take longest; of a program's jobs, an arbitrary one (the same ones every time) comes
    before all get their turn. With cost(job), the cheapest come first."""
    waiting, condition, number = [], threading.Condition(), itertools.count()
    unfinished = [len(programs)]  # preparations, and jobs

    def put(rank, task, *arguments):
        heapq.heappush(waiting, (rank, next(number), task, arguments))

    def prepare_one(program):
        jobs = sorted(prepare(program), key=lambda job: hashlib.sha256(job.key.encode()).digest())
        with condition:
            unfinished[0] += len(jobs)
            for turn, job in enumerate(jobs):
                put(cost(job) if cost else turn + 1, attempt_one, job)
            condition.notify_all()

    def attempt_one(job):
        result = attempt(job)
        with condition:
            done(job, result)

    def work():
        while True:
            with condition:
                while not waiting and unfinished[0]:
                    condition.wait()
                if not unfinished[0]:
                    return
                _, _, task, arguments = heapq.heappop(waiting)
            try:
                task(*arguments)
            except Exception:  # of one job: the others go on
                traceback.print_exc()
            with condition:
                unfinished[0] -= 1
                condition.notify_all()

    for program in sorted(programs, key=lambda program: -os.path.getsize(program.binary)):
        put(0, prepare_one, program)
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
