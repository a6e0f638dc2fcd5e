"""Several trials in one program, to the end."""

from stragglers.simulator.simulate import Simulation, results


def simulate_together(task, trials, algorithm, local, **options):
    return results(Simulation(task, trials, algorithm, local, **options).run())
