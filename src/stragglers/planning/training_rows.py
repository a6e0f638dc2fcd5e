"""The schedule as the simulator walks it: only the clients whose reports count, with their places.

A client's delta is added into a *bucket* as soon as it is trained, in the order of dispatch:

    on time             the bucket of its server step
    late, next_step     the bucket of the next server step that is made
    late, at_arrival    the bucket of (the step that first knows it, the round it started in)
    late, by_round      the bucket of its own round, settled right after that round's step
    replaced            a second one: the bucket of what the step of its client's next report
                        replaces; a report that is the client's last has none

Every destination is known in advance, so a bucket is open from its first client to its step, and a
few slots, reused, hold them all. Clients whose report is never used are not trained.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers.planning.faults import Fault, corrupted
from stragglers.planning.schedule import Fate, Schedule, Settles


class Rows(NamedTuple):
    """Columns over clients to train, by version; and over server steps."""

    dispatch: NDArray[np.int32]
    client: NDArray[np.int32]
    examples: NDArray[np.int64]  # positions that each may go through
    cut: NDArray[np.bool_]  # whether a time limit ends that
    version: NDArray[np.int32]
    staleness: NDArray[np.int32]  # server steps between its model and the step that uses it
    step: NDArray[np.int32]  # that step, or the one that knows it first, if that is abandoned
    before: NDArray[np.int32]  # its client's rows of earlier steps
    joins: NDArray[np.int32]  # the step whose sum it is in, or with whose round it is settled
    teacher: NDArray[np.int32]  # round whose history teaches it; -1 in round 0
    slot: NDArray[np.int32]
    again: NDArray[np.int32]  # slot of what a later step replaces; -1 if none does
    corrupt: NDArray[np.int32]  # what its delta is replaced by: 0 nothing, 1 NaN, 2 Inf, 3 huge

    begin: NDArray[np.int32]  # [steps + 1]: version v trains rows begin[v] to begin[v + 1]
    on_time_slot: NDArray[np.int32]  # [steps]
    stalest: NDArray[np.int32]  # [steps]: server steps since the oldest version of a step's reports
    late_begin: NDArray[np.int32]  # [steps + 1]: step v settles late buckets late_begin[v] to ...
    late_slot: NDArray[np.int32]
    late_round: NDArray[np.int32]  # the round that a late bucket belongs to
    late: NDArray[np.int64]  # [steps]: late reports handed over by the end of each step
    slots: int  # buckets open at once, at most; slot number `slots` is always empty


def rows_of(
    schedule: Schedule,
    settles: Settles,
    *,
    seed: int,
    teachers: int = 1,
) -> Rows:
    """Keeps what an algorithm uses of a schedule; `teachers`: the length of its history, or 0."""
    late = schedule.fate == Fate.LATE
    used = schedule.fate == Fate.ON_TIME
    step = closes = schedule.step
    if settles == "next_step":
        step, closes = _joined(schedule, late)
        used = used | (late & (closes < schedule.steps))
    elif settles == "at_arrival":  # and while the history still holds their round
        remembered = (schedule.step - schedule.version < teachers) | (teachers == 0)
        used = used | (late & remembered & (schedule.step < schedule.steps))
    elif settles == "by_round":
        used, closes = used | late, np.where(late, schedule.version, schedule.step)
    dispatch = np.flatnonzero(used).astype(np.int32)
    columns = schedule.version, step, closes, late
    version, step, closes, late = (column[dispatch] for column in columns)
    steps = schedule.steps
    fault = schedule.fault[dispatch].astype(np.int32)
    corrupt = np.where(corrupted(schedule.fault[dispatch]), fault - Fault.NAN + 1, 0)

    # A bucket is (step that empties it, 0 if on time, else 1 + round): sorted, unique, numbered.
    apart = late & (settles != "next_step")
    kind = np.where(apart, version.astype(np.int64) + 1, 0)
    keys = closes.astype(np.int64) * (steps + 2) + kind
    replaced = np.full(len(dispatch), steps)
    if settles == "replaced":
        replaced = _replaced(schedule.client[dispatch], step, schedule.report[dispatch], steps)
    kept = np.flatnonzero(replaced < steps)
    keys = np.concatenate([keys, replaced[kept] * (steps + 2) + 1])
    key, bucket = np.unique(keys, return_inverse=True)
    bucket_step, bucket_kind = np.divmod(key, steps + 2)
    opens = np.full(len(key), steps)
    np.minimum.at(opens, bucket, np.concatenate([version, version[kept]]))
    slot, slots = _slots(opens, bucket_step)
    again = np.full(len(dispatch), -1, np.int32)
    again[kept] = slot[bucket[len(dispatch) :]]

    stalest = np.zeros(steps, np.int32)
    np.maximum.at(stalest, closes[~apart], (closes - version)[~apart])
    on_time_slot = np.full(steps, slots)
    on_time_slot[bucket_step[bucket_kind == 0]] = slot[bucket_kind == 0]
    if settles in ("by_round", "replaced"):  # each step settles, also without late reports
        late_step = np.arange(steps)
        late_slot, late_round = np.full(steps, slots), late_step
        late_slot[bucket_step[bucket_kind > 0]] = slot[bucket_kind > 0]
    else:
        late_step = bucket_step[bucket_kind > 0]
        late_slot, late_round = slot[bucket_kind > 0], bucket_kind[bucket_kind > 0] - 1
    return Rows(
        dispatch=dispatch,
        client=schedule.client[dispatch],
        examples=schedule.examples[dispatch],
        cut=schedule.cut[dispatch],
        version=version,
        staleness=step - version,
        step=step,
        before=_before(schedule.client[dispatch], step),
        joins=closes,
        teacher=teachers_of(seed, dispatch, version, teachers),
        slot=slot[bucket[: len(dispatch)]].astype(np.int32),
        again=again,
        corrupt=corrupt.astype(np.int32),
        begin=np.searchsorted(version, np.arange(steps + 1)).astype(np.int32),
        on_time_slot=on_time_slot.astype(np.int32),
        stalest=stalest,
        late_begin=np.searchsorted(late_step, np.arange(steps + 1)).astype(np.int32),
        late_slot=late_slot.astype(np.int32),
        late_round=late_round.astype(np.int32),
        late=np.bincount(closes[late], minlength=steps).cumsum(),
        slots=slots,
    )


def _joined(
    schedule: Schedule, late: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Where late reports join the next step: the step that knows each first, and that it is in.

    Late reports precede reports on time of the same moment, because their clients started first.
    Late reports of the round that closes at that moment follow its last report on time. An
    abandoned step uses no late reports.
    """
    following = np.maximum(np.searchsorted(schedule.time, schedule.report), schedule.version + 1)
    known = np.where(late, following, schedule.step)
    made = np.unique(schedule.step[schedule.fate == Fate.ON_TIME])
    joins = np.append(made, schedule.steps)[np.searchsorted(made, known)]
    return known.astype(np.int32), joins.astype(np.int32)


def _before(client: NDArray[np.int32], step: NDArray[np.int32]) -> NDArray[np.int32]:
    """How many rows of earlier steps each row's client has."""
    order = np.lexsort((step, client))
    who, when = client[order], step[order]
    place = np.arange(len(order))
    first_of_client = np.searchsorted(who, who)
    news = np.append(True, (who[1:] != who[:-1]) | (when[1:] != when[:-1]))[: len(order)]
    first_of_step = np.maximum.accumulate(np.where(news, place, 0))
    before = np.empty(len(order), np.int32)
    before[order] = first_of_step - first_of_client
    return before


def _replaced(
    client: NDArray[np.int32],
    step: NDArray[np.int32],
    report: NDArray[np.float64],
    steps: int,
) -> NDArray[np.int64]:
    """The step of each client's next report, in the order of their arrival; `steps` if none."""
    order = np.lexsort((report, step, client))
    same = client[order[1:]] == client[order[:-1]]
    following = np.full(len(order), steps)
    following[order[:-1][same]] = step[order[1:][same]]
    return following


def _slots(opens: NDArray[np.int64], closes: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Gives each interval [opens, closes] a slot that no overlapping one has; as few as can be."""
    slot = np.empty(len(opens), np.int64)
    free: list[int] = []
    taken = 0
    ending: dict[int, list[int]] = {}
    emptied = 0
    for which in np.argsort(opens, kind="stable"):
        while emptied < opens[which]:  # slots of earlier steps are free again
            free += ending.pop(emptied, [])
            emptied += 1
        if not free:
            free, taken = [taken], taken + 1
        slot[which] = free.pop()
        ending.setdefault(int(closes[which]), []).append(int(slot[which]))
    return slot, taken


def teachers_of(
    seed: int, dispatch: NDArray[np.int32], version: NDArray[np.int32], k: int
) -> NDArray[np.int32]:
    """A round among the last k before each client's own, uniformly; -1 where there is none."""
    first, last = (int(dispatch[0]), int(dispatch[-1]) + 1) if len(dispatch) else (0, 0)
    uniform = random_streams.uniforms(seed, random_streams.Purpose.TEACHER, first, last)[
        dispatch - first
    ]
    known = np.minimum(version, k)
    return (version - 1 - np.floor(uniform * known).astype(np.int32)).astype(np.int32)
