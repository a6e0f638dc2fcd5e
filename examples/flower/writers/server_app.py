"""The server: FeAST over Flower. What is late still counts, for its auxiliary model."""

import numpy as np
import optax
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from stragglers.algorithms.feast import feast
from stragglers.serving.flower.server import serve
from stragglers.simulator.coordinator import Rounds
from writers.data import CLASSES, PIXELS, SLOW, to_test_on

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    given = context.run_config
    x, y = to_test_on()
    slow = np.isin(y, list(SLOW))

    def tell(step, seconds, model):
        right = (x @ np.asarray(model["w"]) + np.asarray(model["b"])).argmax(1) == y
        print(
            f"step {step}, {seconds:.0f} s: {right[slow].mean():.1%} of 0 to 4, "
            f"{right.mean():.1%} of all",
            flush=True,
        )

    served = serve(
        grid,
        feast(optax.adam(0.05), beta=0.98, kappa=0.9),
        Rounds(int(given["goal"]), int(given["cohort"]), late_seconds=float(given["late-seconds"])),
        {"w": np.zeros((PIXELS, CLASSES), np.float32), "b": np.zeros(CLASSES, np.float32)},
        steps=int(given["steps"]),
        folder=str(given["folder"]),
        on_step=tell,
        poll_seconds=0.2,
    )
    print(f"{served.seconds:.0f} s: {served.counts}", flush=True)
