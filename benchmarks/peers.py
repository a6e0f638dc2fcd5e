"""This project against a plain PyTorch loop, on the same work, in one run on this machine.

    python -m benchmarks.peers [--clients N] [--rounds N] [--repeats N]

EMNIST CNN, batches of 20, 10 clients a round, 100 examples each: all equal, or log-normal with
sigma = 1. PyTorch: one client after another, batches prepared outside, as many threads as cores,
the faster of eager and channels_last; it averages the deltas as FedAvg does. Interleaved,
repeated, medians; examples that only fill a last batch count for nobody. Ours is the whole engine:
shuffling, gathering, training, dropping, averaging, the server's step.
"""

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from benchmarks import CORES

BATCH, LEARNING_RATE = 20, 0.05


def torch_round(sizes: np.ndarray, x: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], Any]]:
    """One round over clients of these sizes, for each memory format."""
    import torch  # pyright: ignore[reportMissingImports]
    from torch import nn  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(CORES)

    def network() -> Any:
        return nn.Sequential(
            nn.Conv2d(1, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.25),
            nn.Flatten(),
            nn.Linear(9216, 128),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(128, 62),
        )

    def round_of(form: Any) -> Callable[[], Any]:
        model = network().to(memory_format=form)
        start = {name: value.clone() for name, value in model.state_dict().items()}
        batches, first = [], 0
        for size in sizes:
            steps = -(-int(size) // BATCH)
            rows = first + np.arange(steps * BATCH) % int(size)
            images = torch.from_numpy(x[rows]).unsqueeze(1).to(memory_format=form)
            labels = torch.from_numpy(y[rows])
            batches.append(list(zip(images.split(BATCH), labels.split(BATCH), strict=True)))
            first += int(size)
        loss = nn.CrossEntropyLoss()

        def run() -> Any:
            total = {name: torch.zeros_like(value) for name, value in start.items()}
            for client in batches:
                model.load_state_dict(start)
                optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE)
                for images, labels in client:
                    optimizer.zero_grad()
                    loss(model(images), labels).backward()
                    optimizer.step()
                with torch.no_grad():
                    for name, value in model.state_dict().items():
                        total[name] += start[name] - value
            return total

        return run

    return {
        "eager": round_of(torch.contiguous_format),
        "channels_last": round_of(torch.channels_last),
    }


def our_round(sizes: np.ndarray, rounds: int) -> Callable[[], Any]:
    import jax
    import optax

    from benchmarks.work import made_up_task
    from stragglers.algorithms import trees
    from stragglers.algorithms.fedavg import fedavg
    from stragglers.planning.latency import Draw
    from stragglers.planning.report_weights import report_weights
    from stragglers.simulator.local_training import Local
    from stragglers.simulator.prepare import Trial, set_up
    from tests.support.plans import over_selected

    plan = over_selected(
        len(sizes),
        lambda first, who: Draw(np.ones(len(who)), sizes[who]),
        seed=0,
        goal=len(sizes),
        cohort=len(sizes),
        updates=len(sizes) * rounds,
    )
    ready = set_up(
        made_up_task(sizes, "cnn"),
        [Trial(plan)],
        fedavg(optax.sgd(1.0)),
        Local(LEARNING_RATE, BATCH),
        weigh=report_weights,
        lanes=None,
        devices=CORES,
        curve_examples=None,
        stops=[rounds],
    )

    def run() -> Any:
        carry = trees.copy(ready.carry)  # which is given away
        after = ready.advance(carry, ready.feed, np.int32(0), np.int32(rounds))
        return jax.block_until_ready(after)

    return run


def seconds(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def compare(name: str, sizes: np.ndarray, rounds: int, repeats: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((int(sizes.sum()), 28, 28), np.float32)
    y = rng.integers(0, 62, int(sizes.sum()))
    ours, theirs = our_round(sizes, rounds), torch_round(sizes, x, y)
    seconds(ours)  # compiles
    first = {form: min(seconds(run) for _ in range(2)) for form, run in theirs.items()}
    form = min(first, key=lambda form: first[form])
    ratios, mine, other = [], [], []
    for _ in range(repeats):
        other.append(sum(seconds(theirs[form]) for _ in range(rounds)))
        mine.append(seconds(ours))
        ratios.append(other[-1] / mine[-1])
    examples = int(sizes.sum()) * rounds
    print(
        f"{name}: ours {examples / median(mine):,.0f} examples/s, PyTorch ({form}) "
        f"{examples / median(other):,.0f}: {median(ratios):.2f} times as fast "
        f"({min(ratios):.2f} to {max(ratios):.2f} in {repeats} pairs)",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    try:
        import torch  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        print("PyTorch is not installed: nothing to compare with")
        return 0
    from benchmarks.work import sizes_of

    for name in ("equal", "log-normal"):
        sizes = sizes_of(options.clients, 100, name)
        compare(f"{name} sizes", sizes, options.rounds, options.repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
