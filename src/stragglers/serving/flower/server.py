"""The server's side: serve.py over Flower's Grid.

    send    a message to each client; the same model is packed once
    poll    replies, errors and damaged reports: the latter two are clients that failed

A reply's time is up 12 hours after its order, as ever with Flower, or later if `late_seconds` is.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import DEFAULT_TTL, ArrayRecord, Message, MessageType
from flwr.serverapp import Grid

from stragglers._core.errors import BadInput
from stragglers.algorithms import trees
from stragglers.algorithms.base import Algorithm, Params
from stragglers.planning.policy import Policy, Rounds
from stragglers.serving import serve as live
from stragglers.serving.flower import messages
from stragglers.serving.serve import Link, Reply, Served
from stragglers.simulator.coordinator import Order


def serve(
    grid: Grid, algorithm: Algorithm, policy: Policy, params: Params, **options: Any
) -> Served:
    """Trains on the clients of a grid; options are those of live.serve, `steps` among them."""
    params = live.as_weights(params)
    late = policy.late_seconds if isinstance(policy, Rounds) else None
    ttl = max(DEFAULT_TTL, late) if late is not None and math.isfinite(late) else DEFAULT_TTL
    return live.serve(link(grid, params, ttl), algorithm, policy, params, **options)


def link(grid: Grid, params: Params, ttl: float = DEFAULT_TTL) -> Link:
    """Flower's clients, of a model like this."""
    like = {name: np.asarray(array) for name, array in trees.named(params).items()}
    under_way: dict[str, int] = {}  # dispatches by message
    unsent: list[Reply] = []

    def send(orders: Sequence[Order]) -> None:
        models: dict[int, ArrayRecord] = {}  # by identity, while the orders hold them

        def packed(tree: Params) -> ArrayRecord:
            if id(tree) not in models:
                models[id(tree)] = messages.packed(trees.named(tree))
            return models[id(tree)]

        letters = [
            Message(
                messages.order(
                    packed(order.download.model),
                    None
                    if order.download.teacher is order.download.model
                    else packed(order.download.teacher),
                    order.dispatch,
                    order.version,
                ),
                dst_node_id=order.client,
                message_type=MessageType.TRAIN,
                ttl=ttl,
                group_id=str(order.version),
            )
            for order in orders
        ]
        for order, letter in zip(orders, grid.push_messages(letters), strict=True):
            if letter:
                under_way[letter] = order.dispatch
            else:
                unsent.append(Reply(order.dispatch, None, error="it was gone when it was called"))

    def poll() -> Iterable[Reply]:
        replies, unsent[:] = [*unsent], []
        for message in grid.pull_messages([*under_way]) if under_way else ():
            dispatch = under_way.pop(message.metadata.reply_to_message_id, None)
            if dispatch is not None:
                replies.append(_reply(dispatch, message))
        return replies

    def _reply(dispatch: int, message: Message) -> Reply:
        try:
            told = messages.reported(message, like)
        except BadInput as error:
            return Reply(dispatch, None, error=str(error))
        delta = trees.from_named(told.delta, params)
        return Reply(dispatch, delta, told.examples, told.seconds, told.group)

    return Link(grid.get_node_ids, send, poll)
