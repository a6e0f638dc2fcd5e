"""StackOverflow: the next word of a sentence, from the words before it.

    x, y      both the sentence itself, [sentences, 21]; input is its first 20, target its last 20
    loss      fedjax: sum over the target's tokens of the cross-entropy, over 13.3
              afo: its mean over the target's tokens
              Padding never counts; end of sentence and unknown words do. So in distillation.
    score     right / counted, over tokens of the vocabulary; padding and end of sentence never
              count, and the two published definitions differ in unknown words:
              fedjax: they count, always as wrong; the model may only answer with words
              tff: they do not count; the model may answer anything

13.3 is FedJAX's expected length of a sentence. The mean of `afo` is over a sentence, where the
original takes it over a batch. Straggler accuracy is that of test sentences under a straggler tag.
"""

from functools import cache
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from stragglers._core.errors import BadInput, check_type
from stragglers.planning.paper_populations import PAPER_GROUPS
from stragglers.planning.population import Population
from stragglers.tasks.base import Task, check, cross_entropy
from stragglers.tasks.datasets.stackoverflow import EOS, FIRST_WORD, PAD, prepared
from stragglers.tasks.models.base import Profile
from stragglers.tasks.models.lstm import lstm

STRAGGLER_TAGS = ("math", "c++")
EXPECTED_LENGTH = 13.3
PUBLISHED = (342_477, 135_818_730, 93_882)  # users, sentences, stragglers

Accuracy = Literal["fedjax", "tff"]


@cache
def stackoverflow(
    path: str | Path,
    *,
    straggler_tags: tuple[str, ...] = STRAGGLER_TAGS,
    vocabulary: int = 10_000,
    accuracy: Accuracy = "fedjax",
    profile: Profile = "fedjax",
) -> Task:
    """Reads StackOverflow: next words of 342,477 users' sentences.

    `stragglers data stackoverflow` says which files there are and fetches them. They are checked
    and prepared once, into a cache.

    Args:
        path: Folder of the files, in any of their public layouts.
        straggler_tags: Tags that only straggler clients hold.
        vocabulary: Number of words that are told apart.
        accuracy: `tff` counts unknown words as wrong.
        profile: Code base whose model and preprocessing are reproduced.

    Returns:
        The task; equal arguments give the same object.

    Raises:
        BadInput: If the folder has no files of the data set, or they are damaged.

    Example:
        >>> import stragglers as st
        >>> task = st.stackoverflow("data/stackoverflow")  # a folder of StackOverflow's files
        >>> task.name
        'stackoverflow'
    """
    check_type("path", path, (str, Path), "a folder of data")
    data = prepared(Path(path), straggler_tags, vocabulary)
    if not data.straggler.any():
        raise BadInput(
            f"{path}: no user has a sentence with one of the tags "
            f"{', '.join(straggler_tags)}; set task.straggler_tags"
        )
    population = Population(
        np.asarray(data.examples),
        data.straggler.astype(np.int16),
        PAPER_GROUPS,
        origin(len(data.examples), len(data.sentences), int(data.straggler.sum())),
        np.asarray(data.tokens) / np.maximum(data.examples, 1),
    )
    return check(
        Task(
            name="stackoverflow",
            population=population,
            x=data.sentences,
            y=data.sentences,
            offsets=np.concatenate([[0], np.cumsum(data.examples)]),
            test_x=data.test_sentences,
            test_y=data.test_sentences,
            test_straggler=np.asarray(data.test_straggler),
            model=_model(profile, FIRST_WORD + data.words + 1),
            prepare=inputs,
            loss=LOSSES[profile],
            score=SCORES[accuracy],
            test_client=np.asarray(data.test_user),
            position_weight=POSITION_WEIGHTS[profile],
        )
    )


_model = cache(lstm)  # equal sizes give the same object, and so the same program


def origin(users: int, sentences: int, stragglers: int) -> str:
    """Where the sizes come from, and whether they are the published ones."""
    text = f"StackOverflow: {users:,} users, {stragglers:,} of them stragglers"
    if (users, sentences, stragglers) == PUBLISHED:
        return f"{text}, as published"
    if users == PUBLISHED[0] or sentences == PUBLISHED[1]:
        return (
            f"{text}, and {sentences:,} sentences; published are {PUBLISHED[0]:,}, "
            f"{PUBLISHED[2]:,} and {PUBLISHED[1]:,}"
        )
    return f"{text}; not the published {PUBLISHED[0]:,} users"


def inputs(sentences: jax.Array, key: jax.Array | None) -> jax.Array:
    del key
    return sentences[:, :-1].astype(jnp.int32)


def targets(sentences: jax.Array) -> jax.Array:
    return sentences[:, 1:].astype(jnp.int32)


def over_expected_length(sentences: jax.Array) -> jax.Array:
    return (targets(sentences) != PAD) / EXPECTED_LENGTH


def over_length(sentences: jax.Array) -> jax.Array:
    counts = targets(sentences) != PAD
    return counts / jnp.sum(counts, axis=1, keepdims=True)


def summed(logits: jax.Array, sentences: jax.Array) -> jax.Array:
    each = cross_entropy(logits, targets(sentences))
    return jnp.sum(over_expected_length(sentences) * each, axis=1)


def averaged(logits: jax.Array, sentences: jax.Array) -> jax.Array:
    each = cross_entropy(logits, targets(sentences))
    return jnp.sum(over_length(sentences) * each, axis=1)


def words_or_wrong(logits: jax.Array, sentences: jax.Array) -> tuple[jax.Array, jax.Array]:
    y, oov = targets(sentences), logits.shape[-1] - 1
    answer = FIRST_WORD + jnp.argmax(logits[..., FIRST_WORD:oov], axis=-1)
    return _totals(answer == y, (y != PAD) & (y != EOS))


def words_alone(logits: jax.Array, sentences: jax.Array) -> tuple[jax.Array, jax.Array]:
    y, oov = targets(sentences), logits.shape[-1] - 1
    return _totals(jnp.argmax(logits, axis=-1) == y, (y != PAD) & (y != EOS) & (y != oov))


def _totals(right: jax.Array, counted: jax.Array) -> tuple[jax.Array, jax.Array]:
    total = jnp.sum(counted, axis=1, dtype=jnp.float32)
    return jnp.sum(right & counted, axis=1, dtype=jnp.float32), total


LOSSES = {"fedjax": summed, "afo": averaged}
POSITION_WEIGHTS = {"fedjax": over_expected_length, "afo": over_length}
SCORES = {"fedjax": words_or_wrong, "tff": words_alone}
