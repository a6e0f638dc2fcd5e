"""An independent witness: softmax regression in NumPy, gradients by hand, one client at a time.

It reads the schedule and the shuffle, and imports nothing from `algorithms` or `client`. Weights
are one matrix [features + 1, classes].
"""

import numpy as np

from stragglers._core import random_streams
from stragglers._core.shuffle import hashed, shuffled
from stragglers.planning.faults import corrupted
from stragglers.planning.schedule import Fate


def softmax(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def calibration(kind, y, everybody, classes, alpha=1.0, tau=1.0, smoothing=0.01):
    """The factor and the addend of each class's logit, class by class."""
    a, b = np.ones(classes), np.zeros(classes)
    for c in range(classes):
        own, all = np.sum(y == c), np.sum(everybody == c)
        with np.errstate(divide="ignore"):
            if kind == "adjusted":
                b[c] = tau * np.log(own / len(y) + smoothing)
            elif kind == "margin":
                b[c] = -tau * np.float64(own) ** -0.25
            elif kind == "balanced":
                b[c] = np.log(all / len(everybody))
            elif kind == "damped" and own == 0:
                b[c] = np.log(alpha)
            elif kind == "scaled" and own == 0:
                a[c] = alpha
    return a, b


def local_delta(
    w0,
    teacher,
    x,
    y,
    *,
    dispatch,
    seed,
    positions,
    lr,
    batch,
    last_batch="fill",
    limited=False,
    rho=0.0,
    psi="cross_entropy",
    temperature=1.0,
    nu=0.0,
    skew=None,
    everybody=None,
    optimizer=None,
):
    """start - end of local training on one client's examples, by default with SGD."""
    n = len(x)
    factor, addend = 1.0, 0.0
    if skew and n:
        factor, addend = calibration(y=y, everybody=everybody, classes=w0.shape[1], **skew)
    whole = limited or last_batch == "drop"
    steps = (positions // batch if whole else -(-positions // batch)) if n else 0
    w, state, optimizer = w0.copy(), None, optimizer or sgd(lr)
    for step in range(steps):
        p = np.arange(step * batch, (step + 1) * batch)
        words = [np.full(batch, v, np.uint32) for v in (seed, dispatch)]
        epoch = hashed(*words, (p // n).astype(np.uint32))
        rows = shuffled((p % n).astype(np.uint32), np.full(batch, n, np.uint32), epoch)
        if last_batch == "keep":
            rows = rows[p < positions]
        a, labels = np.c_[x[rows], np.ones(len(rows))], y[rows]
        student = a @ w
        error = factor * (softmax(factor * student + addend) - np.eye(w.shape[1])[labels])
        if rho:
            taught = a @ teacher
            if psi == "logit_mse":
                error = error + rho * 2 * (student - taught) / w.shape[1]
            else:
                t = temperature
                error = error + rho * (softmax(student / t) - softmax(taught / t)) / t
        w, state = optimizer(w, a.T @ error / len(rows) + nu * (w - w0), state)
    return w0 - w


def sgd(lr):
    return lambda w, g, state: (w - lr * g, state)


def momentum(lr, decay):
    def step(w, g, m):
        m = g + decay * (0.0 if m is None else m)
        return w - lr * m, m

    return step


def clipped_with_decay(lr, norm, rate):
    """SGD on gradients of at most this norm; the learning rate decays by `rate` a local step."""

    def step(w, g, t):
        t = t or 0
        return w - lr * rate**t * g * min(1.0, norm / np.sqrt((g * g).sum())), t + 1

    return step


def adam(lr, b1=0.9, b2=0.99, eps=1e-3):
    def step(w, g, state):
        t, m, v = state or (0, 0.0, 0.0)
        t, m, v = t + 1, b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        return w - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps), (t, m, v)

    return step


def amsgrad(lr, b1=0.9, b2=0.99, eps=1e-3):
    def step(w, g, state):
        m, v, u = state or (0, 0.0, 0.0)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        u = np.maximum(u, v)
        return w - lr * m / (np.sqrt(u) + eps), (m, v, u)

    return step


def run(
    plan,
    x,
    y,
    offsets,
    w0,
    *,
    algorithm,
    server,
    client,
    seed,
    seed_word,
    weight=None,
    by="weight",
    ema=0.0,
    k=1,
    history="late",
    teacher_step="sgd",
    teacher_lr=1.0,
    corrects=False,
    beta=0.0,
    kappa=0.0,
    rate=None,
    threshold=0,
    clients=1,
):
    """Final w and the evaluated model of one run along a schedule."""
    weight = weight or (lambda *known: 1.0)
    dispatches = range(len(plan.client))
    made = {*plan.step[plan.fate == Fate.ON_TIME]}

    def known_at(d):
        if algorithm == "semi_async" and plan.fate[d] == Fate.LATE:
            return max(np.sum(plan.time < plan.report[d]), plan.version[d] + 1)
        return plan.step[d]

    def joins(d):
        """The step whose sum a late report is in; none is after the last."""
        return min((s for s in made if s >= known_at(d)), default=plan.steps)

    def joined(d):
        return plan.step[d] if plan.fate[d] == Fate.ON_TIME else joins(d)

    def counts(d):
        late = {
            "fedavg": False,
            "ca2fl": False,
            "mifa": False,
            "semi_async": joins(d) < plan.steps,
            "feast": True,
            "fare_dust": plan.step[d] < min(plan.steps, plan.version[d] + k),
        }[algorithm]
        return plan.fate[d] == Fate.ON_TIME or (plan.fate[d] == Fate.LATE and late)

    def before(d):
        return sum(
            plan.client[e] == plan.client[d] and counts(e) and known_at(e) < known_at(d)
            for e in range(len(plan.client))
        )

    def mean(reports):
        """Of (weight, delta) pairs."""
        total = sum(c * d for c, d in reports)
        return total / {"weight": sum(c for c, _ in reports), "count": len(reports), "sum": 1}[by]

    def moves(reports):
        return sum(c for c, _ in reports) > 0

    def stepped(w, reports, state):
        return server(w, mean(reports), state) if moves(reports) else (w, state)

    def calibrated(w, reports, state, v):
        """One step of CA2FL or MIFA; what is remembered is a table of all clients."""
        before, change = sum(memory.values()) / clients, 0.0
        mine = np.flatnonzero((plan.fate == Fate.ON_TIME) & (plan.step == v))
        for d in mine[np.argsort(plan.report[mine], kind="stable")]:
            c, delta = deltas.get(d, (0.0, 0.0 * w))
            change += c * delta - memory.get(plan.client[d], 0.0)
            memory[plan.client[d]] = c * delta
        if not moves(reports):
            return w, state
        if algorithm == "mifa":
            return server(w, sum(memory.values()) / clients, state)
        weights = [c for c, _ in reports]
        by_what = {"weight": sum(weights), "count": len(weights), "sum": 1}[by]
        return server(w, before + change / by_what, state)

    def taught_by(w, reports, state):
        if teacher_step == "server":
            return stepped(w, reports, state)[0]
        return w - teacher_lr * mean(reports) if moves(reports) else w

    w, state, average, a = w0, None, w0, w0
    deltas, memory = {}, {}
    for v in range(plan.steps):
        # What each round's history holds when version v's clients start.
        known = {r: [] for r in range(max(0, v - k), v)}
        for d, delta in deltas.items():
            on_time, late = plan.fate[d] == Fate.ON_TIME, plan.fate[d] == Fate.LATE
            r = plan.step[d] if on_time else plan.version[d]
            if r in known and plan.step[d] < v and (late or (on_time and history == "all")):
                known[r].append(delta)
        for d in np.flatnonzero(plan.version == v):
            if plan.fate[d] not in (Fate.ON_TIME, Fate.LATE):
                continue
            teacher = w
            if algorithm == "fare_dust" and v > 0:
                u = random_streams.uniforms(seed, random_streams.Purpose.TEACHER, d, d + 1)[0]
                teacher = taught_by(w, known[v - 1 - int(u * min(v, k))], state)
            c = plan.client[d]
            mine = slice(offsets[c], offsets[c + 1])
            delta = local_delta(
                w,
                teacher,
                x[mine],
                y[mine],
                dispatch=d,
                seed=seed_word,
                positions=plan.examples[d],
                everybody=y,
                **client,
            )
            if corrupted(plan.fault[d]):
                continue
            at = known_at(d)
            deltas[d] = (weight(at - v, c, plan.examples[d], at, before(d)), delta)
        on_time = [deltas[d] for d in deltas if plan.fate[d] == Fate.ON_TIME and plan.step[d] == v]
        if algorithm == "semi_async" and v in made:
            on_time += [deltas[d] for d in deltas if plan.fate[d] == Fate.LATE and joins(d) == v]
        state_before, w_before = state, w
        if algorithm in ("ca2fl", "mifa"):
            w, state = calibrated(w, on_time, state, v)
        else:
            w, state = stepped(w, on_time, state)
        if rate and v in made:  # FADAS
            tau = v - min(plan.version[d] for d in dispatches if counts(d) and joined(d) == v)
            eta = min(rate, 1 / tau) if tau > threshold else rate
            w = w_before + eta / rate * (w - w_before)
        late = []
        if algorithm == "feast":
            late = [deltas[d] for d in deltas if plan.fate[d] == Fate.LATE and plan.version[d] == v]
        if not moves(on_time + late):
            continue  # nobody's reports, or none that weighs anything
        if algorithm == "feast":
            w_plus, _ = stepped(w_before, on_time + late, state_before)
            a = beta * (a + kappa * (w_plus - w_before)) + (1 - beta) * w_plus
        evaluated = a if algorithm == "feast" else w
        if corrects:
            evaluated = taught_by(w, known.get(v - k, []), state)
        average = ema * average + (1 - ema) * evaluated
    return w, average
