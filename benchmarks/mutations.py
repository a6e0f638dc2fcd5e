"""Small mistakes, at least three of each class, that the tests must notice: see mutants.py.

They were written down before the first run of any. None was changed or left out after it, unless a
comment at its place says so and why.
"""

from typing import NamedTuple


class Mutation(NamedTuple):
    kind: str
    file: str  # below src/stragglers
    old: str  # occurs exactly once
    new: str
    why: str  # what goes wrong


# The first three were one file, schedule.py, when its mutations were written.
SCHEDULE, ROUNDS, BUFFER, ROWS = "schedule.py", "rounds.py", "buffer.py", "rows.py"
ENGINE, CLIENT = "engine.py", "client.py"
BASE, FEAST, FARE_DUST = "algorithms/base.py", "algorithms/feast.py", "algorithms/fare_dust.py"
HANDOVER, STATISTICS = "handover.py", "report/statistics.py"
COORDINATOR, LIVE, LEDGER, IDLE = "coordinator.py", "live.py", "ledger.py", "idle.py"
MESSAGES, DEVICE, SERVE = "flower/messages.py", "flower/client.py", "flower/server.py"
AVAILABILITY, TIERS = "availability.py", "tiers.py"
FIT, TOTALS, LUCK, LOGS = "fit.py", "totals.py", "luck.py", "logs.py"

MUTATIONS = [
    # The sign of the delta.
    Mutation(
        "sign", CLIENT, "return trees.subtract(sent.model, trained)",
        "return trees.subtract(trained, sent.model)", "a client's delta climbs",
    ),
    Mutation(
        "sign", HANDOVER, "trees.subtract(_of(models, lanes.trial), params)",
        "trees.subtract(params, _of(models, lanes.trial))", "a lane's delta climbs",
    ),
    Mutation(
        "sign", FARE_DUST, "return trees.subtract(params, trees.scale(teacher_lr,",
        "return trees.add(params, trees.scale(teacher_lr,", "the teacher is on the other side of w",
    ),
    Mutation(
        "sign", FEAST, "trees.scale(kappa, trees.subtract(w_plus, opened.params))",
        "trees.scale(kappa, trees.subtract(opened.params, w_plus))", "a moves away from w_plus",
    ),
    # B, B_t, and whom a mean is over.
    Mutation(
        "normaliser", BASE, '{"weight": total.weight,', '{"weight": total.reports,',
        "weighted sums are divided by their count",
    ),
    Mutation(
        "normaliser", ROUNDS, 'return schedule.whole_steps(updates, goal, "round", "goal"), least',
        'return schedule.whole_steps(updates, cohort, "round", "goal"), least',
        "rounds are counted by B_t",
    ),
    Mutation(
        "normaliser", ROUNDS, "duration = np.partition(delay, goal - 1, axis=1)[:, goal - 1]",
        "duration = delay.max(axis=1)", "a round waits for all of B_t",
    ),
    Mutation(
        "normaliser", FEAST, "opened.optimizer, everybody)", "opened.optimizer, opened.on_time)",
        "w_plus is a step on the reports on time alone",
    ),
    # Staleness, one too much or too little.
    Mutation(
        "staleness", ROWS, "staleness=step - version,", "staleness=step - version + 1,",
        "everybody is one step staler",
    ),
    Mutation(
        "staleness", "weights.py", "np.power(1.0 + reports.staleness,",
        "np.power(2.0 + reports.staleness,",
        "fresh reports are discounted",
    ),
    Mutation(
        "staleness", "plan.py", "_spread((schedule.step - schedule.version)[used])",
        "_spread((schedule.step - schedule.version)[used] + 1)", "a plan shows one step more",
    ),
    Mutation(
        "staleness", BUFFER, "np.searchsorted(moment * radix + source, key)",
        'np.searchsorted(moment * radix + source, key, side="right")',
        "a client knows its own leader's report",
    ),
    # Ties.
    Mutation(
        "ties", BUFFER, 'fresh[order], side="right") + places',
        'fresh[order], side="left") + places', "at equal times the younger dispatch is in front",
    ),
    Mutation(
        "ties", ROUNDS, "(ties.cumsum(axis=1) <= room)",
        "(ties[:, ::-1].cumsum(axis=1)[:, ::-1] <= room)", "of reports together the last count",
    ),
    Mutation(
        "ties", ROUNDS, "np.searchsorted(closes, report[~on_time])",
        'np.searchsorted(closes, report[~on_time], side="right")',
        "a report at the moment of a step is known one step later",
    ),
    Mutation(
        "ties", ROUNDS, "before = report < closes[:, None]",
        "before = report <= closes[:, None]", "all reports of the closing moment count",
    ),
    # A clock in float32.
    Mutation(
        "clock", SCHEDULE, "seconds, examples = np.empty(len(who)),",
        "seconds, examples = np.empty(len(who), np.float32),", "latencies are rounded",
    ),
    Mutation(
        "clock", ROUNDS, "closes = np.cumsum(duration)",
        "closes = np.cumsum(duration, dtype=np.float32).astype(float)", "rounds close in float32",
    ),
    Mutation(
        "clock", BUFFER, "heapq.heapreplace(heap, (now + extra, number))",
        "heapq.heapreplace(heap, (float(np.float32(now + extra)), number))",
        "a buffer's clock is in float32",
    ),
    # Keys used again.
    Mutation(
        "keys", CLIENT, "jax.random.split(jax.random.fold_in(key, step))",
        "jax.random.split(jax.random.fold_in(key, 0))", "every local step has the same dropout",
    ),
    Mutation(
        "keys", CLIENT,
        "jax.random.fold_in(jax.random.key(seed), jnp.asarray(job.dispatch, jnp.uint32))",
        "jax.random.key(seed)", "every client has the same dropout",
    ),
    Mutation(
        "keys", CLIENT, "dispatch, position // size)", "dispatch, position // size * 0)",
        "every epoch has the same order",
    ),
    Mutation(
        "keys", "draws.py", "generator(seed, purpose, block).random(BLOCK)",
        "generator(seed, purpose, 0).random(BLOCK)", "every block of draws is the first",
    ),
    Mutation(
        "keys", "faults.py", "Fault.CRASH: Purpose.CRASH,", "Fault.CRASH: Purpose.DROP_OUT,",
        "who crashes would have dropped out",
    ),
    # Averages.
    Mutation(
        "average", BASE, "trees.blend(decay, average, algorithm.model(inner))",
        "trees.blend(decay, algorithm.model(inner), average)", "the new model weighs beta",
    ),
    Mutation(
        "average", BASE, "return averaged(on_time, state, inner), opened",
        "return beside(inner, averaged(on_time, state, inside(state)).aside[1]), opened",
        "the model before the step is averaged",
    ),
    # Fitted to the source once: the condition was `moved_by.reports > 0` when this was written.
    Mutation(
        "average", BASE, "return beside(inner, trees.where(moves(moved_by), new, average))",
        "return beside(inner, new)",
        "a step on nobody moves the average",
    ),
    Mutation(
        "average", BASE, "return beside(inner, trees.copy(algorithm.model(inner)))",
        "return beside(inner, trees.zeros_like(algorithm.model(inner)))",
        "the average starts at zero",
    ),
    Mutation(
        "average", FEAST, "trees.blend(beta, mismatched, w_plus)",
        "trees.blend(beta, w_plus, mismatched)", "beta and 1 - beta change places",
    ),
    # Models of one training.
    Mutation(
        "models", BASE, "return [State(state.core, aside) for aside in state.aside]",
        "return [State(state.core, state.aside[0]) for _ in state.aside]",
        "every model has the first one's past",
    ),
    Mutation(
        "models", "simulate.py", "course.model = _of(model, carry.server, trial)",
        "course.model = _of(algorithm.model, carry.server, trial)", "every model is the first",
    ),
    Mutation(
        "models", "settings.py", 'ASIDE = ("ema", "average", "beta", "kappa")',
        'ASIDE = ("ema", "average", "beta", "kappa", "history")',
        "training is said not to depend on what teaches",
    ),
    # What is not finite: dropped, not zeroed.
    Mutation(
        "not finite", ENGINE, "report = trees.where(good, report, trees.zeros_like(report))",
        "report = report._replace(\n"
        "            delta=trees.where(good, report.delta, trees.zeros_like(report.delta))\n"
        "        )",
        "a dropped client dilutes the mean",
    ),
    Mutation(
        "not finite", HANDOVER,
        "counted = lanes.ends & good\n    delta = jnp.where((counted & ~idle)[:, None], delta, 0)",
        "counted = lanes.ends\n    delta = jnp.where((counted & good & ~idle)[:, None], delta, 0)",
        "the same in lanes",
    ),
    Mutation(
        "not finite", "trees.py", "jnp.sum(jnp.square(x.astype", "jnp.sum(jnp.abs(x.astype",
        "1e38 is taken",
    ),
    Mutation(
        "not finite", "metrics.py",
        "jnp.sum(jnp.where(groups[None], values[:, None], 0), axis=-1)",
        "jnp.sum(groups[None] * values[:, None], axis=-1)", "one group's NaN is everybody's",
    ),
    # Reports in the wrong account.
    Mutation(
        "accounts", ROWS, "used = schedule.fate == Fate.ON_TIME",
        "used = (schedule.fate == Fate.ON_TIME) | late", "late reports are trained for nobody",
    ),
    Mutation(
        "accounts", ROUNDS, "counted = on_time.sum(axis=1)",
        "counted = (on_time | late).sum(axis=1)", "late reports count against the budget",
    ),
    Mutation(
        "accounts", ROUNDS, "late = ~on_time & kept_up & in_time",
        "late = ~on_time & in_time", "abandoned rounds have late reports",
    ),
    Mutation(
        "accounts", BUFFER, "counted = answers[source].reshape(steps, buffer).sum(axis=1)",
        "counted = np.full(steps, buffer)", "clients that were given up are counted",
    ),
    Mutation(
        "accounts", "plan.py", "busy = np.minimum(schedule.works, schedule.end - schedule.start)",
        "busy = schedule.works", "devices work after the end",
    ),
    # Windows, off by one.
    Mutation(
        "window", ROUNDS, "kept_up & (step - origin < late_rounds) & (step < stuck)",
        "kept_up & (step - origin <= late_rounds) & (step < stuck)", "k + 1 rounds are waited",
    ),
    Mutation(
        "window", ROUNDS, "(report <= opens[:, None] + late_seconds)",
        "(report < opens[:, None] + late_seconds)",
        "whoever reports at tau_max is too late",
    ),
    Mutation(
        "window", ROWS, "remembered = (schedule.step - schedule.version < teachers)",
        "remembered = (schedule.step - schedule.version <= teachers)",
        "a report changes the row of another round",
    ),
    Mutation(
        "window", ROWS, "known = np.minimum(version, k)", "known = np.minimum(version, k + 1)",
        "teachers from a row that is taken over",
    ),
    Mutation(
        "window", FARE_DUST, "trees.set_row(core.history, oldest, fresh)",
        "trees.set_row(core.history, (oldest + 1) % k, fresh)", "the next row is emptied",
    ),
    # Weights.
    Mutation(
        "weights", "weights.py", 'power = -0.5 if discount == "inverse_sqrt"',
        'power = 0.5 if discount == "inverse_sqrt"', "stale reports count more",
    ),
    Mutation(
        "weights", ENGINE, "Sum(trees.scale(table.weight[i], delta), table.weight[i],",
        "Sum(delta, table.weight[i],", "deltas are not weighted",
    ),
    Mutation(
        "weights", CLIENT, "jnp.sum(losses, where=valid) / count",
        "jnp.sum(losses, where=valid) / losses.size", "a short batch counts less",
    ),
    Mutation(
        "weights", CLIENT, "client.proximal / 2 * _square(drift)",
        "client.proximal * _square(drift)", "the proximal term is twice itself",
    ),
    # Lanes and buckets.
    Mutation(
        "bookkeeping", ROWS, "while emptied < opens[which]:", "while emptied <= opens[which]:",
        "a bucket is reused in the step that empties it",
    ),
    Mutation(
        "bookkeeping", "lanes.py", "chain.from_iterable(queues)",
        "chain.from_iterable(reversed(queues))", "lanes have each other's clients",
    ),
    Mutation(
        "bookkeeping", "server.py",
        "return taken, trees.set_row(buckets, slot, trees.zeros_like(taken))",
        "return taken, buckets", "a bucket is not emptied",
    ),
    Mutation(
        "bookkeeping", ENGINE, "ends = lane.runs & (lane.step >= jnp.maximum(steps, 1))",
        "ends = lane.step >= jnp.maximum(steps, 1)", "a lane that is done hands over once more",
    ),
    Mutation(
        "bookkeeping", ENGINE, "(place < end) & (table.opens[following] <= e)",
        "(place < end)", "a client starts before the model that it is sent is there",
    ),
    Mutation(
        "bookkeeping", "together.py", "slots = max(rows.slots for rows in each)",
        "slots = min(rows.slots for rows in each)", "trials share buckets",
    ),
    # Checkpoints.
    Mutation(
        "resume", "recording.py", "course.curve = list(map(_point, records.evaluations(curve)))",
        "course.curve = []", "a run that goes on forgets its points",
    ),
    Mutation(
        "resume", "simulate.py", "for stop in stops[evaluated:]:",
        "for stop in stops[max(evaluated - 1, 0) :]:", "a row of the curve is repeated",
    ),
    Mutation(
        "resume", "checkpoint.py", "if _digest(folder / name) != digest:", "if False:",
        "damaged files are taken",
    ),
    Mutation(
        "resume", "checkpoint.py", "if name in NEVER or not allowed:", "if not allowed:",
        "another seed's checkpoint goes on",
    ),
    Mutation(
        "resume", "checkpoint.py", "for old in _all(place)[KEEP:]:",
        "for old in _all(place)[KEEP - 1 :]:", "no older checkpoint to fall back to",
    ),
    # What is on the disk, and when.
    Mutation(
        "disk", "files.py",
        "    sync(temporary)\n"
        "    if inside is not None and place.is_dir():  # which a rename would not replace\n"
        "        _remove(place)\n    os.replace(temporary, place)\n",
        "    os.replace(temporary, place)\n    sync(place)\n",
        "a name may point to an empty file",
    ),
    Mutation(
        "disk", "files.py",
        "    for file in inside or ():\n        sync(file)\n", "",
        "a checkpoint's files may be empty",
    ),
    Mutation(
        "disk", "records.py", "        os.fsync(curve.fileno())\n", "",
        "a point of the curve may be lost",
    ),
    # Faults, and the end of patience.
    Mutation(
        "patience", ROUNDS, "duration = np.minimum(duration, round_timeout)",
        "duration = np.where(duration == np.inf, round_timeout, duration)",
        "slow rounds are waited for beyond their time",
    ),
    Mutation(
        "patience", ROUNDS, "on_time.sum(axis=1, keepdims=True) >= least",
        "on_time.sum(axis=1, keepdims=True) > least", "`minimum` reports are too few",
    ),
    Mutation(
        "patience", BUFFER, "answers = start + drawn.seconds <= start + patience",
        "answers = start + drawn.seconds < start + patience", "in time is too late",
    ),
    Mutation(
        "patience", "faults.py", "fault[strikes & (fault == Fault.NONE)] = which",
        "fault[strikes] = which", "the last fault happens, not the first",
    ),
    # Statistics and units.
    Mutation(
        "numbers", STATISTICS, "        tail = 50 * (1 - interval.level)",
        "        tail = 100 * (1 - interval.level)", "a range of 90 % is one of 80 %",
    ),
    Mutation(
        "numbers", "metrics.py", "float(part.sum() / of.sum())", "float((part / of).mean())",
        "total accuracy is the mean of two groups'",
    ),
    Mutation(
        "numbers", "commands/base.py", "60 * options.checkpoint_minutes",
        "options.checkpoint_minutes", "minutes are taken for seconds",
    ),
    Mutation(
        "numbers", STATISTICS, "share = (target - before) / (after - before)", "share = 1.0",
        "the time to a target is that of the next point",
    ),
    # Fitting a log: its factors.
    Mutation(
        "factors", FIT, "mu = float(np.average(logs, weights=weight))", "mu = float(np.mean(logs))",
        "who is in a log more often counts more",
    ),
    Mutation(
        "factors", FIT, "sigma = math.sqrt(np.average((logs - mu) ** 2, weights=weight))",
        "sigma = float(np.average((logs - mu) ** 2, weights=weight))",
        "a deviation is a variance",
    ),
    Mutation(
        "factors", FIT, "if off <= max(MISFIT, chance):", "if off <= min(MISFIT, chance):",
        "few clients have the percentiles of chance",
    ),
    Mutation(
        "factors", FIT, "math.sqrt(len(np.unique(client))) if seconds.min() >= FINEST else 0.0",
        "math.sqrt(len(np.unique(client)))", "times of nothing pass for a log-normal's",
    ),
    Mutation(
        "factors", FIT, "middle = np.cumsum(weight[order]) - weight[order] / 2",
        "middle = np.cumsum(weight[order])", "percentiles are half a report too low",
    ),
    Mutation(
        "factors", FIT, "np.average(~came[group == index], weights=weight[group == index])",
        "np.mean(~came[group == index])", "drop-out is of whoever is started often",
    ),
    Mutation(
        "factors", FIT, "math.ceil(np.nanmax(log.total))", "math.ceil(np.nanmedian(log.total))",
        "half of all reports come after a round was given up",
    ),
    Mutation(
        "factors", FIT, "len(np.unique(log.client[lines])) < totals.ENOUGH",
        "np.sum(lines) < totals.ENOUGH", "many reports of few clients are many",
    ),
    # Sums of times, and what they are made of.
    Mutation(
        "sums", TOTALS, "return float(found.fun + weights @ np.log(rest)), found.x",
        "return float(found.fun), found.x", "constants are compared without what they change",
    ),
    Mutation(
        "sums", TOTALS, "b**2 + 2 * b * mean_x + mean_xx - trains,",
        "b**2 + 2 * b * mean_x + mean_xx - 1,", "who trains on nothing widens the time per example",
    ),
    Mutation(
        "sums", TOTALS, "left = total - given.constant - examples *", "left = total - examples *",
        "scores forget the constant",
    ),
    Mutation(
        "sums", TOTALS,
        "order[np.searchsorted(ends, (np.arange(LINES) + 0.5) / LINES * ends[-1])]",
        "order[np.arange(LINES) * len(order) // LINES]", "of many lines, weights are forgotten",
    ),
    Mutation(
        "sums", TOTALS, "(TIED, CONSTANTS[:1]) if few", "(TIED, CONSTANTS) if few",
        "few clients have a constant",
    ),
    Mutation(
        "sums", TOTALS, "np.outer(FREE[3], FREE[1, :3])", "np.outer(FREE[3], FREE[0, :3])",
        "the second deviation of few clients is a mean",
    ),
    # What clients keep, and what goes together.
    Mutation(
        "luck", FIT, "one, seen and seen._replace(line=np.flatnonzero(trained))", "one, seen",
        "times are set against those of other reports",
    ),
    Mutation(
        "luck", FIT, "spread = _spread(values, weight) * float(np.mean(per))",
        "spread = _spread(values, weight)", "training weighs as that of one example",
    ),
    Mutation(
        "luck", LUCK, "return 1 / np.bincount(client)[client]", "return np.ones(len(client))",
        "every report counts",
    ),
    Mutation(
        "luck", LUCK, "within = np.mean(squares[again] / (times[again] - 1))",
        "within = np.mean(squares[again] / times[again])", "clients seem to keep more",
    ),
    Mutation(
        "luck", LUCK, "between = np.var(means, ddof=1) - within * np.mean(1 / times)",
        "between = np.var(means, ddof=1)", "means of few reports differ by what is kept",
    ),
    Mutation(
        "luck", LUCK, "if again.sum() < FEWEST:", "if again.sum() < 1:",
        "one client tells what all keep",
    ),
    Mutation(
        "luck", LUCK, "one.spread * len(np.unique(one.client))) for one in every]",
        "one.spread) for one in every]", "a small group weighs as a large one",
    ),
    # Reading a log.
    Mutation(
        "logs", LOGS, "examples = self.examples[order][(starts + ends - 1) // 2]",
        "examples = self.examples[order][(starts + ends) // 2 - 1]",
        "a client has fewer examples than its median",
    ),
    Mutation(
        "logs", LOGS, "if all(0 <= one <= LONGEST for one in seconds)",
        "if all(0 <= one for one in seconds)", "dates are times",
    ),
    Mutation(
        "logs", LOGS, "    if not any(fields):\n", "    if not all(fields):\n",
        "half of the times is a report that never came",
    ),
    Mutation(
        "logs", LOGS, "return np.sum([*self.times.values()], axis=0)",
        "return np.nansum([*self.times.values()], axis=0)",
        "reports that never came took no time",
    ),
    # Copies of files that settings name.
    Mutation(
        "copies", "named.py", 'copy = f"copy-{_digest(content)[:12]}{Path(name).suffix}"',
        'copy = f"copy-{Path(name).name}"', "two files of one name meet",
    ),
    Mutation(
        "copies", "records.py",
        "        _write(path.with_name(name), content)\n"
        "    _write(path, tomlfile.dumps(settings).encode())\n",
        "        _write(path, tomlfile.dumps(settings).encode())\n"
        "        _write(path.with_name(name), content)\n"
        "    _write(path, tomlfile.dumps(settings).encode())\n",
        "settings may name a copy that is not there yet",
    ),
    Mutation(
        "copies", "recording.py", "if _hashes(experiments) != hashes:", "if False:",
        "a copy may be of what was not trained on",
    ),
    # A server in real time.
    Mutation(
        "live", COORDINATOR, "if self.reports < policy.goal and self._under_way():",
        "if self.reports < policy.goal:", "a round waits for clients that failed",
    ),
    Mutation(
        "live", COORDINATOR, "        state = self._with_arrived()\n        for round in",
        "        state = self.state\n        for round in", "what is kept lacks what came late",
    ),
    Mutation(
        "live", COORDINATOR, "missing=max(0, waiting.missing - 1))", "missing=waiting.missing)",
        "FeAST waits for who failed",
    ),
    Mutation(
        "live", LIVE, "for number in sorted({*replies, *_overdue(server, now)}):",
        "for number in [*replies, *_overdue(server, now)]:", "reports count as they were unpacked",
    ),
    Mutation(
        "live", LIVE, "sorted(online - {job.client for job in server.jobs.values()})",
        "sorted(online)", "whoever works is asked again",
    ),
    Mutation(
        "live", LIVE, "failures, known[job.client] = 0, reply",
        "failures, known[job.client] = failures, reply", "failures add up over days",
    ),
    Mutation(
        "live", LIVE, "            if isinstance(policy, Buffer) and server.version == steps:\n",
        "            if False:\n", "a buffer steps beyond the last step",
    ),
    Mutation(
        "live", LEDGER, "training = min(line.training, line.seconds)", "training = line.training",
        "a client's clock makes communication negative",
    ),
    Mutation(
        "live", LEDGER, 'COUNTERS = "state", ("version", "groups", "dispatches")',
        'COUNTERS = "state", ("version", "groups")', "a server that goes on repeats its draws",
    ),
    # What travels.
    Mutation(
        "messages", DEVICE, "start - np.asarray(ends[name], start.dtype)",
        "np.asarray(ends[name], start.dtype) - start", "a device's delta climbs",
    ),
    Mutation(
        "messages", DEVICE, "return {name: array.copy() for name, array in arrays.items()}",
        "return arrays", "whoever trains in place reports nothing",
    ),
    Mutation(
        "messages", MESSAGES, "for name in sorted({*delta, *like}):", "for name in sorted(delta):",
        "a report may lack arrays",
    ),
    Mutation(
        "messages", SERVE, "max(DEFAULT_TTL, late)", "min(DEFAULT_TTL, late)",
        "messages end before their reports are late",
    ),
    Mutation(
        "messages", SERVE, "None if order.download.teacher is order.download.model",
        "None if True", "teachers stay at home",
    ),
    # Whoever works is not asked.
    Mutation(
        "idle", IDLE, "self.until[who] = now + drawn.stops",
        "self.until[who] = now + drawn.seconds", "a device that dropped out works for ever",
    ),
    Mutation(
        "idle", IDLE, "self.until[clients] <= now", "self.until[clients] < now",
        "whoever ends at this moment is busy",
    ),
    Mutation(
        "idle", IDLE, "start=self.dispatches)", "start=0)", "every group has the first one's luck",
    ),
    Mutation(
        "idle", IDLE, "return float(free[size - 1])", "return float(free[0])",
        "a round opens before its cohort is idle",
    ),
    Mutation(
        "idle", ROUNDS, "closes = opens + duration\n", "closes = np.cumsum(duration)\n",
        "waiting takes no time",
    ),
    # Who comes and goes.
    Mutation(
        "hours", AVAILABILITY, "given.end[which] - np.where(before, given.cycle, 0.0)",
        "given.end[which]",
        "after midnight a night has a day to go",
    ),
    Mutation(
        "hours", AVAILABILITY, "(begin[head] == 0) & (end[tail] == cycle)",
        "(begin[head] < 0) & (end[tail] == cycle)", "at midnight everybody leaves",
    ),
    Mutation(
        "hours", AVAILABILITY, "again = target > whole", "again = target >= whole",
        "work that ends with a day's last hour ends with the next day's first",
    ),
    Mutation(
        "hours", AVAILABILITY, "begin[1:] > latest[:-1]", "begin[1:] >= latest[:-1]",
        "intervals that touch are two",
    ),
    Mutation(
        "hours", AVAILABILITY, "np.rint(HOUR * begin)", "HOUR * begin",
        "moments round to before somebody comes",
    ),
    Mutation(
        "hours", IDLE, "left, works = drawn.works > stay", "left, works = drawn.seconds > stay",
        "whoever drops out has left",
    ),
    Mutation(
        "hours", IDLE, "np.minimum(drawn.works, stay)", "drawn.works",
        "devices work when they are gone",
    ),
    Mutation(
        "hours", IDLE, "for cycle in (window - 1, window):", "for cycle in (window,):",
        "nobody is there over midnight",
    ),
    Mutation(
        # Was `first + 99`, which only takes longer to come to the same end.
        "hours", IDLE, "if window > first + 1:", "if window > first:",
        "nobody waits for hours that have begun already today",
    ),
    # Left out, as no group can start before one that waits: max(now, arrived[-1][0]) without max.
    Mutation(
        "hours", ROUNDS, "known = np.append(opens[1:], closes[-1:])", "known = closes",
        "what comes while a round waits to open is not known to it",
    ),
    Mutation(
        "hours", ROUNDS, "after = met[kept] >= steps", "after = step[kept] >= steps",
        "the last step knows what comes after it",
    ),
    Mutation(
        "hours", BUFFER, "np.where(at_a_report, leader, 0)", "leader",
        "whoever starts between reports knows the next",
    ),
    Mutation(
        "hours", ROWS, "np.searchsorted(schedule.time, schedule.report)", "schedule.step",
        "late reports join a step that was made before they came",
    ),
    # Rounds of like clients.
    Mutation(
        "tiers", TIERS, "np.mean(taken, axis=0)", "taken[0]", "one participation makes a profile",
    ),
    Mutation(
        "tiers", TIERS, "np.bincount(tier, weight)", "np.bincount(tier)",
        "tiers come as often whoever checks in",
    ),
    Mutation(
        "tiers", TIERS, "members[drawn[turn == number]]", "drawn[turn == number]",
        "every tier has the first clients",
    ),
    Mutation(
        "tiers", TIERS, "weights = None if check_in is None else weight[members]",
        "weights = None", "within a tier all check in alike",
    ),
    # Algorithms of one's own.
    Mutation(
        "own", "own.py", "module = _imported(file, digest)", 'module = _imported(file, "")',
        "changed code is the old one",
    ),
    Mutation(
        "own", "rows.py", "(schedule.step - schedule.version < teachers) | (teachers == 0)",
        "schedule.step - schedule.version < teachers", "without a history nothing late is settled",
    ),
    Mutation(
        "own", ENGINE, "        if not (teach and client.distillation):\n",
        "        if not (algorithm.teachers and client.distillation):\n",
        "lanes have no teacher where there is no history",
    ),
    # Late reports that join the next step, and weights by what is known of reports.
    Mutation(
        "joins", ROWS, "schedule.report), schedule.version + 1)", "schedule.report), 0)",
        "a report joins the step that closed at its moment",
    ),
    Mutation(
        "joins", ROWS, "made = np.unique(schedule.step[schedule.fate == Fate.ON_TIME])",
        "made = np.arange(schedule.steps)", "an abandoned step takes late reports along",
    ),
    Mutation(
        "joins", ROWS, "return known.astype(np.int32), joins",
        "return schedule.step, joins", "a report that joins is fresher than it is",
    ),
    Mutation(
        "joins", ROWS, "used = used | (late & (closes < schedule.steps))",
        "used = used | late", "late reports after the last step are trained",
    ),
    Mutation(
        "joins", COORDINATOR,
        "self.gathered, self.joining = plus(self.gathered, self.joining), self.nobody",
        "self.gathered = plus(self.gathered, self.joining)", "late reports join every step",
    ),
    Mutation(
        "joins", COORDINATOR,
        "self.joining = plus(self.joining, self._report(job, delta, self.version))",
        "self.joining = plus(self.joining, self._report(job, delta, self._step_now()))",
        "the interpreter weighs a report that joins as one of the step before",
    ),
    Mutation(
        "participation", ROWS, "before[order] = first_of_step - first_of_client",
        "before[order] = place - first_of_client", "reports of one step count before one another",
    ),
    Mutation(
        "participation", ROWS, "order = np.lexsort((step, client))",
        "order = np.lexsort((client, step))", "participations are counted over all clients",
    ),
    Mutation(
        "participation", "weights.py", "(1.0 + reports.step) / (1.0 + reports.before)",
        "reports.step / (1.0 + reports.before)", "nothing of the first step counts",
    ),
    Mutation(
        "participation", COORDINATOR, "self.took_part[client].remove(self.version)",
        "pass", "who was in an abandoned step took part",
    ),
    Mutation(
        "participation", COORDINATOR,
        "made = {c: bisect_left(steps, self.version) for c, steps in self.took_part.items()}",
        "made = {c: 0 for c in self.took_part}", "a server that goes on forgets who took part",
    ),
    Mutation(
        "directions", "weights.py", "where=made > 0)", "where=made > 1)",
        "one local step is none",
    ),
    Mutation(
        "directions", "deploy.py", "positions = (epochs * reports.examples)",
        "positions = (1 * reports.examples)", "real clients train one epoch",
    ),
    Mutation(
        "directions", "setup.py", "Reports(joint.staleness, sizes, steps, joint.step",
        "Reports(joint.staleness, sizes, joint.examples, joint.step",
        "examples are taken for local steps",
    ),
]  # fmt: skip
