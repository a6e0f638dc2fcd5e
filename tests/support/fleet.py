"""A fleet in virtual time, for live servers: clients that take whole seconds, and may fail."""

import jax
import numpy as np
import optax

from stragglers.algorithms.base import with_ema
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.feast import feast
from stragglers.algorithms.fedavg import fedavg, semi_async
from stragglers.algorithms.remembering import ca2fl
from stragglers.serving.serve import Clock, Link, Reply, serve

CLIENTS, STEPS, K = 12, 10, 3
W0 = {"w": np.arange(4.0), "b": np.ones(2)}
ADAM = optax.adam(0.05, b2=0.99, eps=1e-3)
ALGORITHMS = {
    "fedavg": with_ema(fedavg(ADAM), 0.6),
    "semi-async": semi_async(ADAM),
    "fare-dust": fare_dust(ADAM, k=K),
    "ca2fl": ca2fl(ADAM, clients=CLIENTS),
    "feast": feast(ADAM, beta=0.9, kappa=0.3),
}


def trained(order):
    """Something of a delta that depends on all that a client got."""
    client, sent = order.client + 1.0, order.download
    return jax.tree.map(lambda w, t: 0.1 * w - 0.03 * t + 0.01 * client, sent.model, sent.teacher)


class Fleet:
    """Clients in virtual time."""

    def __init__(self, delays, online=lambda now: range(CLIENTS), spoil=lambda reply: reply):
        self.now, self.delays, self.who, self.spoil = 0.0, delays, online, spoil
        self.under_way, self.orders = [], []

    def send(self, orders):
        self.orders += orders
        self.under_way += [(self.now + self.delays[o.dispatch], o) for o in orders]

    def poll(self):
        come = [order for at, order in self.under_way if at <= self.now]
        self.under_way = [(at, order) for at, order in self.under_way if at > self.now]
        return [
            self.spoil(Reply(o.dispatch, trained(o), 3 + o.client, 0.5, "ab"[o.client % 2]))
            for o in reversed(come)
        ]

    def serve(self, algorithm, policy, params=W0, **options):
        def sleep(seconds):
            self.now += seconds
            assert self.now < 10_000, "it never ends"

        link = Link(lambda: self.who(self.now), self.send, self.poll)
        clock = Clock(lambda: self.now, sleep)
        return serve(link, algorithm, policy, params, clock=clock, **{"steps": STEPS, **options})


def close(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12), a, b)


def failing(*dispatches):
    """Clients that say that they have failed."""

    def spoil(reply):
        failed = reply.dispatch in dispatches
        return reply._replace(delta=None, error="out of memory") if failed else reply

    return spoil
