"""Mistakes in serving/ that the tests must notice: see mutants.py."""

from benchmarks.mutations.mutation import Mutation

MUTATIONS = [
    Mutation(
        "live",
        "serving/serve.py",
        "for number in sorted({*replies, *_overdue(server, now)}):",
        "for number in [*replies, *_overdue(server, now)]:",
        "reports count as they were unpacked",
    ),
    Mutation(
        "live",
        "serving/serve.py",
        "sorted(online - {job.client for job in server.jobs.values()})",
        "sorted(online)",
        "whoever works is asked again",
    ),
    Mutation(
        "live",
        "serving/serve.py",
        "self.failures, self.known[job.client] = 0, reply",
        "self.known[job.client] = reply",
        "failures add up over days",
    ),
    Mutation(
        "live",
        "serving/serve.py",
        "            if isinstance(policy, Buffer) and server.version == steps:\n",
        "            if False:\n",
        "a buffer steps beyond the last step",
    ),
    Mutation(
        "live",
        "serving/server_folder.py",
        "training = min(line.training, line.seconds)",
        "training = line.training",
        "a client's clock makes communication negative",
    ),
    Mutation(
        "live",
        "serving/server_folder.py",
        'COUNTERS = "state", ("version", "groups", "dispatches")',
        'COUNTERS = "state", ("version", "groups")',
        "a server that goes on repeats its draws",
    ),
    # What travels.
    Mutation(
        "messages",
        "serving/flower/client.py",
        "start - np.asarray(ends[name], start.dtype)",
        "np.asarray(ends[name], start.dtype) - start",
        "a device's delta climbs",
    ),
    Mutation(
        "messages",
        "serving/flower/client.py",
        "return {name: array.copy() for name, array in arrays.items()}",
        "return arrays",
        "whoever trains in place reports nothing",
    ),
    Mutation(
        "messages",
        "serving/flower/messages.py",
        "for name in sorted({*delta, *like}):",
        "for name in sorted(delta):",
        "a report may lack arrays",
    ),
    Mutation(
        "messages",
        "serving/flower/server.py",
        "max(DEFAULT_TTL, late)",
        "min(DEFAULT_TTL, late)",
        "messages end before their reports are late",
    ),
    Mutation(
        "messages",
        "serving/flower/server.py",
        "if order.download.teacher is order.download.model",
        "if True",
        "teachers stay at home",
    ),
    Mutation(
        "directions",
        "serving/deployment.py",
        "positions = (epochs * reports.examples)",
        "positions = (1 * reports.examples)",
        "real clients train one epoch",
    ),
    Mutation(
        "told",
        "serving/server_folder.py",
        "            memory=memory,\n",
        "            memory={},\n",
        "a server that goes on has forgotten its clients' reports",
    ),
]
